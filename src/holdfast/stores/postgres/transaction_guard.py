"""The transaction that effects write through on PostgreSQL, and the guard that keeps effects from ending it.

An effect can get at the connection of the driver, and an ORM works with it. So the guard is in the server itself:

- A transaction with effects begins with a cursor `with hold`. The server runs the query of such a cursor when the
  transaction is committed, and this query fails. So a commit rolls everything back, in whatever way it is sent.
- Our own commit closes the cursor first, in the same message. If the cursor is gone, the transaction is another one,
  and nothing is committed. It has a random name, so that no effect can have declared it.
- After each effect the connection is asked whether it was outside of a transaction meanwhile, which costs nothing.

`commit()`, `rollback()` and `close()` of the connection, and statements that end the transaction, are refused before
they reach the server. The rest is for what a driver sends past our cursors.

An effect could also roll back to a savepoint of another effect, and take its rows away. So once an effect on a
connection has set a savepoint, each effect runs within a savepoint of its own. The group in which that is noticed is
rolled back, and its effects run one by one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Any, Literal, NamedTuple

from psycopg import Connection
from psycopg.pq import TransactionStatus

from holdfast.core.errors import BodyError, StoreError, TransactionEnded
from holdfast.core.moves import refuse_to_end, transaction_ended
from holdfast.stores.postgres.connection_watchdog import WatchedConnection
from holdfast.stores.postgres.error_mapping import ConnectionLost, own_errors
from holdfast.stores.postgres.placeholders import translate
from holdfast.stores.submission import SubmittingTx, SubmitWithin

CURSOR = f"hf_{token_hex(8)}"


class Guard(NamedTuple):
    """How a transaction begins and how it is committed: guarded or not."""

    declare: str
    commit: str


UNGUARDED = Guard("", "commit")
GUARDED = Guard(
    f"""
declare {CURSOR} no scroll cursor with hold for
select ('an effect must not end its transaction, backend ' || pg_backend_pid())::integer;
""",  # the number of the backend makes it fail when it runs, not when it is planned
    f"close {CURSOR}; commit",
)
CLOSE = f"close {CURSOR}"


class GuardGone(Exception):
    """A guarded transaction is not the one that was begun. Nothing of it was committed."""


def is_broken(db: WatchedConnection) -> bool:
    """Return True if the transaction of an effect is not as it was: ended, failed or lost."""
    return db.went_idle or bool(db.refused) or db.pgconn.transaction_status != TransactionStatus.INTRANS


@contextmanager
def own_savepoint(db: WatchedConnection) -> Iterator[None]:
    """Run an effect within a savepoint of its own, if effects on this connection set savepoints."""
    if not db.has_savepoints:
        yield
        return
    db.execute(f"savepoint {CURSOR}")
    yield
    db.execute(f"release {CURSOR}")


def refuse_broken_transaction(db: WatchedConnection, name: str, effect: str) -> None:
    """Raise if an effect ended its transaction, or passed over an error in it."""
    status = db.pgconn.transaction_status
    if db.closed:
        raise ConnectionLost(f"{name} does not answer any more")
    if status == TransactionStatus.ACTIVE:
        raise BodyError(f"{effect} has left rows unread, as cursor.stream() does: read them to the end, or close it")
    if db.went_idle or status not in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        raise transaction_ended(effect)
    if db.refused:
        raise transaction_ended(effect, how=db.refused)
    if status == TransactionStatus.INERROR:
        raise BodyError("an effect passed over an error of the database; PostgreSQL keeps nothing after one")


class Tx(SubmittingTx):
    """The transaction that effects write through. Its errors are the store's; all other errors are the effect's own."""

    dialect: Literal["sqlite", "postgresql"] = "postgresql"

    __slots__ = ("_db", "_name", "answered_at", "idle", "store_error")

    def __init__(self, db: Connection[Any], name: str, submit_within: SubmitWithin) -> None:
        super().__init__(submit_within)
        self._db = db
        self._name = name
        self.store_error: StoreError | None = None
        self.answered_at = time.monotonic()
        self.idle = 0.0
        """How many seconds the transaction was idle before the last statement. Waiting for an answer is not idle."""

    @property
    def connection(self) -> Connection[Any]:
        """The connection of the driver."""
        return self._db

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        """Run one statement and return psycopg's cursor."""
        refuse_to_end(sql)
        with self._statements():
            return self._db.execute(translate(sql, parameters), parameters) if parameters else self._db.execute(sql)

    def executemany(self, sql: str, parameters: Any, /) -> Any:
        """Run one statement for each of many parameters, in one round trip."""
        refuse_to_end(sql)
        rows = list(parameters)
        with self._statements():
            cursor = self._db.cursor()
            cursor.executemany(translate(sql, rows[0]) if rows else sql, rows)
            return cursor

    @contextmanager
    def _statements(self) -> Iterator[None]:
        self.idle = time.monotonic() - self.answered_at
        if self._db.pgconn.transaction_status == TransactionStatus.IDLE:  # the statement would commit by itself
            raise TransactionEnded("the transaction has ended, so nothing more can be written with it")
        try:
            with own_errors(self._db, self._name):
                yield
        except StoreError as error:
            self.store_error = error
            raise
        finally:
            self.answered_at = time.monotonic()
