"""Stores: where checkpoints, items and the journal live. `open` chooses one by its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

from holdfast.core.errors import StoreError
from holdfast.stores.protocol import Clock, Store

SUFFIXES = ("", "-wal", "-shm", "-journal", "-turn", "-pen")


def open_store(url: str, *, clock: Clock | None = None) -> Store:
    """Opens the store that a URL names: `sqlite:///papers.db`, `postgresql://host/name` or `memory://`.

    A fresh database is made ready; one with an older schema has to be migrated first.
    """
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from holdfast.stores.sqlite import SqliteStore

        return SqliteStore(url, clock=clock)
    if scheme in ("postgresql", "postgres"):
        return _open_postgres(url, clock)
    if scheme == "memory":
        from holdfast.stores.memory import MemoryStore

        return MemoryStore(url, clock=clock)
    raise StoreError(
        f"no store is called {url!r}; a store's URL is sqlite:///path.db, postgresql://user@host/name or memory://"
    )


def database_file(url: str) -> Path | None:
    """Gives the file of a SQLite store; None for stores elsewhere."""
    scheme, _, rest = url.partition(":///")
    return Path(unquote(rest.partition("?")[0])) if scheme == "sqlite" and rest else None


def files_of(url: str) -> list[Path]:
    """Gives the files that a store keeps beside each other, which are nobody's documents."""
    database = database_file(url)
    return [] if database is None else [Path(f"{database}{suffix}").absolute() for suffix in SUFFIXES]


def is_fresh(url: str) -> bool:
    """Answers whether there is nothing of holdfast at a URL yet. Makes nothing, not even an empty file."""
    if url.startswith("sqlite:"):
        from holdfast.stores.sqlite.store import is_fresh_file

        return is_fresh_file(url)
    if not url.startswith(("postgresql:", "postgres:")):
        return False
    kind = _postgres()
    store: Any = kind.__new__(kind)
    super(kind, store).__init__(url)  # all but the look at the schema, which would make one
    try:
        return bool(store.schema_version() == 0)
    finally:
        store.close()


def migrate_store(url: str) -> list[int]:
    """Brings a store's schema up to date, also one too old to be opened. Answers the migrations that were run."""
    if url.startswith("sqlite:"):
        from holdfast.stores.sqlite import SqliteStore

        store: Any = SqliteStore.__new__(SqliteStore)
        super(SqliteStore, store).__init__(url)  # all but the look at the schema, which would refuse
    elif url.startswith(("postgresql:", "postgres:")):
        kind = _postgres()
        store = kind.__new__(kind)
        super(kind, store).__init__(url)
    else:
        raise StoreError(f"{url} has no schema to migrate; sqlite:///path.db and postgresql://user@host/name have one")
    try:
        numbers: list[int] = store.migrate()
    finally:
        store.close()
    open_store(url).close()  # says so when the schema is newer than this holdfast
    return numbers


def _open_postgres(url: str, clock: Clock | None) -> Store:
    store: Store = _postgres()(url, clock=clock)
    return store


def _postgres() -> Any:
    try:
        from holdfast.stores.postgres import PostgresStore
    except ModuleNotFoundError as error:
        raise StoreError(
            f"PostgreSQL needs one more package ({error.name}): pip install 'holdfast[postgres]'"
        ) from error
    return PostgresStore
