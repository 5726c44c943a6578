"""Transactions and the clock of the SQLite store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

from holdfast.core.stream_transactions import counted_by_stream
from holdfast.stores.group_commit import IN_READING, IN_TRANSACTION
from holdfast.stores.protocol import Clock
from holdfast.stores.sql.base import Base, Task
from holdfast.stores.sql.dialect import Dialect
from holdfast.stores.sql.session import Session
from holdfast.stores.sqlite.connection import Connections, Tx
from holdfast.stores.sqlite.dialect import SqliteDialect, micros, moment
from holdfast.stores.sqlite.joined_connection import join_transaction
from holdfast.stores.sqlite_guard import BEGIN_TO_READ, COMMIT, refuse_inside_transaction

T = TypeVar("T")


class SqliteBase(Base):
    """One database file and one clock."""

    dialect: Dialect = SqliteDialect()

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        self._db = Connections(url)
        self.shared_folder = Path(f"{self._db.path.resolve()}-workers")

    def now(self) -> datetime:
        return self._clock() if self._clock else datetime.now(UTC)

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        with (
            counted_by_stream(),
            self._db.writing() as connection,
            connection.guard.guarding(connection, IN_TRANSACTION),
        ):
            yield self._tx(self._session(connection))

    @contextmanager
    def reading(self) -> Iterator[Tx]:
        with (
            counted_by_stream(),
            self._db.reading_one_moment() as connection,
            connection.guard.guarding(connection, IN_READING),
        ):
            yield self._tx(self._session(connection))

    def disconnect(self) -> None:
        self._db.disconnect()

    def close(self) -> None:
        self._db.close()

    def _now(self) -> int:
        return micros(self.now())

    def _session(self, connection: Connection) -> Session:
        return Session(connection, self.dialect, self._now)

    @contextmanager
    def _joined(self, connection: Any) -> Iterator[Session]:
        with join_transaction(connection, self._db.path, self.url) as theirs:
            yield Session(theirs, self.dialect, self._now)

    def _write(self, work: Task[T]) -> T:
        with self._db.writing() as connection:
            return work(self._session(connection))

    def _read(self, work: Task[T]) -> T:
        with self._db.reading() as connection:
            return work(self._session(connection))

    def _read_snapshot(self, work: Task[T]) -> T:
        with self._db.reading() as connection:
            refuse_inside_transaction(connection)
            connection.execute(BEGIN_TO_READ)
            try:
                return work(self._session(connection))
            finally:
                connection.execute(COMMIT)

    def _transaction_time(self, db: Session) -> datetime:
        return moment(db.now)

    def _tx(self, db: Session) -> Tx:
        return Tx(db.connection, self.url, partial(self._submit_within, db))

    @contextmanager
    def _guarded_tx(self, db: Session, what: str) -> Iterator[Tx]:
        with db.connection.guard.guarding(db.connection, what):
            yield self._tx(db)
