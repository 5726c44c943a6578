"""Query parameters: which there are, and how they are read. A wrong value is refused with a message."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from holdfast.core.codec import read_scalar

MAX_QUESTION_LENGTH = 2000
MAX_LENGTH = 1000
"""Characters of any other parameter."""
MAX_STARS = 6
"""More stars in one pattern would make matching names slow."""
MAX_RESULTS = 1000
MAX_NUMBER = 10**9 - 1

_NUMBER = re.compile(r"[0-9]{1,9}")
_NAME = re.compile(r'[^"\\\x00-\x1f]{1,100}')

NamesAndValues = Sequence[tuple[str, str]]


class BadParameter(Exception):
    """A parameter cannot be used. The message says which one, and what it takes."""


def _number(minimum: int, maximum: int) -> Callable[[str, str], int]:
    def parse(name: str, value: str) -> int:
        if not _NUMBER.fullmatch(value) or not minimum <= int(value) <= maximum:
            raise BadParameter(f"{name} takes a number from {minimum:,} to {maximum:,}, not {_short(value)}")
        return int(value)

    return parse


def _text(name: str, value: str) -> str:
    if len(value) > MAX_LENGTH or "\0" in value:
        raise BadParameter(f"{name} takes at most {MAX_LENGTH:,} characters, and no zero byte")
    return value


def _question(name: str, value: str) -> str:
    if not any(map(str.isalnum, value)):
        raise BadParameter(f"the question in {name} has no word and no number")
    if len(value) > MAX_QUESTION_LENGTH:
        raise BadParameter(f"{name} takes at most {MAX_QUESTION_LENGTH:,} characters")
    return value


def _pattern(name: str, value: str) -> str:
    if value.count("*") > MAX_STARS:
        raise BadParameter(f"{name} takes a pattern with at most {MAX_STARS} stars")
    return _text(name, value)


def _search_method(name: str, value: str) -> str:
    if value not in ("words", "meaning"):
        raise BadParameter(f"{name} takes words or meaning, not {_short(value)}")
    return value


def _pair(name: str, value: str) -> tuple[str, Any]:
    field, colon, wanted = _text(name, value).partition(":")
    if not colon or not _NAME.fullmatch(field):
        raise BadParameter(f"{name} takes NAME:VALUE, with no quotes in the name, not {_short(value)}")
    return field, read_scalar(wanted)


def _short(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:60] + "…")


class QueryParam(Struct, frozen=True):
    """A query parameter: its name in Python, its parser, a description, and the JSON schema of what is accepted."""

    python_name: str
    parse: Callable[[str, str], Any]
    description: str
    schema: Mapping[str, Any]


QueryParams = Mapping[str, QueryParam]
"""Query parameters by their names in a URL."""

_TEXT = {"type": "string", "maxLength": MAX_LENGTH, "pattern": r"^[^\u0000]*$"}
_POSITIVE = {"type": "integer", "minimum": 1}

SEARCH_PARAMS: QueryParams = {
    "q": QueryParam(
        "question",
        _question,
        "The question.",
        {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION_LENGTH, "pattern": r"[^\W_]|[\p{L}\p{N}]"},
    ),
    "collection": QueryParam("collection", _text, "The collection to search.", _TEXT),
    "limit": QueryParam(
        "limit", _number(1, MAX_RESULTS), "Maximum number of results.", _POSITIVE | {"maximum": MAX_RESULTS}
    ),
    "each": QueryParam(
        "each",
        _number(1, MAX_NUMBER),
        "Maximum number of results from one document.",
        _POSITIVE | {"maximum": MAX_NUMBER},
    ),
    "document": QueryParam("key", _text, "Only this document.", _TEXT),
    "path": QueryParam(
        "path",
        _pattern,
        "Only documents whose name matches this pattern, with * and ?.",
        _TEXT | {"pattern": rf"^[^*\u0000]*(\*[^*\u0000]*){{0,{MAX_STARS}}}$"},
    ),
    "type": QueryParam("kind", _text, "Only documents of this type: pdf, docx, eml, ...", _TEXT),
    "source": QueryParam("source", _text, "Only documents from this folder, file or URL.", _TEXT),
    "by": QueryParam("by", _search_method, "Search only by words, or only by meaning.", {"enum": ["words", "meaning"]}),
    "where": QueryParam(
        "metadata",
        _pair,
        "Only documents with this metadata: NAME:VALUE. Repeatable.",
        {"type": "array", "items": _TEXT | {"pattern": r'^[^":\\\u0000-\u001f]{1,100}:[^\u0000]*$'}},
    ),
}
DOCUMENT_PARAMS: QueryParams = {
    "source": QueryParam("source", _text, "Its source, as /collections/NAME lists it.", _TEXT | {"minLength": 1}),
    "key": QueryParam("key", _text, "Its key in the source.", _TEXT | {"minLength": 1}),
}
REPEATABLE = frozenset({"where"})


def parse_query(given: NamesAndValues, params: QueryParams, *, required: Sequence[str]) -> dict[str, Any]:
    """Return the parameters of a request by their names in Python. An empty one, as in a form, counts as absent.

    Raises:
        BadParameter: A parameter is unknown, missing, repeated or wrong.
    """
    if given and not params:
        raise BadParameter("this path takes no parameters")
    values: dict[str, Any] = {}
    for name, text in given:
        if name not in params:
            raise BadParameter(f"there is no parameter {_short(name)}; there are: {', '.join(params)}")
        param = params[name]
        if not text and name not in required:
            continue
        if name in REPEATABLE:
            field, wanted = param.parse(name, text)
            values.setdefault(param.python_name, {})[field] = wanted
        elif param.python_name in values:
            raise BadParameter(f"{name} is given twice; give it once")
        else:
            values[param.python_name] = param.parse(name, text)
    missing = [name for name in required if params[name].python_name not in values]
    if missing:
        raise BadParameter(f"the parameter {' and '.join(missing)} is required")
    return values
