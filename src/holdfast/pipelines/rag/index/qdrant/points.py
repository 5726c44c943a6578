"""What is asked of Qdrant, be it a server or the engine in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol
from uuid import UUID, uuid5

from msgspec import Struct

from holdfast.core.errors import HoldfastError
from holdfast.pipelines.rag.index import Name, Place

INDEXED = "document"
"""What points are looked up by, besides their vectors."""
EVERY = 500
"""How many points go into one request."""
_OURS = UUID("3c6a5f0e-6f5e-5d2b-9f43-0c1f7d1f2b7a")


class QdrantTrouble(HoldfastError):
    """Qdrant cannot be used. The message says why, and what to do."""


class QdrantAway(QdrantTrouble):
    """Qdrant cannot be used now, and later perhaps it can: somebody else has it open, or it cannot be reached."""


class Point(Struct, frozen=True, kw_only=True):
    """A vector and where its chunk stands. `name` is what the document was called when the point was made."""

    name: Name
    place: Place
    page: int
    vector: list[float]

    @property
    def id(self) -> str:
        """Its identity, which is the same however often it is made.

        It has the document's number and not its key: a document that is renamed keeps its points, and another one that
        then comes under the old key has points of its own.
        """
        return str(uuid5(_OURS, "/".join((self.name.collection, *map(str, self.place)))))

    @property
    def payload(self) -> dict[str, str | int]:
        """What is kept with the vector."""
        document, version, position = self.place
        return {
            "collection": self.name.collection,
            "source": self.name.source,
            "key": self.name.key,
            "document": document,
            "version": version,
            "position": position,
            "page": self.page,
        }


class Among(Struct, frozen=True, kw_only=True):
    """Which points are meant: nothing said means all."""

    documents: Sequence[int] | None = None
    version: int | None = None
    but_versions: Sequence[int] = ()


class Points(Protocol):
    """Where points are kept, in spaces: one for each collection and model."""

    def prepare(self, space: str, dimension: int) -> None:
        """Makes a space, with its indexes, unless it is there."""

    def put(self, space: str, points: Sequence[Point]) -> None:
        """Keeps points. When it returns, they are durable and found."""

    def nearest(self, space: str, vector: list[float], among: Among, *, limit: int) -> list[tuple[Place, float]]:
        """Finds the nearest points, the nearest first. In a space that is not there, there are none."""

    def count(self, space: str, among: Among) -> int:
        """Counts points."""

    def delete(self, space: str, among: Among) -> None:
        """Deletes points."""

    def each(self, space: str) -> Iterator[Place]:
        """Gives the places of all points."""

    def tend(self, space: str) -> None:
        """Puts a space in order after it grew, where that is worth the time, and lets other processes in."""

    def optimize(self, space: str) -> None:
        """Puts a space in order, however little there is to do."""

    def drop(self, space: str) -> None:
        """Removes a space with all its points, unless it is gone."""

    def close(self) -> None:
        """Lets go of Qdrant."""


def place_of(payload: dict[str, int]) -> Place:
    """Gives the place that a payload tells."""
    return payload["document"], payload["version"], payload["position"]
