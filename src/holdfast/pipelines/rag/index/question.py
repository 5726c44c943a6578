"""Parse the question of a search: phrases in quotes, words that results must not have, and filters.

    tides "spring tide" -neap title:harbour path:survey/* type:pdf

No question is an error. What is not complete, such as a quote without its end, is read as words.
"""

from __future__ import annotations

import re
from typing import get_args

from msgspec import Struct

from holdfast.pipelines.rag.extract.file_type import FileType
from holdfast.pipelines.rag.index.tokenizer import words_of

MAX_PARTS = 20
"""Phrases, excluded words and filters that are read as such, at most of each. Others are words: each costs a search."""
MAX_STARS = 6
"""Stars in a pattern of paths. More would take a database very long; the pattern is read as words instead."""
_QUOTES = str.maketrans("\u201c\u201d\u201e\u201f", '""""')
_ITEM = re.compile(
    r"""(?:[(\[]+(?="))?            # a bracket before a phrase
        (?P<minus>-)?
        (?:(?P<field>title|path|type):)?
        (?:"(?P<quoted>[^"]*)"(?=\W|$)|(?P<word>\S+))""",
    re.VERBOSE,
)
_WILDCARD = re.compile(r"[*?]")
FILE_TYPES = frozenset(get_args(FileType))


class Question(Struct, frozen=True, kw_only=True):
    """A question, parsed.

    Args:
        text: Its words, without the syntax: what vectors are made of, and what ranks.
        phrases: Words that results must have in this order.
        excluded: Words and phrases that results must not have.
        titles: Words or phrases that the title of the document must have.
        paths: Patterns that the key of the document must match.
        kinds: File types, one of which the document must have.
    """

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def restricts_chunks(self) -> bool:
        """True if chunks must have phrases or must not have words."""
        return bool(self.phrases or self.excluded)


def parse_question(question: str) -> Question:
    """Parse a question. A question without syntax is its own text, unchanged."""
    found: dict[str, list[str]] = {"text": [], "phrases": [], "excluded": [], "titles": [], "paths": [], "kinds": []}
    for match in _ITEM.finditer(question.translate(_QUOTES)):
        part, value = _read(match)
        if len(found[part]) >= MAX_PARTS and part != "text":
            part = "text"
        found[part].append(value)
        if part == "phrases":
            found["text"].append(value)
    words = " ".join(filter(None, found.pop("text")))
    parts = {name: tuple(dict.fromkeys(values)) for name, values in found.items()}
    if not any(parts.values()):
        return Question(text=question)
    filters = " ".join((*parts["titles"], *parts["paths"], *parts["kinds"]))
    if text := next((text for text in (words, filters) if words_of(text)), None):
        return Question(text=text, **parts)
    return Question(text=question)  # only exclusions: they are what the question is about


def _read(match: re.Match[str]) -> tuple[str, str]:
    """Return what an item of a question is, and its value."""
    field, quoted, word = match["field"], match["quoted"], match["word"]
    value = (word if quoted is None else quoted).strip()
    if not words_of(value):
        return "text", ""
    if match["minus"]:
        can_be_excluded = field is None and (quoted is not None or value[0].isalpha())
        return ("excluded" if can_be_excluded else "text"), value
    if field == "type":
        return ("kinds", value.lower()) if value.lower() in FILE_TYPES else ("text", value)
    if field == "path" and value.count("*") > MAX_STARS:
        return "text", value
    if field is not None:
        return ("titles", value) if field == "title" else ("paths", _pattern_of(value))
    return ("text" if quoted is None else "phrases"), value


def _pattern_of(path: str) -> str:
    """Return the pattern of a path: as it is if it has * or ?, otherwise a part of the path."""
    return path if _WILDCARD.search(path) else f"*{path.replace('[', '[[]')}*"
