"""What differs between databases: how parameters are written, how times are read back, and the SQL itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from holdfast.core.text_limits import MAX_NAME, MAX_REASON, shorten
from holdfast.stores.sql.query_files import Query

MICROSECOND = timedelta(microseconds=1)


class Rows:
    """A table of values as one parameter, by columns: `rows(:name) as ...` in SQL. All columns have the same length."""

    __slots__ = ("columns",)

    def __init__(self, **columns: Sequence[Any]) -> None:
        self.columns = columns


class Dialect(Protocol):
    """One database."""

    queries: Mapping[str, Query]
    """The statements, by name."""

    binary: Mapping[str, bool]
    """The options of `execute` for rows that may hold large values."""

    def encode(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return parameters as the driver takes them: lists, `Rows`, times and durations. The dict may change."""

    def moment(self, at: Any) -> datetime:
        """Return a time of the database in UTC."""

    def duration(self, span: Any) -> timedelta:
        """Return a duration of the database."""

    def key_pattern(self, pattern: str) -> str:
        """Return a pattern of keys, with * and ?, in the language of the database."""


def without_nul(text: str) -> str:
    """Replace NUL in a text for people. PostgreSQL cannot store it, and SQLite's JSON functions end the text there."""
    return text.replace("\0", "\ufffd")


def stored_reason(text: str) -> str:
    """Return a reason as stores keep it: without NUL, and cut if it is long."""
    return without_nul(shorten(text, MAX_REASON))


def stored_name(who: str) -> str:
    """Return the name of a person or a program as stores keep it: without NUL, and cut if it is long."""
    return without_nul(shorten(who, MAX_NAME))
