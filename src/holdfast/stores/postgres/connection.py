"""Connections to one PostgreSQL database: one per thread, lost ones replaced.

Nothing here relies on a session: no prepared statements, no settings, no session locks, no listening. So it works
behind a pooler that gives every transaction another session, such as pgbouncer.

A connection may be lost when the database has committed and its answer is under way. What is lost is settled by
asking, never by guessing. First the server's side of the lost connection is ended, wherever it hangs, so that nothing
is under way any more; it is found by a mark that each connection carries as its application_name. Then the database is
asked what became of the transaction.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import random
from secrets import token_hex
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import InvalidParameterValue, UndefinedColumn, UndefinedTable
from psycopg.pq import TransactionStatus

from holdfast.core.errors import BodyError, StoreError, StoreGone, upgraded
from holdfast.stores.postgres.complaints import Collided, ConnectionLost, own_statement, why_not
from holdfast.stores.postgres.listening import Listening

Db = Connection[tuple[Any, ...]]
T = TypeVar("T")

PATIENCE = 30.0
"""For how many seconds to knock at a database that answered before and now does not."""

PAUSES = (0.02, 0.1, 0.5, 2.0)
"""How long to wait, at most, before what was lost or collided is tried again: a second, third, fourth, fifth time."""

OPTIONS: dict[str, Any] = {
    "connect_timeout": 10,
    "client_encoding": "utf8",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""What a URL that does not say otherwise means: a silent network is noticed within a minute, not in hours."""

BEGIN = """
begin;
select pg_current_xact_id()::text,
       extract(epoch from set_config(
         'idle_in_transaction_session_timeout',
         coalesce(nullif(current_setting('idle_in_transaction_session_timeout'), '0'), '30s'), true)::interval)::float8
"""
"""A worker that is stopped in the middle of a transaction must not keep its rows locked for ever: for this transaction
alone, unless the database has a limit of its own, the server ends it after a while, and others may have them. It says
after how many seconds."""
BEGIN_TO_READ = "begin isolation level repeatable read, read only; select '0'"
FATE = "select pg_xact_status(%(xid)s::xid8)"
DISMISS = """
select pg_terminate_backend(pid, 5000)
  from pg_stat_activity
 where application_name = %(mark)s
   and pid <> pg_backend_pid()
"""


class Link(NamedTuple):
    """A connection, the process that opened it, and the mark by which the server knows it."""

    pid: int
    db: Db
    mark: str

    @property
    def usable(self) -> bool:
        """Whether something can be asked. A statement that was broken off, as by Ctrl-C, leaves it unusable."""
        return self.db.pgconn.transaction_status not in (TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN)


