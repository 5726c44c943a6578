"""Stores: where checkpoints, items and the journal are. `open_store` chooses one by its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

from holdfast.core.errors import StoreError
from holdfast.stores.protocol import Clock, Store
from holdfast.stores.registry import find_store_type, scheme_of, store_type, without_driver

SUFFIXES = ("", "-wal", "-shm", "-journal", "-queue", "-lock")


def open_store(url: str, *, clock: Clock | None = None) -> Store:
    """Open the store that a URL names.

    The tables are created in a fresh database. A database with an older schema has to be migrated first.

    Args:
        url: Such as `sqlite:///papers.db`, `postgresql://user@host/name` or `memory://`. A URL of SQLAlchemy, such as
            `postgresql+psycopg://user@host/name`, will do. Other packages may add schemes: see
            `holdfast.stores.registry`.
        clock: Returns the time, for tests. Without it, the clock of this machine or of the database counts.

    Returns:
        The store. Close it when you are done.

    Raises:
        StoreError: No store has this scheme, or the store cannot be opened. Its subclasses say why.
    """
    return store_type(url)(without_driver(url), clock=clock)


def database_file(url: str) -> Path | None:
    """Return the file of a SQLite store; None for other stores."""
    scheme, _, rest = without_driver(url).partition(":///")
    return Path(unquote(rest.partition("?")[0])) if scheme == "sqlite" and rest else None


def files_of(url: str) -> list[Path]:
    """Return the files of a SQLite store: the database and what SQLite and holdfast put beside it."""
    database = database_file(url)
    return [] if database is None else [Path(f"{database}{suffix}").absolute() for suffix in SUFFIXES]


def is_fresh(url: str) -> bool:
    """Return True if there is nothing of holdfast at a URL yet. Nothing is created, not even an empty file.

    Stores without a schema are never fresh.
    """
    kind: Any = find_store_type(url)
    return bool(kind.is_fresh(without_driver(url))) if hasattr(kind, "is_fresh") else False


def migrate_store(url: str) -> list[int]:
    """Bring the schema of a store up to date, even if it is too old to be opened.

    Args:
        url: The URL of the store.

    Returns:
        The numbers of the migrations that were run.

    Raises:
        SchemaNewer: The schema is newer than this holdfast.
        StoreError: The store has no schema, or cannot be opened.
    """
    kind: Any = find_store_type(url)
    if not hasattr(kind, "migrate_url"):
        store_type(url)  # raises if there is no such store
        raise StoreError(
            f"a store with the scheme {scheme_of(url)!r} has no schema to migrate; sqlite:///path.db and "
            "postgresql://user@host/name have one"
        )
    numbers: list[int] = kind.migrate_url(without_driver(url))
    return numbers
