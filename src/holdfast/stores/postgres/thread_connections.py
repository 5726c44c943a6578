"""Connections to one PostgreSQL database: one per thread. Lost connections are replaced.

Nothing here depends on a session: no prepared statements, no session locks, no LISTEN, and no settings unless a role or
a database has other defaults than PostgreSQL. So it works behind a pooler that gives every transaction another session,
such as pgbouncer.

When a lost connection is replaced, the server's side of it is ended, so that nothing of it still runs: each connection
has a mark as its application_name, by which it is found. A commit that waits for a standby is not ended: it would count
as committed, though no standby has it.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from random import random
from secrets import token_hex
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from holdfast.core.errors import StoreError, StoreGone
from holdfast.stores.postgres.connection_watchdog import WatchedConnection
from holdfast.stores.postgres.error_mapping import own_statement, why_no_connection
from holdfast.stores.postgres.url import in_schema, parse_url, quoted


class Needed(NamedTuple):
    """A setting that must have a value, and whether poolers keep it for each client."""

    name: str
    value: str
    pooled: bool


NEEDED = (
    Needed("datestyle", "ISO", pooled=True),
    Needed("standard_conforming_strings", "on", pooled=True),
    Needed("intervalstyle", "postgres", pooled=False),
    Needed("array_nulls", "on", pooled=False),
    Needed("default_transaction_isolation", "read committed", pooled=False),
)
"""`ISO` leaves the order of day and month as it is: `ISO, DMY` will do."""

MAY_DIFFER_BEHIND_POOLERS = ("default_transaction_isolation",)
"""Transactions begin with their own isolation. A single statement that collides is repeated."""

ASK = f"select pg_backend_pid(), {', '.join(f'current_setting({needed.name!r})' for needed in NEEDED)}"


SEARCH_PATH = """
select set_config('search_path', concat_ws(', ', '{schema}', nullif(current_setting('search_path'), '')), {local});
"""


def apply_settings(db: Connection[tuple[Any, ...]], name: str, *, schema: str = "") -> str:
    """Set on a new connection what it needs. Return a statement for what each transaction has to set by itself.

    Raise StoreError if a pooler makes that impossible.
    """
    ((pid, *values),) = db.execute(ASK).fetchall()
    differing = [
        needed for needed, value in zip(NEEDED, values, strict=True) if value.partition(",")[0] != needed.value
    ]
    is_pooled = _is_pooled(db, pid)
    for needed in differing:
        if not is_pooled or needed.pooled:
            db.execute("select set_config(%s, %s, false)", (needed.name, needed.value))
        elif needed.name not in MAY_DIFFER_BEHIND_POOLERS:
            raise StoreError(
                f"{name}: behind a pooler, {needed.name} must be {needed.value!r} for every session, and it is not. "
                f"Set it for the role: `alter role ... set {needed.name} = '{needed.value}'`, or use no pooler"
            )
    if not schema:
        return ""
    if is_pooled:
        return SEARCH_PATH.format(schema=quoted(schema), local="true")
    db.execute(SEARCH_PATH.format(schema=quoted(schema), local="false"))
    return ""


def _is_pooled(db: Connection[tuple[Any, ...]], pid: int) -> bool:
    """Return True if something between gives us sessions of the server: then its process is not the one we know."""
    return pid != db.info.backend_pid


PATIENCE = 30.0
"""For how many seconds to try to connect to a database that answered before and now does not."""

OPTIONS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Defaults for the options of a URL: a silent network is noticed within a minute, not in hours."""

OURS = {"client_encoding": "utf8"}
"""Options that no URL changes: the driver could not send text that another encoding does not have."""

END_BACKEND = """
select pg_terminate_backend(pid, 5000)
  from pg_stat_activity
 where application_name = %(mark)s
   and pid <> pg_backend_pid()
   and wait_event is distinct from 'SyncRep'
"""


class Link(NamedTuple):
    """A connection, the process that opened it, the mark by which the server knows it, and numbers for receipts."""

    pid: int
    db: WatchedConnection
    mark: str
    numbers: Iterator[int]

    @property
    def usable(self) -> bool:
        """True if a statement can be run. An interrupted statement, for example by Ctrl-C, leaves it unusable."""
        return self.db.pgconn.transaction_status not in (TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN)


