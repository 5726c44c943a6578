"""Types of columns: infer them from the first records, and convert texts to them, a column at a time."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from math import isfinite
from typing import Any

from msgspec.json import decode as json_decode

from holdfast.pipelines.files.values import Column, FileRefused, FilesError, Kind

SMALLEST, LARGEST = -(2**63), 2**63 - 1
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}")
_BOOLEANS = {"true": True, "false": False}
_MORE_BOOLEANS = _BOOLEANS | {"t": True, "f": False, "1": True, "0": False, "yes": True, "no": False}


def infer_columns(
    names: Sequence[str],
    records: Sequence[Sequence[Any]],
    types: Mapping[str, Kind] | None = None,
    *,
    kind_of_text: Callable[[str], Kind] | None = None,
) -> list[Column]:
    """Infer the types of columns from the first records.

    Args:
        names: The names of the columns.
        records: Values by position: texts of CSV files, or values of JSON. None and the empty text say nothing.
        types: Types that are given. They win.
        kind_of_text: What a text may be: a number too, in a CSV file.

    Raises:
        FilesError: A type is given for a column that there is not.
    """
    given = types or {}
    if unknown := [name for name in given if name not in names]:
        raise FilesError(f"there is no column {', '.join(unknown)}; the file has: {', '.join(names)}")
    columns = []
    for place, name in enumerate(names):
        values = [record[place] for record in records if place < len(record) and record[place] not in (None, "")]
        columns.append(Column(name, given.get(name) or _infer(values, kind_of_text or time_or_text)))
    return columns


def _infer(values: Sequence[Any], kind_of_text: Callable[[str], Kind]) -> Kind:
    if not values:
        return "text"
    kinds = {kind_of_text(value) if isinstance(value, str) else _kind_of(value) for value in values}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds == {"integer", "real"}:
        return "real"
    if kinds == {"date", "timestamp"}:
        return "timestamp"
    if "timestamptz" in kinds and kinds <= {"date", "timestamp", "timestamptz"}:
        return "text"
    return "json" if not all(isinstance(value, str) for value in values) else "text"


def _kind_of(value: Any) -> Kind:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer" if SMALLEST <= value <= LARGEST else "real"
        case float():
            return "real"
        case bytes():
            return "bytes"
        case datetime():
            return "timestamp" if value.tzinfo is None else "timestamptz"
        case date():
            return "date"
        case _:
            return "json"


def number_or_text(value: str) -> Kind:
    """Return what a text of a CSV file is."""
    if _INTEGER.fullmatch(value):
        return "integer" if SMALLEST <= int(value) <= LARGEST else "text"
    if _REAL.fullmatch(value) and not _LEADING_ZERO.match(value) and not value.startswith("+"):
        return "real"
    if value.lower() in _BOOLEANS:
        return "boolean"
    return time_or_text(value)


def time_or_text(value: str) -> Kind:
    """Return what a text of a JSON file is."""
    return _kind_of_time(value) if _DATE.match(value) else "text"


def _kind_of_time(value: str) -> Kind:
    try:
        found = _timestamp(value)
    except ValueError:
        return "text"
    if len(value) == 10:
        return "date"
    if not _TIMESTAMP.match(value):
        return "text"
    return "timestamp" if found.tzinfo is None else "timestamptz"


def match_columns(names: Sequence[str], columns: Sequence[Column], where: str) -> list[int | None]:
    """Return for each column of the target which field of the file it gets; None if the file has none.

    Raises:
        FileRefused: The file has a field that the target does not have.
    """
    known = {column.name: place for place, column in enumerate(columns)}
    if unknown := [name for name in names if name not in known]:
        raise FileRefused(
            f"{where} has the column {', '.join(map(repr, unknown))}, which the target does not have; it has: "
            f"{', '.join(known)}. Add the column to the table, or drop it in a transform"
        )
    places = {name: place for place, name in enumerate(names)}
    return [places.get(column.name) for column in columns]


def convert_column(kind: Kind, values: Sequence[str]) -> Sequence[Any]:
    """Convert a column of texts. An empty text is no value, except in a column of texts.

    Raises:
        ValueError: A text is not of this type.
    """
    if kind == "text":
        return values
    convert = _COLUMN[kind]
    if "" not in values:
        return convert(values)
    present = iter(convert([value for value in values if value]))
    return [next(present) if value else None for value in values]


def convert_text(kind: Kind, value: str) -> Any:
    """Convert one text. Raise ValueError if it is not of this type."""
    return convert_column(kind, (value,))[0]


def _plain(values: Sequence[str]) -> Sequence[str]:
    """Refuse what Python reads as a number and databases do not: underscores, and digits of other scripts."""
    joined = "".join(values)
    if "_" in joined or not joined.isascii():
        raise ValueError("a number has other characters than digits")
    return values


def _integers(values: Sequence[str]) -> list[int]:
    converted = list(map(int, _plain(values)))
    if converted and (min(converted) < SMALLEST or max(converted) > LARGEST):
        raise ValueError("a number does not fit into 64 bits")
    return converted


def _reals(values: Sequence[str]) -> list[float]:
    converted = list(map(float, _plain(values)))
    if not isfinite(sum(converted)) and not all(map(isfinite, converted)):
        raise ValueError("a number is not finite")
    return converted


def _booleans(values: Sequence[str]) -> list[bool]:
    try:
        return [_MORE_BOOLEANS[value] for value in map(str.lower, values)]
    except KeyError as error:
        raise ValueError(f"{error} is neither true nor false") from None


def _timestamp(value: str) -> datetime:
    if len(value) < 10 or value[4] != "-":
        raise ValueError(value)
    return datetime.fromisoformat(value)


def _dates(values: Sequence[str]) -> Sequence[str]:
    if not {10}.issuperset(map(len, values)):
        raise ValueError("a date has another form")
    deque(map(date.fromisoformat, values), 0)
    return values


def _times(values: Sequence[str]) -> set[bool]:
    """Return whether these times have time zones. One call for all: it is the slowest conversion."""
    if any(value[4:5] != "-" or len(value) < 10 for value in values):
        raise ValueError("a time has another form")
    return {found.tzinfo is not None for found in map(datetime.fromisoformat, values)}


def _timestamps(values: Sequence[str]) -> Sequence[str]:
    if True in _times(values):
        raise ValueError("a time has a time zone")
    return values


def _timestamps_with_zone(values: Sequence[str]) -> Sequence[str]:
    if False in _times(values):
        raise ValueError("a time has no time zone")
    return values


def _json(values: Sequence[str]) -> Sequence[str]:
    for value in values:
        json_decode(value)
    return values


_COLUMN: dict[Kind, Callable[[Sequence[str]], Sequence[Any]]] = {
    "integer": _integers,
    "real": _reals,
    "boolean": _booleans,
    "date": _dates,
    "timestamp": _timestamps,
    "timestamptz": _timestamps_with_zone,
    "json": _json,
    "bytes": lambda values: [value.encode() for value in values],
}
WORDS: dict[Kind, str] = {
    "text": "a text",
    "integer": "a whole number of 64 bits",
    "real": "a number",
    "boolean": "true or false",
    "date": "a date such as 2026-01-31",
    "timestamp": "a time without a time zone, such as 2026-01-31T23:59:00",
    "timestamptz": "a time with a time zone, such as 2026-01-31T23:59:00Z",
    "json": "JSON",
    "bytes": "bytes",
}
"""The types in sentences."""


def unique_names(names: Sequence[str]) -> list[str]:
    """Return names of columns without blanks around them: an empty one becomes `column_3`, a second `x` `x_2`."""
    found: list[str] = []
    for place, name in enumerate(names, 1):
        base = name.strip() or f"column_{place}"
        candidate, number = base, 1
        while candidate.lower() in (known.lower() for known in found):
            number += 1
            candidate = f"{base}_{number}"
        found.append(candidate)
    return found
