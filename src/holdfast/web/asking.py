"""The parameters of a request, read strictly: what is not understood is refused with a sentence, never guessed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from holdfast.core.codec import read_scalar

LONGEST_QUESTION = 2000
LONGEST = 1000
"""Characters of any other parameter."""
MOST_STARS = 6
"""More in one pattern would make matching names slow."""
MOST_ANSWERS = 1000
MANY = 10**9 - 1
DEFAULT = "documents"

_NUMBER = re.compile(r"[0-9]{1,9}")
_NAME = re.compile(r'[^"\\\x00-\x1f]{1,100}')

Pairs = Sequence[tuple[str, str]]


class NotUnderstood(Exception):
    """A parameter that cannot be used. The message says which, and what it takes."""


def _number(least: int, most: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not _NUMBER.fullmatch(value) or not least <= int(value) <= most:
            raise NotUnderstood(f"{name} takes a number from {least:,} to {most:,}, not {_short(value)}")
        return int(value)

    return read


def _text(name: str, value: str) -> str:
    if len(value) > LONGEST or "\0" in value:
        raise NotUnderstood(f"{name} takes at most {LONGEST:,} characters, none of them a zero byte")
    return value


def _question(name: str, value: str) -> str:
    if not any(map(str.isalnum, value)):
        raise NotUnderstood(f"{name} takes the question, such as {name}=notice+period; it has no word and no number")
    if len(value) > LONGEST_QUESTION:
        raise NotUnderstood(f"{name} takes at most {LONGEST_QUESTION:,} characters")
    return value


def _pattern(name: str, value: str) -> str:
    if value.count("*") > MOST_STARS:
        raise NotUnderstood(f"{name} takes a pattern with at most {MOST_STARS} stars")
    return _text(name, value)


def _way(name: str, value: str) -> str:
    if value not in ("words", "meaning"):
        raise NotUnderstood(f"{name} takes words or meaning, not {_short(value)}")
    return value


def _pair(name: str, value: str) -> tuple[str, Any]:
    field, colon, wanted = _text(name, value).partition(":")
    if not colon or not _NAME.fullmatch(field):
        raise NotUnderstood(f"{name} takes NAME:VALUE, with no quotes in the name, not {_short(value)}")
    return field, read_scalar(wanted)


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:60] + "…")


class Parameter(Struct, frozen=True):
    """What a parameter is called in Python, what reads it, what it means, and the JSON schema of all that is read."""

    called: str
    read: Callable[[str, str], Any]
    means: str
    schema: Mapping[str, Any]


Readers = Mapping[str, Parameter]
"""Parameters by their names."""

_TEXT = {"type": "string", "maxLength": LONGEST, "pattern": r"^[^\u0000]*$"}
_NUMBERS = {"type": "integer", "minimum": 1}

SEARCH: Readers = {
    "q": Parameter(
        "question",
        _question,
        "the question",
        {"type": "string", "minLength": 1, "maxLength": LONGEST_QUESTION, "pattern": r"[^\W_]|[\p{L}\p{N}]"},
    ),
    "collection": Parameter("collection", _text, "which collection", _TEXT | {"default": DEFAULT}),
    "limit": Parameter(
        "limit",
        _number(1, MOST_ANSWERS),
        "so many answers, at most",
        _NUMBERS | {"maximum": MOST_ANSWERS, "default": 10},
    ),
    "each": Parameter(
        "each", _number(1, MANY), "so many answers of one document, at most", _NUMBERS | {"maximum": MANY}
    ),
    "document": Parameter("key", _text, "only this document", _TEXT),
    "path": Parameter(
        "path",
        _pattern,
        "only documents whose names are like this, with * and ?",
        _TEXT | {"pattern": rf"^[^*\u0000]*(\*[^*\u0000]*){{0,{MOST_STARS}}}$"},
    ),
    "type": Parameter("kind", _text, "only documents of this type: pdf, docx, eml, ...", _TEXT),
    "source": Parameter("source", _text, "only what came from this folder, file or URL", _TEXT),
    "by": Parameter("by", _way, "only one of the two ways of looking", {"enum": ["words", "meaning"]}),
    "where": Parameter(
        "metadata",
        _pair,
        "only documents with this metadata: NAME:VALUE",
        {"type": "array", "items": _TEXT | {"pattern": r'^[^":\\\u0000-\u001f]{1,100}:[^\u0000]*$'}},
    ),
}
DOCUMENT: Readers = {
    "source": Parameter("source", _text, "where it came from, as /collections/NAME has it", _TEXT | {"minLength": 1}),
    "key": Parameter("key", _text, "what it is called there", _TEXT | {"minLength": 1}),
}
REPEATED = frozenset({"where"})


def read(given: Pairs, readers: Readers, *, needed: Sequence[str]) -> dict[str, Any]:
    """Gives the parameters of a request by their names in Python. One that is empty, as in a form, is not there."""
    asked: dict[str, Any] = {}
    for name, value in given:
        if name not in readers:
            raise NotUnderstood(f"there is no parameter {_short(name)}; there are: {', '.join(readers)}")
        called, reader = readers[name].called, readers[name].read
        if not value and name not in needed:
            continue
        if name in REPEATED:
            field, wanted = reader(name, value)
            asked.setdefault(called, {})[field] = wanted
        elif called in asked:
            raise NotUnderstood(f"{name} is there twice, and can be only once")
        else:
            asked[called] = reader(name, value)
    missing = [name for name in needed if readers[name].called not in asked]
    if missing:
        raise NotUnderstood(f"{' and '.join(missing)} must be there")
    return asked
