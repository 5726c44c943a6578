"""SQLAlchemy in effects: a session or a connection in the transaction that commits the checkpoint.

    @load.effect
    def save(tx, doc, sailors):
        with holdfast.sqlalchemy.session(tx) as session:
            session.add_all(Sailor(name=name) for name in sailors)

holdfast commits and rolls back, so SQLAlchemy does neither. Its engine has a dialect that leaves the transaction and
the connection alone. One engine per database is kept, with its cache of compiled statements. It has no pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from threading import local
from typing import Any
from weakref import WeakSet

from holdfast.core.distribution import install_command
from holdfast.core.errors import BodyError
from holdfast.core.moves import Tx

try:
    from sqlalchemy import Connection, Engine, create_engine
    from sqlalchemy.dialects import registry
    from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
    from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
    from sqlalchemy.orm import Session
    from sqlalchemy.pool import NullPool
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"holdfast.sqlalchemy needs one more package ({missing.name}): {install_command('sqlalchemy')}",
        name=missing.name,
    ) from missing

ROLLED_BACK = (
    "the session was rolled back, by rollback() or after an error, and the error was passed over. The rows of an "
    "effect are committed or rolled back with its checkpoint: let the error pass, or write what may fail in a "
    "`with session.begin_nested():` block"
)


@contextmanager
def session(tx: Tx, **options: Any) -> Iterator[Session]:
    """Give a session of SQLAlchemy that writes in the transaction of an effect.

    At the end of the block, what is pending is flushed, and the session is closed. `session.commit()` only flushes, and
    the rows are committed with the checkpoint. `session.begin_nested()` sets a savepoint.

    Args:
        tx: The transaction, as effects and `store.transaction()` get it.
        **options: More options of `sqlalchemy.orm.Session`, such as `expire_on_commit=False`.

    Returns:
        A context manager that yields the session.

    Raises:
        BodyError: The session was rolled back and the block went on. Nothing of the effect is kept.

    Example:
        with holdfast.sqlalchemy.session(tx) as session:
            session.add(Sailor(name="Ishmael"))
    """
    with _begun(tx) as joined, Session(joined, join_transaction_mode="rollback_only", **options) as session:
        yield session
        if joined.in_transaction():
            session.flush()


@contextmanager
def connection(tx: Tx) -> Iterator[Connection]:
    """Give a connection of SQLAlchemy Core that writes in the transaction of an effect.

    Args:
        tx: The transaction, as effects and `store.transaction()` get it.

    Returns:
        A context manager that yields the connection.

    Raises:
        BodyError: The connection was rolled back and the block went on. Nothing of the effect is kept.

    Example:
        with holdfast.sqlalchemy.connection(tx) as connection:
            connection.execute(sailors.insert(), [{"name": "Ishmael"}])
    """
    with _begun(tx) as joined:
        yield joined


@contextmanager
def _begun(tx: Tx) -> Iterator[Connection]:
    before, _JOINING.driver = _JOINING.driver, tx.connection
    try:
        joined = _engine(tx.dialect).connect()
    finally:
        _JOINING.driver = before
    with joined, joined.begin() as transaction:
        yield joined
        if not transaction.is_active:
            _refuse_to_go_on(tx)


def _refuse_to_go_on(tx: Tx) -> None:
    """Raise BodyError. The guard of an effect also remembers it, in case the error is passed over again."""
    if getattr(tx.connection, "runs_effects", False):
        with suppress(Exception):  # the guard refuses, with the error of the driver
            tx.connection.rollback()
    raise BodyError(ROLLED_BACK)


class _Joining(local):
    """The connection of the driver that the engine gets next, in this thread."""

    driver: Any = None


_JOINING = _Joining()
_SET_UP: WeakSet[Any] = WeakSet()
"""Connections of drivers that have the functions and handlers of the dialect."""


@lru_cache
def _engine(database: str) -> Engine:
    options: dict[str, Any] = {}
    if database == "postgresql":
        options["use_native_hstore"] = False  # to look up the type would set a savepoint, which costs round trips
    return create_engine(f"holdfast_{database}://", creator=lambda: _JOINING.driver, poolclass=NullPool, **options)


class _JoinedDialect:
    """A dialect that neither begins nor commits, rolls back or closes: all that is not SQLAlchemy's to do."""

    supports_statement_cache = True

    def on_connect(self) -> Callable[[Any], None]:
        """Return a function that sets up a connection of the driver, once."""
        set_up: Callable[[Any], None] = super().on_connect()  # type: ignore[misc]

        def set_up_once(driver: Any) -> None:
            if driver not in _SET_UP:
                with getattr(driver, "keeping_functions", nullcontext)():
                    set_up(driver)
                _SET_UP.add(driver)

        return set_up_once

    def do_begin(self, driver: Any) -> None:
        """Do nothing."""

    do_commit = do_rollback = do_close = do_terminate = do_begin


class JoinedSqlite(_JoinedDialect, SQLiteDialect_pysqlite):
    """SQLite, on a connection of holdfast."""

    supports_statement_cache = True


class JoinedPostgres(_JoinedDialect, PGDialect_psycopg):
    """PostgreSQL, on a connection of holdfast."""

    supports_statement_cache = True


registry.register("holdfast_sqlite", __name__, "JoinedSqlite")
registry.register("holdfast_postgresql", __name__, "JoinedPostgres")
