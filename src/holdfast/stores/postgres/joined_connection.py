"""Join the transaction of a caller on a connection of psycopg."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from psycopg import AsyncConnection, Connection, Cursor, Error
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from holdfast.core.errors import HoldfastError
from holdfast.stores.joined_connection import (
    RELEASE,
    ROLL_BACK,
    SAVEPOINT,
    CallersConnection,
    callers_connection,
    commits_by_itself,
    other_database,
    refuse_unknown,
)

IDENTIFY = """
select extract(epoch from pg_catalog.pg_postmaster_start_time())::text, d.oid::bigint, c.oid::bigint, n.nspname::text
  from pg_catalog.pg_database d
  join pg_catalog.pg_class c on c.oid = pg_catalog.to_regclass(%s)
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where d.datname = pg_catalog.current_database()
"""
"""A server by when it started, a database and a table by their numbers: names may differ, as behind a pooler."""
BEGIN_YOURSELF = "Use it in a `with connection.transaction():` block, or set autocommit to False"


class StoreIdentity(NamedTuple):
    """What tells the tables of a store from all others, and the schema in which they are."""

    started: str
    database: int
    table: int
    schema: str


class JoinedConnection:
    """Runs statements of holdfast on the connection of a caller, whatever its row and cursor factories are."""

    def __init__(self, connection: CallersConnection) -> None:
        self._dbapi, self._driver = connection

    def execute(self, sql: str, parameters: Any = None, *, binary: bool = False) -> Any:
        """Run one statement and return its cursor."""
        if isinstance(self._driver, Connection):
            cursor = Cursor(self._driver, row_factory=tuple_row)
            return cursor.execute(sql, parameters, prepare=False, binary=binary)
        adapted = self._dbapi.cursor()  # SQLAlchemy waits for the driver, in `run_sync`
        adapted.execute(sql, parameters)
        return adapted


def identify(db: Any, table: str) -> StoreIdentity | None:
    """Return which tables a connection sees under a name; None if there is no such table."""
    row = db.execute(IDENTIFY, (table,)).fetchone()
    return None if row is None else StoreIdentity(*row)


@contextmanager
def join_transaction(
    connection: Any, is_same: Callable[[JoinedConnection], bool], name: str
) -> Iterator[JoinedConnection]:
    """Run a block in the transaction of a caller. An error takes back what the block wrote, and nothing else.

    Args:
        connection: What the caller has given.
        is_same: Returns True if a connection sees the tables of the store.
        name: The store, for messages.

    Raises:
        HoldfastError: The connection is to another database, commits by itself, or its transaction has failed.
    """
    callers = callers_connection(connection)
    driver = callers.driver
    if not isinstance(driver, Connection) and not (isinstance(driver, AsyncConnection) and callers.dbapi is not driver):
        raise refuse_unknown(driver, "psycopg.Connection")
    _refuse_unusable(driver)
    ours = JoinedConnection(callers)
    if not is_same(ours):
        raise other_database(name)
    ours.execute(SAVEPOINT)
    try:
        yield ours
    except BaseException:  # re-raised; whatever it is, nothing of the submit may stay
        with suppress(Error):  # the connection may be lost
            ours.execute(ROLL_BACK)
            ours.execute(RELEASE)
        raise
    ours.execute(RELEASE)


def _refuse_unusable(driver: Any) -> None:
    status = driver.info.transaction_status
    if status == TransactionStatus.IDLE and driver.autocommit:
        raise commits_by_itself(BEGIN_YOURSELF)
    if status not in (TransactionStatus.IDLE, TransactionStatus.INTRANS):
        raise HoldfastError(
            f"connection= cannot be used: its transaction has the status {status.name}. After an error, roll back first"
        )
