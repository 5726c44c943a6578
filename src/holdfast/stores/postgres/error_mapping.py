"""Our own errors and messages for the errors of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.errors import DeadlockDetected, DiskFull, LockNotAvailable, QueryCanceled, SerializationFailure

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


DATABASE_TROUBLES = (DeadlockDetected, SerializationFailure, QueryCanceled, LockNotAvailable, DiskFull)
READ_ONLY = "default_transaction_read_only"


class ConnectionLost(StoreGone):
    """The connection was lost during a statement. It is not known yet what the database did."""


class Collided(StoreError):
    """The database rolled the transaction back: it conflicted with another one, or waited too long."""


@contextmanager
def own_errors(db: Connection[Any], name: str) -> Iterator[None]:
    """Raise StoreError with our own message for the errors of the database that we know."""
    try:
        yield
    except (DeadlockDetected, SerializationFailure) as error:
        raise Collided(f"{name}: {error}") from error
    except psycopg.Error as error:
        if ours := _store_error(db, name, error):
            raise ours from error
        raise


@contextmanager
def own_statement(db: Connection[Any], name: str) -> Iterator[None]:
    """Also raise Collided if a timeout ended a statement of holdfast. In an effect it is the effect's own error."""
    with own_errors(db, name):
        try:
            yield
        except (QueryCanceled, LockNotAvailable) as error:
            raise Collided(
                f"{name} ended a statement of holdfast: {_first_line(error)}. Nothing was lost. If this happens again, "
                "raise the statement_timeout or lock_timeout of the role or the database, or look for what holds locks"
            ) from error


def _store_error(db: Connection[Any], name: str, error: psycopg.Error) -> StoreError | None:
    if db.closed:
        return ConnectionLost(f"{name} does not answer any more: {_first_line(error)}")
    if error.sqlstate == "53100":
        return StoreFull(f"the disk under {name} is full; nothing of the last write was kept. Make room and go on")
    if error.sqlstate == "25006":
        return StoreReadOnly(f"{name} cannot be written: {_first_line(error)}. {_why_read_only(db)}")
    return None


def _why_read_only(db: Connection[Any]) -> str:
    """Return why a server does not write. It reports both settings by itself, since PostgreSQL 14."""
    if db.info.parameter_status("in_hot_standby") != "on" and db.info.parameter_status(READ_ONLY) == "on":
        return f"{READ_ONLY} is on for this role, database or server: somebody wants no writes. To allow them, reset it"
    return "Check that it is the primary server"


def is_database_trouble(error: psycopg.Error) -> bool:
    """Return True if an error at a commit says nothing about what is committed: a collision, a timeout, a full disk.

    A trigger of the user can raise the same codes. Then the error comes from the function of the server that does it.
    """
    return isinstance(error, DATABASE_TROUBLES) and error.diag.source_function != "exec_stmt_raise"


def no_write_rights(name: str, error: psycopg.Error) -> StoreReadOnly:
    """Return the error for a user without the rights that every write needs."""
    return StoreReadOnly(
        f"{name}: this user may not write: {_first_line(error)}. Let the owner of the tables say "
        "`grant select, insert, update, delete on all tables in schema public to ...`, also after "
        "`holdfast store migrate`"
    )


def why_no_connection(error: psycopg.Error) -> str:
    """Return why there is no connection, and what to do about it."""
    message = str(error).partition("FATAL:")[2]  # of the server, without the names of host and user before it
    return f"{_first_line(error)}; {next(hint for words, hint in HINTS.items() if words in message)}"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].strip() or type(error).__name__
