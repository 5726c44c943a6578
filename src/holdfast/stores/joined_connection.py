"""The connection of a caller, whose transaction a submit joins: of a driver, or of SQLAlchemy on a driver."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from holdfast.core.errors import HoldfastError

SAVEPOINT = "savepoint hf_submit"
RELEASE = "release savepoint hf_submit"
ROLL_BACK = "rollback to savepoint hf_submit"
"""An error in a submit takes back what the submit wrote, and leaves the rest of the transaction to the caller."""


class CallersConnection(NamedTuple):
    """A connection by the rules of DB-API, and the connection of the driver behind it. Mostly they are the same."""

    dbapi: Any
    driver: Any


def callers_connection(connection: Any) -> CallersConnection:
    """Return the connection of the driver behind what a caller has given.

    A Session or a Connection of SQLAlchemy begins its transaction, so that it knows that there is something to commit.

    Args:
        connection: A connection of a driver, or a Session or a Connection of SQLAlchemy.

    Raises:
        HoldfastError: It is an asynchronous session or connection.
    """
    if "sqlalchemy" not in sys.modules:
        return CallersConnection(connection, connection)
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session, scoped_session

    if "sqlalchemy.ext.asyncio" in sys.modules:
        _refuse_asynchronous(connection)
    if isinstance(connection, Session | scoped_session):
        connection = connection.connection()
    if not isinstance(connection, Connection):
        return CallersConnection(connection, connection)
    if not connection.in_transaction():
        connection.begin()
    proxy = connection.connection
    return CallersConnection(proxy.dbapi_connection, proxy.driver_connection)


def refuse_unknown(connection: object, expected: str) -> HoldfastError:
    """Return the error for a connection that the store does not know."""
    kind = type(connection)
    return HoldfastError(
        f"connection= is a {kind.__module__}.{kind.__qualname__}: it must be a {expected}, or a Session or a "
        "Connection of SQLAlchemy on one"
    )


def other_database(store: str) -> HoldfastError:
    """Return the error for a connection to another database than that of the store."""
    return HoldfastError(
        f"connection= is a connection to another database than {store}: nothing was submitted. One transaction can "
        "only be in one database: open the store with the URL of that database"
    )


def commits_by_itself(how: str) -> HoldfastError:
    """Return the error for a connection on which every statement would be committed at once."""
    return HoldfastError(
        f"connection= has no open transaction and commits each statement by itself, so it is not you who commits. {how}"
    )


def _refuse_asynchronous(connection: object) -> None:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    if isinstance(connection, AsyncConnection | AsyncSession | async_scoped_session):
        raise HoldfastError(
            "connection= is asynchronous. Write `await session.run_sync(lambda session: holdfast.submit(..., "
            "connection=session))`; the driver must be psycopg"
        )
