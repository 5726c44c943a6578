"""Transactions on one PostgreSQL database, with the connection of the thread.

A connection may be lost after the database has committed and before its answer arrives. Then the database is asked for
the receipt of the transaction; nothing is guessed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import random
from typing import Any, TypeVar

import psycopg
from psycopg.errors import InsufficientPrivilege, InvalidCursorName, UndefinedColumn, UndefinedTable
from psycopg.pq import TransactionStatus

from holdfast.core.errors import BodyError, StoreError, StoreGone, StoreReadOnly, upgraded
from holdfast.stores.group_commit import CALLED_INSIDE_TRANSACTION
from holdfast.stores.postgres.connection_watchdog import WatchedConnection, require_confirmed
from holdfast.stores.postgres.error_mapping import (
    Collided,
    ConnectionLost,
    is_database_trouble,
    no_write_rights,
    own_statement,
)
from holdfast.stores.postgres.receipts import SETTLE, Receipt
from holdfast.stores.postgres.session_state import is_clean, remember_session, reported
from holdfast.stores.postgres.thread_connections import Link, ThreadConnections
from holdfast.stores.postgres.transaction_guard import UNGUARDED, Guard, GuardGone, refuse_broken_transaction

Db = WatchedConnection
T = TypeVar("T")

PAUSES = (0.02, 0.1, 0.5, 2.0)
"""How long to wait, at most, before a lost or collided transaction is tried for the 2nd, 3rd, 4th and 5th time."""

BEGIN_TO_READ = "begin isolation level repeatable read, read only"
BEGIN_TO_MIGRATE = "begin isolation level read committed"


class _Effects(threading.local):
    """The databases whose effects run in this thread."""

    databases: tuple[Any, ...] = ()


_EFFECTS = _Effects()


class Connections(ThreadConnections):
    """The connections of this process to one database, and the transactions on them."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.idle_limit = float("inf")
        self.newest: int | None = None
        """The newest schema that this holdfast knows."""

    def once(self, work: Callable[[Db], T]) -> T:
        """Run a transaction at most once. Raise ConnectionLost if it is not known whether it was committed."""

        def confirmed(db: Db) -> T:
            result = work(db)
            require_confirmed(db)
            return result

        return self._ask(self._idle(), confirmed)

    def reading(self, work: Callable[[Db], T]) -> T:
        """Run statements that only read. Run them again if the connection was lost."""
        return self.again(lambda: self._ask(self._mine(), work))

    def reading_one_moment(self, work: Callable[[Db], T]) -> T:
        """Run several statements that only read, all of the same moment."""
        return self.repeating(work, BEGIN_TO_READ)

    def writing(self, work: Callable[[Db], T], guard: Guard = UNGUARDED) -> T:
        """Run one write transaction. Run it again if the connection was lost before it was committed."""

        def attempt() -> T:
            with self.transaction(guard=guard) as db:
                return self._ask(db, work)

        return self.again(attempt)

    def repeating(self, work: Callable[[Db], T], begin: str = "") -> T:
        """Run one transaction. If the answer to its commit is lost, run it again, even if it was committed."""

        def attempt() -> T:
            db, _ = self._begin(begin)
            with _rolled_back_on_error(db):
                result = self._ask(db, work)
                self._ask(db, _commit)
            return result

        return self.again(attempt)

    @contextmanager
    def transaction(self, begin: str = "", guard: Guard = UNGUARDED) -> Iterator[Db]:
        """Run one transaction and commit it. If the connection is lost then, find out whether it was committed."""
        db, receipt = self.again(lambda: self._begin(begin, guard))
        with _rolled_back_on_error(db):
            yield db
        try:
            self._ask(db, lambda db: _commit(db, guard))
        except ConnectionLost:
            if receipt is None or not self._was_committed(receipt):
                raise

    @contextmanager
    def of_user_code(self, what: str, begin: str = "") -> Iterator[Db]:
        """Run one transaction for user code that messages call `what`. It leaves nothing behind in its session."""
        self.again(lambda: self._ask(self._idle(), remember_session))
        try:
            with self.transaction(begin) as db:
                with db.effects_running():
                    yield db
                if db.refused or db.went_idle or db.pgconn.transaction_status == TransactionStatus.ACTIVE:
                    refuse_broken_transaction(db, self.name, what)
        finally:
            self.replace_changed_session()

    @contextmanager
    def effects_running(self, db: Db) -> Iterator[None]:
        """Guard a transaction while its effects run, and refuse calls of any store on the same database in them."""
        _EFFECTS.databases += (self.database,)
        try:
            with db.effects_running():
                yield
        finally:
            _EFFECTS.databases = _EFFECTS.databases[:-1]

    def replace_changed_session(self) -> None:
        """Close the connection of this thread if user code left something behind in its session."""
        link: Link | None = getattr(self._local, "link", None)  # None: the store was closed meanwhile
        if link is None or link.db.closed or not link.db.reported:
            return
        is_changed = link.db.suspicious or reported(link.db) != link.db.reported
        if is_changed and not self._is_clean(link.db):
            link.db.close()

    def _close_changed_session(self) -> bool:
        """Close the connection of this thread if effects have changed its session. Return True if they have."""
        link: Link | None = getattr(self._local, "link", None)
        if link is None or link.db.session_state is None or self._is_clean(link.db):
            return False
        link.db.close()
        return True

    def _is_clean(self, db: Db) -> bool:
        with suppress(psycopg.Error):
            return is_clean(db)
        return False

    def again(self, attempt: Callable[[], T]) -> T:
        """Run an attempt again, a few times, if its connection was lost or transactions collided."""
        for pause in PAUSES:
            try:
                return attempt()
            except (ConnectionLost, Collided):
                self._close_changed_session()
                time.sleep(pause * random())  # noqa: S311
            except (StoreReadOnly, UndefinedTable, UndefinedColumn) as error:
                if self._close_changed_session():  # a trigger can change it, and no text of an effect says so
                    continue
                if not isinstance(error, StoreReadOnly):
                    self._refuse_newer(error)
                raise
        return attempt()

    def _refuse_newer(self, error: psycopg.Error) -> None:
        """Raise SchemaNewer if a statement failed because the schema was upgraded meanwhile."""
        if self.newest is not None:
            ((version,),) = self._idle().execute(self.sql("select max(version) from hf_schema")).fetchall()
            if version > self.newest:
                raise upgraded(self.name, version, self.newest) from error

    def _begin(self, begin: str, guard: Guard = UNGUARDED) -> tuple[Db, Receipt | None]:
        """Begin a transaction with these words. Without words it is one that writes, and it gets a receipt."""

        def start(db: Db) -> tuple[Db, Receipt | None]:
            link: Link = self._local.link
            if guard is not UNGUARDED:
                remember_session(db)
            receipt = None if begin else Receipt(link.mark, next(link.numbers))
            try:
                first = db.local_settings + guard.declare
                begun = db.execute(
                    receipt.begin(first, schema=self.schema) if receipt else f"{begin};{db.local_settings}"
                )
            except psycopg.Error as error:
                _roll_back(db)  # it may have begun before it failed
                if isinstance(error, InsufficientPrivilege):
                    raise no_write_rights(self.name, error) from error
                raise
            if receipt:
                while begun.nextset():
                    pass
                ((self.idle_limit,),) = begun.fetchall()
            return db, receipt

        return self._ask(self._idle(), start)

    def _ask(self, db: Db, work: Callable[[Db], T]) -> T:
        with own_statement(db, self.name):
            return work(db)

    def settling(self, work: Callable[[Db], T]) -> T:
        """Find out what a commit did whose answer was lost, as durably as the server commits anything."""
        try:
            return self.repeating(work)
        except (ConnectionLost, Collided) as error:
            raise StoreGone(
                f"{self.name} lost the answer to a commit, and it is not known whether it was kept: {error}. All of it "
                "is there, or nothing. Start again when the database answers: what was kept is not done again"
            ) from error

    def _was_committed(self, receipt: Receipt) -> bool:
        return self.settling(lambda db: db.execute(self.sql(SETTLE), receipt._asdict()).fetchone()) == (True,)

    def disconnect(self) -> None:
        """Close every connection of this process. The next use opens a new one."""
        self._refuse_to_close_in_effect()
        super().disconnect()

    def close(self) -> None:
        """Close every connection of this process."""
        self._refuse_to_close_in_effect()
        super().close()

    def _refuse_to_close_in_effect(self) -> None:
        link: Link | None = getattr(self._local, "link", None)
        if link is not None and link.db.runs_effects:
            raise BodyError(CALLED_INSIDE_TRANSACTION)

    def _idle(self) -> Db:
        if self.database in _EFFECTS.databases:
            raise BodyError(CALLED_INSIDE_TRANSACTION)
        db = self._mine()
        if db.pgconn.transaction_status != TransactionStatus.IDLE:
            raise BodyError(CALLED_INSIDE_TRANSACTION)
        return db


