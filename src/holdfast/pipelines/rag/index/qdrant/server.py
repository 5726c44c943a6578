"""A Qdrant server, through its own client."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.pipelines.rag.asking import BUSY, FORBIDDEN, without
from holdfast.pipelines.rag.index import Place
from holdfast.pipelines.rag.index.qdrant.points import EVERY, INDEXED, Among, Point, QdrantAway, QdrantTrouble, place_of

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import Filter

EFFORT = 200
"""How many neighbours a search keeps in view."""
PATIENCE = 30
"""Seconds that one answer may take."""
KEY = "QDRANT_API_KEY"


def server_at(url: str) -> ServerPoints:
    """Gives the points on a server. Its key, where it asks for one, comes from the environment and is kept nowhere."""
    from qdrant_client import QdrantClient

    key = os.environ.get(KEY, "").strip() or None
    return ServerPoints(lambda: QdrantClient(url=url, api_key=key, timeout=PATIENCE, check_compatibility=False))


class ServerPoints:
    """Points on a server: `ServerPoints(lambda: QdrantClient(url=..., api_key=...))`.

    Each process has a client of its own: two that share a connection get each other's answers. One that was closed is
    made anew when something is asked again.
    """

    def __init__(self, connect: Callable[[], QdrantClient]) -> None:
        self._connect = connect
        self._connected: tuple[int, QdrantClient] | None = None
        self._there: set[str] = set()

    @property
    def _client(self) -> QdrantClient:
        connected = self._connected
        if connected is None or connected[0] != os.getpid():
            connected = self._connected = (os.getpid(), self._connect())
        return connected[1]

    def prepare(self, space: str, dimension: int) -> None:
        with _asking():
            if not self._is_there(space):
                self._create(space, dimension)
                self._there.add(space)

    def put(self, space: str, points: Sequence[Point]) -> None:
        from qdrant_client import models

        for start in range(0, len(points), EVERY):
            some = points[start : start + EVERY]
            made = [models.PointStruct(id=one.id, vector=one.vector, payload=one.payload) for one in some]
            with _asking():
                self._client.upsert(space, made, wait=True)

    def nearest(self, space: str, vector: list[float], among: Among, *, limit: int) -> list[tuple[Place, float]]:
        from qdrant_client import models

        with _asking():
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
        with _asking():
            if not self._is_there(space):
                return 0
            return self._client.count(space, count_filter=_filter(among), exact=True).count

    def delete(self, space: str, among: Among) -> None:
        from qdrant_client import models

        wanted = _filter(among)
        with _asking():
            if wanted is not None and self._is_there(space):
                self._client.delete(space, models.FilterSelector(filter=wanted), wait=True)

    def each(self, space: str) -> Iterator[Place]:
        after: Any = None
        while True:
            with _asking():
                if not self._is_there(space):
                    return
                records, after = self._client.scroll(space, offset=after, limit=EVERY, with_payload=True)
            yield from (place_of(record.payload or {}) for record in records)
            if after is None:
                return

    def tend(self, space: str) -> None:
        pass  # a server does it by itself

    def optimize(self, space: str) -> None:
        pass

    def drop(self, space: str) -> None:
        with _asking():
            self._client.delete_collection(space)
            self._there.discard(space)

    def close(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None and connected[0] == os.getpid():
            connected[1].close()

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
        self._client.create_payload_index(space, INDEXED, models.PayloadSchemaType.INTEGER, wait=True)


@contextmanager
def _asking() -> Iterator[None]:
    """Makes a sentence of what the client raises."""
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

    try:
        yield
    except UnexpectedResponse as error:
        if error.status_code in FORBIDDEN:
            raise QdrantTrouble(
                f"Qdrant does not let us in ({error.status_code}); check the environment variable {KEY}"
            ) from error
        kind = QdrantAway if error.status_code in BUSY else QdrantTrouble
        raise kind(f"Qdrant answered {error.status_code}: {_said(error)}") from error
    except QdrantException as error:
        raise QdrantAway(f"Qdrant is busy: {_said(error)}") from error
    except ApiException as error:
        raise QdrantAway(f"Qdrant cannot be reached: {_said(error)}") from error


def _said(error: Exception) -> str:
    return without(str(error)[:300].strip(), os.environ.get(KEY, "").strip())


def _filter(among: Among) -> Filter | None:
    from qdrant_client import models

    must: list[Any] = []
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
