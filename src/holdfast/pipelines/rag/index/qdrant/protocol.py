"""What the index needs from Qdrant. The server and the embedded engine both implement `PointStore`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol
from uuid import UUID, uuid5

from msgspec import Struct

from holdfast.core.errors import HoldfastError
from holdfast.pipelines.rag.index.values import ChunkKey, DocumentName

PAYLOAD_INDEX = "document"
"""The payload field that this index filters by. Qdrant indexes it."""
SHARED_INTEGERS, SHARED_KEYWORDS = ("document_id",), ("collection_id",)
"""Fields that other programs filter by. A server indexes them, too."""
POINTS_AT_ONCE = 500
"""Points in one request."""
EF_SEARCH = 200
"""Candidates that a search of the vector index keeps (Qdrant's hnsw_ef), at least."""
_NAMESPACE = UUID("3c6a5f0e-6f5e-5d2b-9f43-0c1f7d1f2b7a")


class QdrantError(HoldfastError):
    """Qdrant cannot be used. The message says why, and what to do."""


class QdrantUnavailable(QdrantError):
    """Qdrant cannot be used now: it cannot be reached, or another process has it open. Try again later."""


class QdrantPoint(Struct, frozen=True, kw_only=True):
    """A vector and the chunk that it belongs to.

    Args:
        name: The document, as it was named when the point was created. A renamed document keeps its points.
        chunk: The key of the chunk: document, version and position.
        page: The page number of the chunk.
        vector: The vector.
        chunk_index: How many chunks of the same page come before it.
        content: The text of the chunk.
    """

    name: DocumentName
    chunk: ChunkKey
    page: int
    vector: list[float]
    chunk_index: int = 0
    content: str = ""

    @property
    def id(self) -> str:
        """The id of the point. The same chunk has the same id each time.

        It is made from the id of the document, not from its key: a renamed document keeps its points, and another
        document that gets the old key has points of its own.
        """
        return str(uuid5(_NAMESPACE, "/".join((self.name.collection, *map(str, self.chunk)))))

    @property
    def payload(self) -> dict[str, str | int]:
        """The fields that are stored with the vector: those that this index needs, and those for other programs."""
        document, version, position = self.chunk
        return {
            "collection": self.name.collection,
            "source": self.name.source,
            "key": self.name.key,
            "document": document,
            "version": version,
            "position": position,
            "page": self.page,
            "collection_id": self.name.collection,
            "document_id": document,
            "page_number": self.page,
            "chunk_index": self.chunk_index,
            "content": self.content,
        }


class PointFilter(Struct, frozen=True, kw_only=True):
    """Which points a call is about. All conditions must hold; a condition that is not given always holds.

    Args:
        documents: Ids of documents.
        version: A version.
        except_versions: Versions that are left out.
    """

    documents: Sequence[int] | None = None
    version: int | None = None
    except_versions: Sequence[int] = ()

    @property
    def matches_nothing(self) -> bool:
        """True if the list of documents is empty."""
        return self.documents is not None and not self.documents


class PointStore(Protocol):
    """Points in vector spaces: one space for each collection and model. Threads may share one.

    All methods raise QdrantError if Qdrant cannot be used.
    """

    def create(self, space: str, dimension: int) -> None:
        """Create a space with its indexes, unless it exists."""

    def upsert(self, space: str, points: Sequence[QdrantPoint]) -> None:
        """Save points. When it returns, they are durable and searches find them."""

    def nearest(
        self, space: str, vector: list[float], points: PointFilter, *, limit: int
    ) -> list[tuple[ChunkKey, float]]:
        """Return the nearest points with their scores, nearest first. A space that does not exist has none."""

    def count(self, space: str, points: PointFilter) -> int:
        """Count points."""

    def delete(self, space: str, points: PointFilter) -> None:
        """Delete points. Does nothing if the filter has no condition."""

    def chunk_keys(self, space: str) -> Iterator[ChunkKey]:
        """Yield the chunk key of every point."""

    def maintain(self, space: str) -> None:
        """Optimise a space if that is worth the time, and let other processes open it."""

    def optimize(self, space: str) -> None:
        """Optimise a space, even if there is little to do."""

    def drop(self, space: str) -> None:
        """Delete a space with all its points, if it exists."""

    def close(self) -> None:
        """Close connections or files. The next call opens them again."""


def chunk_key_of(payload: dict[str, int]) -> ChunkKey:
    """Return the chunk key in a payload."""
    return payload["document"], payload["version"], payload["position"]
