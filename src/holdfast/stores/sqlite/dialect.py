"""The SQL of SQLite: lists and rows are JSON, times and durations are microseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.core.codec import encode_json
from holdfast.stores.document_filter import as_glob
from holdfast.stores.sql.dialect import MICROSECOND, Rows
from holdfast.stores.sql.query_files import Query, load_translated, to_sqlite

SQL: Mapping[str, Query] = load_translated(Path(__file__).parent / "queries", to_sqlite)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 12, 30, tzinfo=UTC)
EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
"""With a day to spare, so that each has a date in every zone."""


class SqliteDialect:
    """How SQLite takes parameters and returns times."""

    queries: Mapping[str, Query] = SQL
    binary: Mapping[str, bool] = {}

    def encode(self, parameters: dict[str, Any]) -> dict[str, Any]:
        for name, value in parameters.items():
            if encode := ENCODERS[type(value)]:
                parameters[name] = encode(value)
        return parameters

    def moment(self, at: int) -> datetime:
        return moment(at)

    def duration(self, span: int) -> timedelta:
        return span * MICROSECOND

    def key_pattern(self, pattern: str) -> str:
        return as_glob(pattern)


def micros(at: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (at - EPOCH) // MICROSECOND


def moment(micros_since_1970: int) -> datetime:
    """Return microseconds since 1970 as a time. A number that no calendar has becomes the last or the first date."""
    try:
        return EPOCH + micros_since_1970 * MICROSECOND
    except OverflowError:  # somebody edited it
        return LATEST if micros_since_1970 > 0 else EARLIEST


def _span(duration: timedelta) -> int:
    return duration // MICROSECOND


def _json_rows(rows: Rows) -> str:
    return encode_json([*zip(*map(_column, rows.columns.values()), strict=True)])


def _column(column: Sequence[Any]) -> Sequence[Any]:
    """Encode a column of values of one type."""
    for value in column:
        if value is not None:
            encode = ENCODERS[type(value)]
            return [None if value is None else encode(value) for value in column] if encode else column
    return column


class _Encoders(dict[type, Callable[[Any], Any] | None]):
    """The function that encodes values of a type, or None. A derived type, such as pandas.Timestamp, is found once."""

    def __missing__(self, kind: type) -> Callable[[Any], Any] | None:
        self[kind] = next((encode for base, encode in self.items() if encode and issubclass(kind, base)), None)
        return self[kind]


ENCODERS = _Encoders({datetime: micros, timedelta: _span, list: encode_json, tuple: encode_json, Rows: _json_rows})
