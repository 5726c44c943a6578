"""Open the index of a collection by its setting: the database of the store, or Qdrant on top of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.distribution import install_command
from holdfast.core.errors import HoldfastError
from holdfast.core.passwords import hide_password
from holdfast.pipelines.rag.index import vector_spaces
from holdfast.pipelines.rag.index.protocol import DatabaseIndex, Index
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.pipelines.rag.index.qdrant.index import QdrantIndex
    from holdfast.pipelines.rag.index.qdrant.protocol import PointStore

STORE = "store"
"""The setting for vectors in the database of the store."""
QDRANT = "qdrant:"


def normalise_spec(spec: str) -> str:
    """Return the `index` setting of a collection in the form in which it is stored: folders as absolute paths.

    Raises:
        ValueError: The setting does not name an index.
    """
    place = spec.removeprefix(QDRANT)
    if spec == STORE:
        return spec
    if place in ("", spec) or "@" in place.partition("://")[2]:
        raise ValueError(
            f"there is no index {hide_password(spec)!r}; use store, qdrant:FOLDER or qdrant:http://HOST:6333 (the key "
            "of the server belongs in the environment variable QDRANT_API_KEY)"
        )
    return QDRANT + (place.rstrip("/") if _is_server(place) else str(Path(place).expanduser().absolute()))


def check_processes(spec: str, processes: int) -> None:
    """Raise HoldfastError if several processes would open vectors that only one process can open."""
    if processes > 1 and spec.startswith(QDRANT) and not _is_server(spec.removeprefix(QDRANT)):
        raise HoldfastError(
            f"{processes} processes cannot use the vectors in {spec}: Qdrant's embedded engine allows only one "
            "process. Use one process, or a Qdrant server (qdrant:http://HOST:6333)"
        )


class Indexes:
    """The indexes of a store, by the `index` setting. All share one database index, so vectors are in memory once.

    Threads may share one.
    """

    def __init__(self, store: Store) -> None:
        self.database = database_index(store)
        self._store = store
        self._lock = threading.Lock()
        self._external: dict[str, QdrantIndex] = {}

    def get(self, spec: str) -> Index:
        """Return an index. Nothing is opened before its first use."""
        return self.database if spec == STORE else self.external(spec)

    def external(self, spec: str) -> QdrantIndex:
        """Return an index with an external vector store."""
        from holdfast.pipelines.rag.index.qdrant.index import QdrantIndex

        with self._lock:
            if spec not in self._external:
                points = _open_points(spec.removeprefix(QDRANT))
                self._external[spec] = QdrantIndex(self.database, points, place=spec, begin=self._store.transaction)
            return self._external[spec]

    def drop_abandoned(self) -> list[str]:
        """Delete the vector spaces that no collection uses.

        Returns:
            Why spaces could not be deleted, one message for each place. Call it again later.
        """
        from holdfast.pipelines.rag.index.qdrant.protocol import QdrantError

        problems: dict[str, str] = {}
        for space in vector_spaces.abandoned_spaces(self.database.read):
            if space.place in problems:
                continue
            try:
                self.external(space.place).drop(space)
            except QdrantError as error:
                problems[space.place] = str(error)
        return [*problems.values()]

    def close(self) -> None:
        """Close connections and folders, and free memory."""
        with self._lock:
            for index in self._external.values():
                index.close()
            self._external.clear()
        self.database.close()


def database_index(store: Store) -> DatabaseIndex:
    """Return the index in the database of a store.

    Raises:
        ValueError: There is no index for this kind of store.
    """
    if store.url.startswith("sqlite"):
        from holdfast.pipelines.rag.index.sqlite import SqliteIndex

        return SqliteIndex(store.url)
    if store.url.startswith("postgres"):
        from holdfast.pipelines.rag.index.postgres import PostgresIndex

        return PostgresIndex(getattr(store, "connection_url", store.url))
    raise ValueError(f"document search has no index for the store {store.url}; use SQLite or PostgreSQL")


def _is_server(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def _open_points(place: str) -> PointStore:
    from holdfast.pipelines.rag.index.qdrant.protocol import QdrantError

    try:
        if _is_server(place):
            import qdrant_client  # noqa: F401

            from holdfast.pipelines.rag.index.qdrant.server import open_server

            return open_server(place)
        import qdrant_edge  # noqa: F401
    except ImportError as missing:
        raise QdrantError(
            f"vectors in Qdrant need one more package ({missing.name}): {install_command('qdrant')}"
        ) from missing
    from holdfast.pipelines.rag.index.qdrant.embedded import open_embedded

    return open_embedded(Path(place))
