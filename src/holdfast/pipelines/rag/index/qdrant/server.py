"""Points on a Qdrant server, through Qdrant's own client."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.pipelines.rag.http_errors import BUSY_STATUSES, FORBIDDEN_STATUSES, redact
from holdfast.pipelines.rag.index.qdrant.protocol import (
    EF_SEARCH,
    PAYLOAD_INDEX,
    POINTS_AT_ONCE,
    SHARED_INTEGERS,
    SHARED_KEYWORDS,
    PointFilter,
    QdrantError,
    QdrantPoint,
    QdrantUnavailable,
    chunk_key_of,
)
from holdfast.pipelines.rag.index.values import ChunkKey
from holdfast.sources.limited_http import ResponseLimits, limited_transport

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import Filter

LIMITS = ResponseLimits(time=timedelta(seconds=30))
"""The limits of one response."""
KEY = "QDRANT_API_KEY"


def open_server(url: str, *, limits: ResponseLimits = LIMITS) -> ServerPoints:
    """Return the points on a server. Its key, if it needs one, comes from the environment and is stored nowhere."""
    key = os.environ.get(KEY, "").strip() or None
    return ServerPoints(lambda: _client_of(url, key, limits))


def _client_of(url: str, key: str | None, limits: ResponseLimits) -> QdrantClient:
    import httpcore
    import httpx
    from qdrant_client import QdrantClient

    return QdrantClient(
        url=url,
        api_key=key,
        timeout=max(round(limits.time.total_seconds()), 1),
        check_compatibility=False,
        transport=limited_transport(httpx, httpcore, limits),
    )


class ServerPoints:
    """Points on a server: `ServerPoints(lambda: QdrantClient(url=..., api_key=...))`.

    Each process has a client of its own: two that share a connection would get each other's responses. After `close`,
    the next call creates a new client.
    """

    def __init__(self, connect: Callable[[], QdrantClient]) -> None:
        self._connect = connect
        self._connected: tuple[int, QdrantClient] | None = None
        self._existing: set[str] = set()

    @property
    def _client(self) -> QdrantClient:
        connected = self._connected
        if connected is None or connected[0] != os.getpid():
            connected = self._connected = (os.getpid(), self._connect())
        return connected[1]

    def create(self, space: str, dimension: int) -> None:
        with _mapped_errors():
            if not self._exists(space):
                self._create(space, dimension)
                self._existing.add(space)

    def upsert(self, space: str, points: Sequence[QdrantPoint]) -> None:
        from qdrant_client import models

        for start in range(0, len(points), POINTS_AT_ONCE):
            batch = [
                models.PointStruct(id=point.id, vector=point.vector, payload=point.payload)
                for point in points[start : start + POINTS_AT_ONCE]
            ]
            with _mapped_errors():
                self._client.upsert(space, batch, wait=True)

    def nearest(
        self, space: str, vector: list[float], points: PointFilter, *, limit: int
    ) -> list[tuple[ChunkKey, float]]:
        from qdrant_client import models

        with _mapped_errors():
            if not limit or points.matches_nothing or not self._exists(space):
                return []
            response = self._client.query_points(
                space,
                query=vector,
                query_filter=_filter(points),
                limit=limit,
                search_params=models.SearchParams(hnsw_ef=max(EF_SEARCH, limit)),
                with_payload=True,
            )
        return [(chunk_key_of(point.payload or {}), point.score) for point in response.points]

    def count(self, space: str, points: PointFilter) -> int:
        with _mapped_errors():
            if not self._exists(space):
                return 0
            return self._client.count(space, count_filter=_filter(points), exact=True).count

    def delete(self, space: str, points: PointFilter) -> None:
        from qdrant_client import models

        selected = _filter(points)
        with _mapped_errors():
            if selected is not None and self._exists(space):
                self._client.delete(space, models.FilterSelector(filter=selected), wait=True)

    def chunk_keys(self, space: str) -> Iterator[ChunkKey]:
        offset: Any = None
        while True:
            with _mapped_errors():
                if not self._exists(space):
                    return
                records, offset = self._client.scroll(space, offset=offset, limit=POINTS_AT_ONCE, with_payload=True)
            yield from (chunk_key_of(record.payload or {}) for record in records)
            if offset is None:
                return

    def maintain(self, space: str) -> None:
        pass  # a server optimises by itself

    def optimize(self, space: str) -> None:
        pass

    def drop(self, space: str) -> None:
        with _mapped_errors():
            self._client.delete_collection(space)
            self._existing.discard(space)

    def close(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None and connected[0] == os.getpid():
            connected[1].close()

    def _exists(self, space: str) -> bool:
        if space not in self._existing and self._client.collection_exists(space):
            self._existing.add(space)
        return space in self._existing

    def _create(self, space: str, dimension: int) -> None:
        from qdrant_client import models
        from qdrant_client.http.exceptions import UnexpectedResponse

        vectors = models.VectorParams(size=dimension, distance=models.Distance.COSINE, datatype=models.Datatype.FLOAT16)
        try:
            self._client.create_collection(space, vectors_config=vectors)
        except (UnexpectedResponse, ValueError):  # of a server, and of the client's local mode
            if not self._client.collection_exists(space):  # else another worker created it first
                raise
        for field in (PAYLOAD_INDEX, *SHARED_INTEGERS):
            self._client.create_payload_index(space, field, models.PayloadSchemaType.INTEGER, wait=True)
        for field in SHARED_KEYWORDS:
            self._client.create_payload_index(space, field, models.PayloadSchemaType.KEYWORD, wait=True)


@contextmanager
def _mapped_errors() -> Iterator[None]:
    """Turn errors of the client into QdrantError with a message that says what to do."""
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

    try:
        yield
    except UnexpectedResponse as error:
        if error.status_code in FORBIDDEN_STATUSES:
            raise QdrantError(
                f"Qdrant denied access ({error.status_code}); check the environment variable {KEY}"
            ) from error
        kind = QdrantUnavailable if error.status_code in BUSY_STATUSES else QdrantError
        raise kind(f"Qdrant answered {error.status_code}: {_message(error)}") from error
    except QdrantException as error:
        raise QdrantUnavailable(f"Qdrant is busy: {_message(error)}") from error
    except ApiException as error:
        raise QdrantUnavailable(f"Qdrant cannot be reached: {_message(error)}") from error


def _message(error: Exception) -> str:
    return redact(str(error)[:300].strip(), os.environ.get(KEY, "").strip())


def _filter(points: PointFilter) -> Filter | None:
    from qdrant_client import models

    must: list[Any] = []
    if points.documents is not None:
        must.append(models.FieldCondition(key="document", match=models.MatchAny(any=list(points.documents))))
    if points.version is not None:
        must.append(models.FieldCondition(key="version", match=models.MatchValue(value=points.version)))
    must_not: list[Any] = [
        models.FieldCondition(key="version", match=models.MatchValue(value=version))
        for version in points.except_versions
    ]
    return models.Filter(must=must, must_not=must_not) if must or must_not else None
