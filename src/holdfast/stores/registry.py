"""Find the store for the scheme of a URL.

A store outside of holdfast registers its class under the entry point group `holdfast.stores`, with the scheme as the
name. In its pyproject.toml:

    [project.entry-points."holdfast.stores"]
    mystore = "my_package:MyStore"

Then `mystore://...` is the URL of such a store. Our own stores are registered in the same way. They are also listed
here, so that they open fast, and without installed metadata: to import importlib.metadata and to scan all packages
takes 50 to 100 ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from holdfast.core.distribution import install_command
from holdfast.core.errors import StoreError
from holdfast.stores.protocol import Clock, Store

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "holdfast.stores"
BUILT_IN = {
    "memory": "holdfast.stores.memory:MemoryStore",
    "postgres": "holdfast.stores.postgres:PostgresStore",
    "postgresql": "holdfast.stores.postgres:PostgresStore",
    "sqlite": "holdfast.stores.sqlite:SqliteStore",
}


_WITH_DRIVER = re.compile(r"^(sqlite|postgres(?:ql)?)\+\w+:")


class StoreType(Protocol):
    """The class of a store, or a function that opens one.

    A class whose stores have a schema also has the class methods `is_fresh(url) -> bool`, which returns True if there
    is nothing of holdfast at a URL yet, and `migrate_url(url) -> list[int]`, which brings the schema up to date and
    returns the numbers of the migrations that were run.
    """

    def __call__(self, url: str, *, clock: Clock | None = None) -> Store:
        """Open the store at a URL."""


def store_type(url: str) -> StoreType:
    """Return the class of the store that a URL names.

    Args:
        url: The URL of a store.

    Returns:
        The class, or the function that opens the store.

    Raises:
        StoreError: No store has this scheme, or its package cannot be loaded.
    """
    kind = find_store_type(url)
    if kind is None:
        schemes = ", ".join(sorted({*BUILT_IN, *(point.name for point in _entry_points())}))
        raise StoreError(
            f"{_no_scheme(url)}; a store's URL is sqlite:///path.db, postgresql://user@host/name or memory://"
            f". The known schemes are {schemes}"
        )
    return kind


def find_store_type(url: str) -> StoreType | None:
    """Return the class of the store that a URL names, or None if no store has its scheme."""
    scheme = without_driver(url).partition(":")[0]
    if scheme in BUILT_IN:
        return _built_in(scheme)
    for point in _entry_points():
        if point.name == scheme:
            return _loaded(point)
    return None


def without_driver(url: str) -> str:
    """Return a URL without the driver that a URL of SQLAlchemy names: holdfast has one driver for each database."""
    return _WITH_DRIVER.sub(r"\1:", url)


def scheme_of(url: str) -> str | None:
    """Return the scheme of a URL for a message. None if there is none: then nothing of it may be shown."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]{0,62}):", url)
    return found[1] if found else None


def _no_scheme(url: str) -> str:
    scheme = scheme_of(url)
    return (
        "this is not the URL of a store: it has no scheme" if scheme is None else f"no store has the scheme {scheme!r}"
    )


def _built_in(scheme: str) -> StoreType:
    module, _, name = BUILT_IN[scheme].partition(":")
    try:
        kind: StoreType = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if module != "holdfast.stores.postgres":
            raise
        raise StoreError(f"PostgreSQL needs one more package ({error.name}): {install_command('postgres')}") from error
    return kind


def _entry_points() -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points

    return entry_points(group=GROUP)


def _loaded(point: EntryPoint) -> StoreType:
    try:
        kind: StoreType = point.load()
    except (ImportError, AttributeError) as error:
        raise StoreError(
            f"the store for {point.name}:// cannot be loaded from {point.value}: {error}. Install its package again, "
            "or correct the entry point"
        ) from error
    return kind
