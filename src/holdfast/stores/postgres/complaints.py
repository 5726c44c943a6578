"""What PostgreSQL complains about, in our own words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.errors import DeadlockDetected, LockNotAvailable, QueryCanceled, SerializationFailure

from holdfast.core.errors import StoreError, StoreFull, StoreGone, StoreReadOnly

HINTS = {
    "starting up": "it is being started; try again in a moment",
    "not yet accepting": "it is being started; try again in a moment",
    "shutting down": "it is being stopped; try again when it is up",
    "password": "check the user and the password (in the URL, in PGPASSWORD or in ~/.pgpass)",
    "pg_hba.conf": "the server does not let this user in from here; its pg_hba.conf says who may",
    "role": "create the role first (createuser), or check the user in the URL",
    "database": "create the database first (createdb), or check its name in the URL",
    "too many": "the server has no connection to spare; raise max_connections or put pgbouncer before it",
    "": "check that PostgreSQL runs, and the host and the port in the URL",
}


class ConnectionLost(StoreGone):
    """The connection was lost while the database was asked; what it did is not known yet."""


class Collided(StoreError):
    """The database undid the transaction because it and another one stood in each other's way, or waited too long."""


@contextmanager
def own_words(db: Connection[Any], name: str) -> Iterator[None]:
    """Says what the database complains about in our own words, where we have some."""
    try:
        yield
    except (DeadlockDetected, SerializationFailure) as error:
        raise Collided(f"{name}: {error}") from error
    except psycopg.Error as error:
        if ours := _translated(db, name, error):
            raise ours from error
        raise


@contextmanager
def own_statement(db: Connection[Any], name: str) -> Iterator[None]:
    """Says also that a timeout ended a statement of holdfast. What ends one of an effect is the effect's own error."""
    with own_words(db, name):
        try:
            yield
        except (QueryCanceled, LockNotAvailable) as error:
            raise Collided(
                f"{name} ended a statement of holdfast: {_first_line(error)}. Nothing was lost. If this happens again, "
                "raise the statement_timeout or lock_timeout of the role or the database, or look for what holds locks"
            ) from error


def _translated(db: Connection[Any], name: str, error: psycopg.Error) -> StoreError | None:
    if db.closed:
        return ConnectionLost(f"{name} does not answer any more: {_first_line(error)}")
    if error.sqlstate == "53100":
        return StoreFull(f"the disk under {name} is full; nothing of the last write was kept. Make room and go on")
    if error.sqlstate == "25006":
        return StoreReadOnly(f"{name} cannot be written: {_first_line(error)}. Check that it is the primary server")
    return None


def why_not(error: psycopg.Error) -> str:
    """Says why there is no connection, and what to do about it."""
    said = _first_line(error)
    words = str(error).partition("FATAL:")[2]  # what the server says, without the names of host and user before it
    return f"{said}; {next(hint for word, hint in HINTS.items() if word in words)}"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].strip() or type(error).__name__
