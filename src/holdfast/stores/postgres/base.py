"""Transactions and the clock of the PostgreSQL store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from psycopg.errors import InvalidCursorName, UntranslatableCharacter

from holdfast.core.errors import CannotKeep
from holdfast.core.moves import transaction_ended
from holdfast.core.passwords import hide_password
from holdfast.core.stream_transactions import counted_by_stream
from holdfast.stores.group_commit import IN_READING, IN_TRANSACTION
from holdfast.stores.postgres.connection import BEGIN_TO_READ, Connections, Db
from holdfast.stores.postgres.dialect import PostgresDialect
from holdfast.stores.postgres.joined_connection import JoinedConnection, StoreIdentity, identify, join_transaction
from holdfast.stores.postgres.transaction_guard import CLOSE, GUARDED, Tx, refuse_broken_transaction
from holdfast.stores.postgres.url import quoted
from holdfast.stores.protocol import Clock
from holdfast.stores.sql.base import Base, Task
from holdfast.stores.sql.dialect import Dialect
from holdfast.stores.sql.session import Session

T = TypeVar("T")


class PostgresBase(Base):
    """One database and its clock."""

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self._db = Connections(url)  # refuses a wrong URL without showing it
        self.dialect: Dialect = PostgresDialect(self._db.schema)
        super().__init__(hide_password(url), clock=clock)
        self._identity: StoreIdentity | None = None
        self.connection_url = url
        """The URL with its password, to open more connections. Never print it."""

    def now(self) -> datetime:
        return self._clock() if self._clock else self.dialect.moment(self._value("clock"))

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        with counted_by_stream(), self._db.of_user_code(IN_TRANSACTION) as connection:
            yield self._tx(self._session(connection))

    @contextmanager
    def reading(self) -> Iterator[Tx]:
        with counted_by_stream(), self._db.of_user_code(IN_READING, BEGIN_TO_READ) as connection:
            yield self._tx(self._session(connection))

    def disconnect(self) -> None:
        self._db.disconnect()

    def close(self) -> None:
        self._db.close()

    def _now(self) -> datetime | None:
        """Return the time of a clock that was given. None means the database's clock."""
        return self._clock() if self._clock else None

    def _session(self, connection: Db) -> Session:
        return Session(connection, self.dialect, self._now)

    @contextmanager
    def _joined(self, connection: Any) -> Iterator[Session]:
        with join_transaction(connection, self._sees_our_tables, self._db.name) as theirs:
            assert self._identity is not None
            yield Session(theirs, PostgresDialect(self._identity.schema), self._now)

    def _sees_our_tables(self, theirs: JoinedConnection) -> bool:
        """Return True if a connection is to the database of the store. Ask ours again if the server was restarted."""

        def is_same(known: StoreIdentity | None) -> bool:
            return known is not None and identify(theirs, f"{quoted(known.schema)}.hf_document") == known

        if is_same(self._identity):
            return True
        self._identity = self._db.reading(lambda db: identify(db, self._db.sql("hf_document")))
        return is_same(self._identity)

    def _write(self, work: Task[T]) -> T:
        try:
            return self._db.writing(lambda connection: work(self._session(connection)))
        except UntranslatableCharacter as error:
            raise CannotKeep(
                f"{self._db.name} cannot store a text: {error}. Use a database with the encoding UTF8"
            ) from error
        finally:
            self._db.replace_changed_session()  # an undo, or the effect of a rename, may have changed it

    def _read(self, work: Task[T]) -> T:
        return self._db.reading(lambda connection: work(self._session(connection)))

    def _read_snapshot(self, work: Task[T]) -> T:
        return self._db.reading_one_moment(lambda connection: work(self._session(connection)))

    def _transaction_time(self, db: Session) -> datetime:
        return self.dialect.moment(db.value("transaction_time"))

    def _tx(self, db: Session) -> Tx:
        return Tx(db.connection, self._db.name, partial(self._submit_within, db))

    @contextmanager
    def _guarded_tx(self, db: Session, what: str) -> Iterator[Tx]:
        connection: Db = db.connection
        connection.execute(GUARDED.declare)
        with self._db.effects_running(connection):
            try:
                yield self._tx(db)
            except Exception:  # re-raised, or another error is raised that says more
                if connection.refused or connection.went_idle:
                    refuse_broken_transaction(connection, self._db.name, what)
                raise
            refuse_broken_transaction(connection, self._db.name, what)
        try:
            connection.execute(CLOSE)
        except InvalidCursorName as error:
            raise transaction_ended(what) from error