@contextmanager
def _rolled_back_on_error(db: Db) -> Iterator[None]:
    try:
        yield
    except BaseException:  # re-raised; any error ends the transaction
        _roll_back(db)
        raise


class CommitRefused(Exception):
    """A commit failed because of something that an effect did: a deferred constraint, or a trigger that raises."""


def _commit(db: Db, guard: Guard = UNGUARDED) -> None:
    try:
        answer = db.execute(guard.commit)
    except psycopg.Error as error:
        if guard is UNGUARDED or db.closed:
            raise
        if db.pgconn.transaction_status == TransactionStatus.INERROR and isinstance(error, InvalidCursorName):
            _roll_back(db)
            raise GuardGone from error
        if is_database_trouble(error):
            raise
        raise CommitRefused from error
    while answer.nextset():
        pass
    if answer.statusmessage != "COMMIT":  # PostgreSQL answers ROLLBACK if a statement failed before
        raise StoreError("the transaction was rolled back: a statement in it failed, and its error was passed over")
    require_confirmed(db)


def _roll_back(db: Db) -> None:
    if db.pgconn.transaction_status == TransactionStatus.ACTIVE:  # an effect reads a stream: we would wait for it
        db.close()
        return
    with suppress(psycopg.Error):
        db.execute("rollback")
    if db.pgconn.transaction_status != TransactionStatus.IDLE:
        db.close()
