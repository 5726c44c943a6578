"""Array literals: a column of values as one text that PostgreSQL reads as an array.

psycopg converts a list element by element, in about 2 us each. A group of 500 moves has 5,000 elements. So columns
are joined here with a few calls that run in C, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import DataError

Literal = str | None
"""An array as text, or None for a column in which every row is null: `unnest` adds the nulls."""


def numbers(column: Sequence[int | None]) -> Literal:
    """Return a column of numbers as an array."""
    if column and column.count(column[0]) == len(column):  # documents often go the same way together
        joined = f"{column[0]}," * (len(column) - 1) + str(column[0])
    else:
        joined = str(list(column))[1:-1]
    return "{" + joined.replace("None", "null") + "}"


def sparse_numbers(column: Sequence[int | None]) -> Literal:
    """Return a column of numbers as an array, or None if all are null."""
    return None if column.count(None) == len(column) else numbers(column)


def texts(column: Sequence[str | None]) -> Literal:
    """Return a column of texts as an array, or None if all are null."""
    try:
        joined = "\0".join(column)  # type: ignore[arg-type]  # the usual column has no nulls
    except TypeError:
        return _with_nulls(column)
    if joined.count("\0") >= max(len(column), 1):
        raise DataError("PostgreSQL keeps no text with the character NUL (0x00) in it; replace or drop it")
    return '{"' + _escaped(joined).replace("\0", '","') + '"}' if column else "{}"


def bytes_(column: Sequence[bytes | None]) -> Literal:
    """Return a column of bytes as an array, or None if all are null."""
    if column.count(None) == len(column):
        return None
    return "{" + ",".join(["null" if data is None else f'"\\\\x{data.hex()}"' for data in column]) + "}"


def _with_nulls(column: Sequence[str | None]) -> Literal:
    if column.count(None) == len(column):
        return None
    if any("\0" in text for text in column if text):
        raise DataError("PostgreSQL keeps no text with the character NUL (0x00) in it; replace or drop it")
    return "{" + ",".join(["null" if text is None else f'"{_escaped(text)}"' for text in column]) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