class Connections:
    """The connections of this process to one database."""

    def __init__(self, url: str) -> None:
        self.name = _without_password(url)
        self.idle_limit = float("inf")
        self._url = url
        self._local = threading.local()
        self._opened: dict[threading.Thread, Link] = {}
        self._inherited: list[Link] = []
        self._answered = False
        self._closed = False
        self.newest: int | None = None
        """The newest schema that is known here."""
        _ALL.add(self)

    def once(self, work: Callable[[Db], T]) -> T:
        """Does what must not be repeated blindly. Raises ConnectionLost when it is not known whether it was done."""
        return self._ask(self._idle(), work)

    def reading(self, work: Callable[[Db], T]) -> T:
        """Does what only reads, again when the connection was lost."""
        return self.again(lambda: self._ask(self._mine(), work))

    def reading_one_moment(self, work: Callable[[Db], T]) -> T:
        """Does what reads with several statements, all of the same moment."""
        return self._transact(BEGIN_TO_READ, work)

    def writing(self, work: Callable[[Db], T]) -> T:
        """Does all of it in one transaction, or nothing; again when it was nothing and the connection was lost."""
        return self._transact(BEGIN, work)

    @contextmanager
    def transaction(self, begin: str = BEGIN) -> Iterator[Db]:
        """One transaction, committed at the end. Whether it was is known, also when the connection is lost then."""
        db, xid = self.again(lambda: self._begin(begin))
        try:
            yield db
        except BaseException:
            _roll_back(db)
            raise
        try:
            with own_statement(db, self.name):
                _commit(db)
        except ConnectionLost:
            if not self._was_committed(xid):
                raise

    def again(self, attempt: Callable[[], T]) -> T:
        """Tries again what was lost or collided, a few times."""
        for pause in PAUSES:
            try:
                return attempt()
            except (ConnectionLost, Collided):
                time.sleep(pause * random())  # noqa: S311
            except (UndefinedTable, UndefinedColumn) as error:
                self._refuse_newer(error)
                raise
        return attempt()

    def _refuse_newer(self, error: psycopg.Error) -> None:
        """Tells of a schema that was upgraded meanwhile, when a statement does not suit it any more."""
        if self.newest is not None:
            ((version,),) = self._idle().execute("select max(version) from hf_schema").fetchall()
            if version > self.newest:
                raise upgraded(self.name, version, self.newest) from error

    def rest(self) -> None:
        """Closes every connection of this process; the next use opens one anew."""
        self._close_those(lambda _: True)

    def close(self) -> None:
        """Closes every connection of this process."""
        self._closed = True
        self._close_those(lambda _: True)

    def leave_to_parent(self) -> None:
        """Lets go, in a forked child, of the parent's sockets: the server should notice when the parent dies."""
        for link in self._opened.values():
            with suppress(psycopg.Error, OSError):
                os.close(link.db.pgconn.socket)
        self._inherited += self._opened.values()
        self._opened = {}

    def _transact(self, begin: str, work: Callable[[Db], T]) -> T:
        def attempt() -> T:
            with self.transaction(begin) as db:
                return self._ask(db, work)

        return self.again(attempt)

    def _begin(self, begin: str) -> tuple[Db, str]:
        def ask(db: Db) -> tuple[Db, str]:
            try:
                begun = db.execute(begin)
            except psycopg.Error:
                _roll_back(db)  # it may have begun, and then be cut short
                raise
            begun.nextset()
            ((xid, *limit),) = begun.fetchall()
            if limit:
                (self.idle_limit,) = limit
            return db, xid

        return self._ask(self._idle(), ask)

    def _ask(self, db: Db, work: Callable[[Db], T]) -> T:
        with own_statement(db, self.name):
            return work(db)

    def _was_committed(self, xid: str) -> bool:
        try:
            fate = self.reading(lambda db: db.execute(FATE, {"xid": xid}).fetchone())
        except InvalidParameterValue:  # a standby took over that never heard of the transaction
            return False
        if fate == ("in progress",):
            raise StoreGone(f"{self.name} lost a connection and cannot tell yet whether its last write was kept")
        return fate == ("committed",)

    def _idle(self) -> Db:
        db = self._mine()
        if db.pgconn.transaction_status != TransactionStatus.IDLE:
            raise BodyError("an effect called the store that runs it; an effect writes through the tx it is given")
        return db

    def _mine(self) -> Db:
        link: Link | None = getattr(self._local, "link", None)
        if link is not None and link.pid != os.getpid():  # a forked child must not use its parent's
            link = None
        if link is not None and link.usable:
            return link.db
        self._refuse_closed()
        self._local.link = fresh = self._replacement(link) if link else self._link()
        self._opened[threading.current_thread()] = fresh
        self._refuse_closed()  # by another thread, which did not know of this one yet
        return fresh.db

    def _refuse_closed(self) -> None:
        if self._closed:
            self._close_those(lambda _: True)
            raise StoreGone(f"the store {self.name} was closed")

    def _replacement(self, lost: Link) -> Link:
        """Opens a connection in place of a lost one, and ends what the server may still be doing for that one."""
        lost.db.close()
        fresh = self._link()
        try:
            with own_statement(fresh.db, self.name):
                fresh.db.execute(DISMISS, {"mark": lost.mark})
        except BaseException:
            fresh.db.close()
            raise
        return fresh

    def _link(self) -> Link:
        self._close_those(lambda thread: not thread.is_alive())
        mark = f"holdfast {token_hex(6)}"
        return Link(os.getpid(), self._connect(mark), mark)

    def _connect(self, mark: str) -> Db:
        """Connects. A database that never answered is told of at once; one that did may be restarting."""
        until = time.monotonic() + (PATIENCE if self._answered else 0)
        pause = 0.05
        while True:
            try:
                options = OPTIONS | conninfo_to_dict(self._url) | {"application_name": mark}
                db = Listening.connected(options)
            except psycopg.OperationalError as error:
                if time.monotonic() >= until or self._closed:
                    raise StoreGone(f"{self.name} does not answer: {why_not(error)}") from error
                time.sleep(pause * random())  # noqa: S311
                pause = min(pause * 2, 2.0)
            else:
                self._answered = True
                return db

    def _close_those(self, wanted: Callable[[threading.Thread], bool]) -> None:
        for thread, link in list(self._opened.items()):
            if wanted(thread):
                link.db.close()
                self._opened.pop(thread, None)


_ALL: weakref.WeakSet[Connections] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for connections in list(_ALL):
        connections.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


def _commit(db: Db) -> None:
    if db.execute("commit").statusmessage != "COMMIT":  # what PostgreSQL answers when a statement failed before
        raise StoreError("the transaction was rolled back: a statement in it failed, and its error was passed over")


def _roll_back(db: Db) -> None:
    with suppress(psycopg.Error):
        db.execute("rollback")
    if db.pgconn.transaction_status != TransactionStatus.IDLE:
        db.close()


def _without_password(url: str) -> str:
    try:
        parts = conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeError):
        raise StoreError(
            "this is not the URL of a PostgreSQL database; write postgresql://user:password@host:5432/name, "
            "with %-escapes for special characters in the password"
        ) from None  # the driver's words would show the password
    user = f"{parts['user']}@" if "user" in parts else ""
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{user}{parts.get('host', '')}{port}/{parts.get('dbname', '')}"
