"""The SQL of PostgreSQL: lists are arrays, and each column of rows is an array, written as one text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from psycopg import DataError

from holdfast.stores.document_filter import as_like
from holdfast.stores.postgres.url import in_schema
from holdfast.stores.sql.dialect import MICROSECOND, Rows
from holdfast.stores.sql.query_files import Query, load_translated, to_postgres

SQL: Mapping[str, Query] = load_translated(Path(__file__).parent / "queries", to_postgres)


@cache
def queries_in(schema: str) -> Mapping[str, Query]:
    """Return the statements with the tables of one schema. Without a schema, the search path finds them."""
    escaped = schema.replace("%", "%%")  # psycopg looks for % in the whole statement
    return {name: Query(in_schema(query, escaped)) for name, query in SQL.items()} if schema else SQL


class PostgresDialect:
    """How PostgreSQL takes parameters and returns times."""

    binary: Mapping[str, bool] = {"binary": True}

    def __init__(self, schema: str = "") -> None:
        self.queries: Mapping[str, Query] = queries_in(schema)

    def encode(self, parameters: dict[str, Any]) -> dict[str, Any]:
        encoded: dict[str, Any] = {}
        for name, value in parameters.items():
            if isinstance(value, list | tuple):
                encoded[name] = array(value)
            elif isinstance(value, Rows):
                encoded |= {f"{name}_{column}": array(values) for column, values in value.columns.items()}
            else:
                encoded[name] = value
        return encoded

    def moment(self, at: datetime) -> datetime:
        return at.astimezone(UTC)  # whatever the zone of the server is

    def duration(self, span: timedelta) -> timedelta:
        return span

    def key_pattern(self, pattern: str) -> str:
        return as_like(pattern)


def array(column: Sequence[Any]) -> Literal:
    """Return a column of values of one type as an array. One without any value is null."""
    if not column:
        return "{}"
    value = next((value for value in column if value is not None), None)
    if isinstance(value, int | float):
        return numbers(column)
    if isinstance(value, datetime):
        return texts([None if at is None else at.isoformat() for at in column])
    if isinstance(value, timedelta):
        return texts([None if span is None else interval(span) for span in column])
    return texts(column)


def interval(span: timedelta) -> str:
    """Return a duration as the text of an interval: hours, minutes and seconds.

    PostgreSQL 14 reads a number of microseconds into 32 bits, which is 35 minutes. Days would follow daylight saving.
    """
    seconds, micros = divmod(abs(span) // MICROSECOND, 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if span < timedelta(0) else ""
    return f"{sign}{hours}:{minutes:02}:{seconds:02}.{micros:06}"


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
