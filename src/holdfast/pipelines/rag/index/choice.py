"""Which index a collection has: the one in its store's database, or one that stands on it, with vectors in Qdrant."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.errors import HoldfastError
from holdfast.pipelines.rag.index import Index, index_of, spaces
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.pipelines.rag.index.qdrant import QdrantIndex
    from holdfast.pipelines.rag.index.qdrant.points import Points

STORE = "store"
QDRANT = "qdrant:"


def settled(spec: str) -> str:
    """Gives what a setting says in the one form in which it is kept: a folder by its whole path."""
    where = spec.removeprefix(QDRANT)
    if spec == STORE:
        return spec
    if where in ("", spec) or "@" in where.partition("://")[2]:
        raise ValueError(
            f"there is no index {spec!r}; there are store, qdrant:FOLDER and qdrant:http://HOST:6333 (with its key in "
            "the environment variable QDRANT_API_KEY)"
        )
    return QDRANT + (where.rstrip("/") if _is_server(where) else str(Path(where).expanduser().absolute()))


def refuse_crew(spec: str, processes: int) -> None:
    """Refuses that several processes work where only one can have the vectors open."""
    if processes > 1 and spec.startswith(QDRANT) and not _is_server(spec.removeprefix(QDRANT)):
        raise HoldfastError(
            f"{processes} processes cannot work on vectors in {spec}: Qdrant's engine lets only one process in. Let "
            "one work, or have them ask a Qdrant server (qdrant:http://HOST:6333)"
        )


class Indexes:
    """The indexes of a store, by what settings call them. They share one ground: its vectors are in memory once."""

    def __init__(self, store: Store) -> None:
        self.ground = index_of(store)
        self._store = store
        self._lock = threading.Lock()
        self._elsewhere: dict[str, QdrantIndex] = {}

    def named(self, spec: str) -> Index:
        """Gives an index, without opening anything yet."""
        return self.ground if spec == STORE else self.elsewhere(spec)

    def elsewhere(self, spec: str) -> QdrantIndex:
        """Gives an index whose vectors are outside the database."""
        from holdfast.pipelines.rag.index.qdrant import QdrantIndex

        with self._lock:
            if spec not in self._elsewhere:
                points = _points_at(spec.removeprefix(QDRANT))
                self._elsewhere[spec] = QdrantIndex(self.ground, points, place=spec, begin=self._store.transaction)
            return self._elsewhere[spec]

    def clear(self) -> list[str]:
        """Drops the spaces that nobody needs any more. Gives the places that could not be reached: another time."""
        from holdfast.pipelines.rag.index.qdrant.points import QdrantTrouble

        left: dict[str, str] = {}
        for space in spaces.abandoned(self.ground.ask):
            if space.place in left:
                continue
            try:
                self.elsewhere(space.place).drop(space)
            except QdrantTrouble as trouble:
                left[space.place] = str(trouble)
        return [*left.values()]

    def close(self) -> None:
        """Lets go of connections, memory and folders."""
        with self._lock:
            for index in self._elsewhere.values():
                index.close()
            self._elsewhere.clear()
        self.ground.close()


def _is_server(where: str) -> bool:
    return where.startswith(("http://", "https://"))


def _points_at(where: str) -> Points:
    from holdfast.pipelines.rag.index.qdrant.points import QdrantTrouble

    try:
        if _is_server(where):
            import qdrant_client  # noqa: F401

            from holdfast.pipelines.rag.index.qdrant.server import server_at

            return server_at(where)
        import qdrant_edge  # noqa: F401
    except ImportError as missing:
        raise QdrantTrouble(
            f"vectors in Qdrant need one more package ({missing.name}): pip install 'holdfast[qdrant]'"
        ) from missing
    from holdfast.pipelines.rag.index.qdrant.edge import edge_at

    return edge_at(Path(where))