class ThreadConnections:
    """The connections of this process to one database."""

    def __init__(self, url: str) -> None:
        self._url, self.schema = parse_url(url)
        self.name = _without_password(self._url) + (f"?schema={self.schema}" if self.schema else "")
        self.database = _database(self._url)
        self._local = threading.local()
        self._opened: dict[threading.Thread, Link] = {}
        self._inherited: list[Link] = []
        self._answered = False
        self._closed = False
        _ALL.add(self)

    def sql(self, statement: str) -> str:
        """Return a statement of ours with the tables of the schema that the URL names."""
        return in_schema(statement, self.schema)

    def disconnect(self) -> None:
        """Close every connection of this process. The next use opens a new one."""
        self._close_where(lambda _: True)

    def close(self) -> None:
        """Close every connection of this process."""
        self._closed = True
        self._close_where(lambda _: True)

    def leave_to_parent(self) -> None:
        """Close the sockets of the parent in a forked child, so that the server notices when the parent dies."""
        for link in self._opened.values():
            with suppress(psycopg.Error, OSError):
                os.close(link.db.pgconn.socket)
        self._inherited += self._opened.values()
        self._opened = {}

    def _mine(self) -> WatchedConnection:
        link: Link | None = getattr(self._local, "link", None)
        if link is not None and link.pid != os.getpid():  # a forked child must not use those of its parent
            link = None
        if link is not None and link.usable:
            return link.db
        self._refuse_closed()
        self._local.link = fresh = self._replacement(link) if link else self._link()
        self._opened[threading.current_thread()] = fresh
        self._refuse_closed()  # another thread may have closed the store, and did not know this connection
        return fresh.db

    def _refuse_closed(self) -> None:
        if self._closed:
            self._close_where(lambda _: True)
            raise StoreGone(f"the store {self.name} was closed")

    def _replacement(self, lost: Link) -> Link:
        """Open a connection in place of a lost one, and end what the server may still do for the lost one."""
        lost.db.close()
        fresh = self._link()
        with _closed_on_error(fresh.db), own_statement(fresh.db, self.name):
            fresh.db.execute(END_BACKEND, {"mark": lost.mark})
        return fresh

    def _link(self) -> Link:
        self._close_where(lambda thread: not thread.is_alive())
        mark = f"holdfast {token_hex(6)}"
        return Link(os.getpid(), self._connect(mark), mark, count(1))

    def _connect(self, mark: str) -> WatchedConnection:
        """Connect. Raise StoreGone at once if the database never answered; one that did may be restarting."""
        until = time.monotonic() + (PATIENCE if self._answered else 0)
        pause = 0.05
        while True:
            try:
                options = OPTIONS | conninfo_to_dict(self._url) | OURS | {"application_name": mark}
                db = WatchedConnection.connected(options)
                with _closed_on_error(db):
                    db.local_settings = apply_settings(db, self.name, schema=self.schema)
            except psycopg.OperationalError as error:
                if time.monotonic() >= until or self._closed:
                    raise StoreGone(f"{self.name} does not answer: {why_no_connection(error)}") from error
                time.sleep(pause * random())  # noqa: S311
                pause = min(pause * 2, 2.0)
            else:
                self._answered = True
                return db

    def _close_where(self, wanted: Callable[[threading.Thread], bool]) -> None:
        for thread, link in list(self._opened.items()):
            if wanted(thread):
                link.db.close()
                self._opened.pop(thread, None)


_ALL: weakref.WeakSet[ThreadConnections] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for connections in list(_ALL):
        connections.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


@contextmanager
def _closed_on_error(db: WatchedConnection) -> Iterator[None]:
    try:
        yield
    except BaseException:  # re-raised; nobody would close the connection
        db.close()
        raise


def _database(url: str) -> tuple[Any, ...]:
    parts = conninfo_to_dict(url)
    return parts.get("host"), parts.get("port"), parts.get("dbname")


def _without_password(url: str) -> str:
    try:
        parts = conninfo_to_dict(url)
    except (psycopg.ProgrammingError, UnicodeError):
        raise StoreError(
            "this is not the URL of a PostgreSQL database; write postgresql://user:password@host:5432/name, "
            "with %-escapes for special characters in the password"
        ) from None  # the driver's message would show the password
    user = f"{parts['user']}@" if "user" in parts else ""
    port = f":{parts['port']}" if "port" in parts else ""
    return f"postgresql://{user}{parts.get('host', '')}{port}/{parts.get('dbname', '')}"
