"""Qdrant's engine in this process: no server, and no other process beside this one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.pipelines.rag.index import Place
from holdfast.pipelines.rag.index.qdrant.points import EVERY, INDEXED, Among, Point, QdrantTrouble, place_of

if TYPE_CHECKING:
    from qdrant_edge import EdgeShard, Filter

EFFORT = 200
"""How many neighbours a search keeps in view."""


class EdgePoints:
    """Points in a folder. Its log is on: what was put is there after a kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._shards: dict[str, EdgeShard] = {}

    def prepare(self, space: str, dimension: int) -> None:
        with self._lock:
            if self._opened(space) is None:
                self._create(space, dimension)

    def put(self, space: str, points: Sequence[Point]) -> None:
        import qdrant_edge as edge

        shard = self._there(space)
        for start in range(0, len(points), EVERY):
            some = [edge.Point(one.id, one.vector, one.payload) for one in points[start : start + EVERY]]
            shard.update(edge.UpdateOperation.upsert_points(some))

    def nearest(self, space: str, vector: list[float], among: Among, *, limit: int) -> list[tuple[Place, float]]:
        import qdrant_edge as edge

        shard = self._shard(space)
        if shard is None or not limit or _nobody(among):
            return []
        params = edge.SearchParams(hnsw_ef=max(EFFORT, limit))
        request = edge.SearchRequest(
            edge.Query.Nearest(vector), limit, filter=_filter(among), params=params, with_payload=True
        )
        return [(place_of(hit.payload or {}), hit.score) for hit in shard.search(request)]

    def count(self, space: str, among: Among) -> int:
        import qdrant_edge as edge

        shard = self._shard(space)
        return shard.count(edge.CountRequest(exact=True, filter=_filter(among))) if shard else 0

    def delete(self, space: str, among: Among) -> None:
        import qdrant_edge as edge

        shard = self._shard(space)
        wanted = _filter(among)
        if shard is not None and wanted is not None:
            shard.update(edge.UpdateOperation.delete_points_by_filter(wanted))

    def each(self, space: str) -> Iterator[Place]:
        import qdrant_edge as edge

        shard = self._shard(space)
        after: Any = None
        while shard is not None:
            records, after = shard.scroll(edge.ScrollRequest(offset=after, limit=EVERY, with_payload=True))
            yield from (place_of(record.payload or {}) for record in records)
            if after is None:
                return

    def optimize(self) -> None:
        """Builds the index of vectors of all that was put. It never runs by itself; till then all are compared."""
        with self._lock:
            for shard in self._shards.values():
                shard.optimize()

    def close(self) -> None:
        with self._lock:
            for shard in self._shards.values():
                shard.close()
            self._shards.clear()

    def _there(self, space: str) -> EdgeShard:
        shard = self._shard(space)
        assert shard is not None, f"{space} was not prepared"
        return shard

    def _shard(self, space: str) -> EdgeShard | None:
        with self._lock:
            return self._opened(space)

    def _opened(self, space: str) -> EdgeShard | None:
        import qdrant_edge as edge

        folder = self._folder / space
        if space not in self._shards and (folder / "edge_config.json").exists():
            try:
                self._shards[space] = edge.EdgeShard.load(str(folder))
            except Exception as error:  # the engine raises nothing narrower
                raise QdrantTrouble(_why(folder, error)) from error
        return self._shards.get(space)

    def _create(self, space: str, dimension: int) -> None:
        import qdrant_edge as edge

        folder = self._folder / space
        folder.mkdir(parents=True, exist_ok=True)
        vectors = edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine)
        shard = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors=vectors, wal_enabled=True))
        kinds = {"keyword": edge.PayloadSchemaType.Keyword, "integer": edge.PayloadSchemaType.Integer}
        for field, kind in INDEXED.items():
            shard.update(edge.UpdateOperation.create_field_index(field, kinds[kind]))
        self._shards[space] = shard


def _filter(among: Among) -> Filter | None:
    import qdrant_edge as edge

    must: list[Any] = []
    if among.collection is not None:
        must.append(edge.FieldCondition("collection", match=edge.MatchValue(among.collection)))
    if among.documents is not None:
        must.append(edge.FieldCondition("document", match=edge.MatchAny(list(among.documents))))
    if among.version is not None:
        must.append(edge.FieldCondition("version", match=edge.MatchValue(among.version)))
    never: list[Any] = [edge.FieldCondition("version", match=edge.MatchValue(one)) for one in among.but_versions]
    return edge.Filter(must=must, must_not=never) if must or never else None


def _nobody(among: Among) -> bool:
    return among.documents is not None and not among.documents


def _why(folder: Path, error: Exception) -> str:
    if "WouldBlock" in str(error):
        return (
            f"{folder} is in use: Qdrant's engine lets only one process in. End the other one, or let both ask a "
            "Qdrant server"
        )
    return f"Qdrant's engine cannot open {folder}: {error}. Delete the folder, and verify makes its points anew"
