"""A Qdrant server, through its own client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.pipelines.rag.index import Place
from holdfast.pipelines.rag.index.qdrant.points import EVERY, INDEXED, Among, Point, place_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import Filter

EFFORT = 200
"""How many neighbours a search keeps in view."""


class ServerPoints:
    """Points on a server: `ServerPoints(QdrantClient(url=..., api_key=...))`."""

    def __init__(self, client: QdrantClient) -> None:
        self._client = client
        self._there: set[str] = set()

    def prepare(self, space: str, dimension: int) -> None:
        if not self._is_there(space):
            self._create(space, dimension)
            self._there.add(space)

    def put(self, space: str, points: Sequence[Point]) -> None:
        from qdrant_client import models

        for start in range(0, len(points), EVERY):
            some = points[start : start + EVERY]
            made = [models.PointStruct(id=one.id, vector=one.vector, payload=one.payload) for one in some]
            self._client.upsert(space, made, wait=True)

    def nearest(self, space: str, vector: list[float], among: Among, *, limit: int) -> list[tuple[Place, float]]:
        from qdrant_client import models

        if not limit or _nobody(among) or not self._is_there(space):
            return []
        answer = self._client.query_points(
            space,
            query=vector,
            query_filter=_filter(among),
            limit=limit,
            search_params=models.SearchParams(hnsw_ef=max(EFFORT, limit)),
            with_payload=True,
        )
        return [(place_of(hit.payload or {}), hit.score) for hit in answer.points]

    def count(self, space: str, among: Among) -> int:
        if not self._is_there(space):
            return 0
        return self._client.count(space, count_filter=_filter(among), exact=True).count

    def delete(self, space: str, among: Among) -> None:
        from qdrant_client import models

        wanted = _filter(among)
        if wanted is not None and self._is_there(space):
            self._client.delete(space, models.FilterSelector(filter=wanted), wait=True)

    def each(self, space: str) -> Iterator[Place]:
        after: Any = None
        while self._is_there(space):
            records, after = self._client.scroll(space, offset=after, limit=EVERY, with_payload=True)
            yield from (place_of(record.payload or {}) for record in records)
            if after is None:
                return

    def close(self) -> None:
        self._client.close()

    def _is_there(self, space: str) -> bool:
        if space not in self._there and self._client.collection_exists(space):
            self._there.add(space)
        return space in self._there

    def _create(self, space: str, dimension: int) -> None:
        from qdrant_client import models

        vectors = models.VectorParams(size=dimension, distance=models.Distance.COSINE, datatype=models.Datatype.FLOAT16)
        try:
            self._client.create_collection(space, vectors_config=vectors)
        except Exception:
            if not self._client.collection_exists(space):  # else another worker was quicker
                raise
        for field, kind in INDEXED.items():
            self._client.create_payload_index(space, field, models.PayloadSchemaType(kind), wait=True)


def _filter(among: Among) -> Filter | None:
    from qdrant_client import models

    must: list[Any] = []
    if among.collection is not None:
        must.append(models.FieldCondition(key="collection", match=models.MatchValue(value=among.collection)))
    if among.documents is not None:
        must.append(models.FieldCondition(key="document", match=models.MatchAny(any=list(among.documents))))
    if among.version is not None:
        must.append(models.FieldCondition(key="version", match=models.MatchValue(value=among.version)))
    never: list[Any] = [
        models.FieldCondition(key="version", match=models.MatchValue(value=one)) for one in among.but_versions
    ]
    return models.Filter(must=must, must_not=never) if must or never else None


def _nobody(among: Among) -> bool:
    return among.documents is not None and not among.documents
