"""Keep effects from ending the transaction that they are given, on PostgreSQL.

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

from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import NamedTuple

from psycopg.pq import TransactionStatus

from holdfast.core.errors import BodyError
from holdfast.core.moves import transaction_ended
from holdfast.stores.postgres.connection_watchdog import WatchedConnection
from holdfast.stores.postgres.error_mapping import ConnectionLost

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
