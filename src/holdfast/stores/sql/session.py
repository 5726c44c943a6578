"""The named statements of a store, on one connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdfast.core.model import DocumentStatus
from holdfast.stores.sql.dialect import Dialect
from holdfast.stores.sql.row_codec import document_status

Row = tuple[Any, ...]

UNKNOWN = object()


class Session:
    """Runs statements by name within one transaction, or one read. All of them get the same time as `:now`."""

    __slots__ = ("_clock", "_dialect", "_now", "connection")

    def __init__(self, connection: Any, dialect: Dialect, clock: Callable[[], Any]) -> None:
        self.connection = connection
        self._dialect = dialect
        self._clock = clock
        self._now: Any = UNKNOWN

    @property
    def now(self) -> Any:
        """The time as the database takes it. None if the database's clock counts."""
        if self._now is UNKNOWN:
            self._now = self._clock()
        return self._now

    def all(self, query: str, /, **parameters: Any) -> list[Row]:
        """Return all rows."""
        rows: list[Row] = self._execute(self._dialect.queries[query], parameters).fetchall()
        return rows

    def first(self, query: str, /, **parameters: Any) -> Row | None:
        """Return the first row, or None."""
        return next(iter(self.all(query, **parameters)), None)

    def value(self, query: str, /, **parameters: Any) -> Any:
        """Return the one value of the one row."""
        ((value,),) = self.all(query, **parameters)
        return value

    def run(self, query: str, /, **parameters: Any) -> int:
        """Run a statement that returns no rows. Return how many rows it changed.

        Python's sqlite3 counts only for statements that begin with insert, update or delete, not for those with `with`.
        """
        return int(self._execute(self._dialect.queries[query], parameters).rowcount)

    def run_if_present(self, query: str, /, **parameters: Any) -> None:
        """Run a statement that only some databases need, such as a lock: SQLite has one writer, and needs none."""
        if query in self._dialect.queries:
            self.run(query, **parameters)

    def with_conditions(self, query: str, names: Iterable[str], /, **parameters: Any) -> list[Row]:
        """Return all rows of a statement with these of its conditions."""
        rows: list[Row] = self._execute(self._dialect.queries[query].with_conditions(names), parameters).fetchall()
        return rows

    def large_values(self, query: str, /, **parameters: Any) -> list[Row]:
        """Return all rows of a statement that may return large values. It has plain parameters, and no `:now`."""
        dialect = self._dialect
        rows: list[Row] = self.connection.execute(dialect.queries[query], parameters, **dialect.binary).fetchall()
        return rows

    def named(self, query: str, names: Iterable[str] = (), /, **parameters: Any) -> list[dict[str, Any]]:
        """Return all rows by the names of their columns."""
        cursor = self._execute(self._dialect.queries[query].with_conditions(names), parameters)
        columns = [column[0] for column in cursor.description]
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]

    def documents(self, query: str, names: Iterable[str] = (), /, **parameters: Any) -> list[DocumentStatus]:
        """Return rows of the view hf_document_status as values."""
        return [document_status(row, self._dialect.moment) for row in self.named(query, names, **parameters)]

    def _execute(self, sql: str, parameters: dict[str, Any]) -> Any:
        if "now" not in parameters:
            parameters["now"] = self.now
        return self.connection.execute(sql, self._dialect.encode(parameters))
