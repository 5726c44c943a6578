"""Translate the placeholders that work on both databases, `?` and `:name`, for psycopg.

The rule for a statement with parameters:

- A statement with a placeholder of psycopg (`%s`, `%(name)s`) outside of quotes and comments is psycopg's own style. It
  is passed on as it is.
- With a sequence of parameters, each `?` is a placeholder. `??` is the operator `?` of JSON.
- With a mapping of parameters, each `:name` that the mapping has is a placeholder. `?` is left alone, and so are casts
  (`::text`) and slices (`[1:n]`).
- In a statement that is translated, `%` is an ordinary character.

Nothing is translated in texts, quoted names, quoted bodies ($$...$$) and comments. A statement without parameters is
never changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

Kind = Literal["text", "native", "question", "operator", "name"]

_TOKEN = re.compile(
    r"""
    (?P<escaped>[eE]'(?:[^'\\]|''|\\.)*(?:'|\Z))             # a text with backslashes
  | (?P<word>[^\W\d][\w$]*)                                  # a word: a dollar in it begins no quoted body
  | (?P<quoted>'(?:[^']|'')*(?:'|\Z)|"(?:[^"]|"")*(?:"|\Z))  # a text or a quoted name
  | (?P<body>\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?(?:\$(?P=tag)\$|\Z))
  | (?P<line>--[^\n]*)
  | (?P<block>/\*)
  | (?P<native>%(?:\([^)]*\))?[sbt])
  | (?P<percent>%%)
  | (?P<cast>::)
  | (?P<operator>\?\?)
  | (?P<question>\?)
  | (?<![\w\])]):(?P<name>[^\W\d]\w*)                       # directly after a word it is a slice: a[1:n]
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS: Mapping[str, Kind] = {"native": "native", "question": "question", "operator": "operator"}
_BLOCK_EDGE = re.compile(r"/\*|\*/")


class Token(NamedTuple):
    """A part of a statement. `text` is as it was written; for a name, it is without the colon."""

    kind: Kind
    text: str


def translate(statement: str, parameters: Any) -> str:
    """Return a statement in the style of psycopg.

    Args:
        statement: The statement, with `?`, `:name`, `%s` or `%(name)s`.
        parameters: Its parameters, or one set of them for `executemany`.
    """
    if isinstance(parameters, Mapping):
        return _with_names(statement, frozenset(parameters)) if ":" in statement else statement
    return _with_places(statement) if "?" in statement else statement


@lru_cache(1024)
def _with_places(statement: str) -> str:
    tokens = [*_split(statement)]
    kinds = {token.kind for token in tokens}
    if "native" in kinds or not kinds & {"question", "operator"}:
        return statement
    texts = {"question": "%s", "operator": "?"}
    return "".join(texts.get(token.kind) or _plain(token) for token in tokens)


@lru_cache(1024)
def _with_names(statement: str, names: frozenset[str]) -> str:
    tokens = [*_split(statement)]
    named = any(token.kind == "name" and token.text in names for token in tokens)
    if not named or any(token.kind == "native" for token in tokens):
        return statement
    return "".join(
        f"%({token.text})s" if token.kind == "name" and token.text in names else _plain(token) for token in tokens
    )


def _plain(token: Token) -> str:
    text = f":{token.text}" if token.kind == "name" else token.text
    return text.replace("%", "%%")  # psycopg looks for % in the whole statement, also in texts


def _split(statement: str) -> Iterator[Token]:
    place = 0
    while found := _TOKEN.search(statement, place):
        if found.start() > place:
            yield Token("text", statement[place : found.start()])
        kind = found.lastgroup
        place = found.end()
        if kind == "block":
            place = _end_of_block(statement, place)
            yield Token("text", statement[found.start() : place])
        elif kind == "name":
            yield Token("name", found["name"])
        else:
            yield Token(_KINDS.get(kind or "", "text"), found[0])
    if place < len(statement):
        yield Token("text", statement[place:])


def _end_of_block(statement: str, place: int) -> int:
    """Return where a comment ends that began before `place`. PostgreSQL has comments within comments."""
    depth = 1
    while depth and (edge := _BLOCK_EDGE.search(statement, place)):
        depth += 1 if edge[0] == "/*" else -1
        place = edge.end()
    return place if depth == 0 else len(statement)
