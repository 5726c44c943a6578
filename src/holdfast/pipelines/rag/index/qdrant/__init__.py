"""An index whose vectors are in Qdrant. Words, and what is seen, stay in the database.

Qdrant takes no part in the database's transactions. So points are put there before a version is shown, and a point that
is found counts only if the database says that its version is the one that is seen. What a kill leaves behind is found
by nobody; `publish` of the next version and `sweep` clear it away.

The database also remembers vectors by content: it is asked for them when a document is published, and a space of Qdrant
that was lost can be filled from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index import Entry, Ground, Hit, Model, Name, Stored, Where
from holdfast.pipelines.rag.index.qdrant.points import Among, Point, Points, QdrantTrouble, space_of
from holdfast.pipelines.rag.model import Chunk

if TYPE_CHECKING:
    import numpy as np

__all__ = ["QdrantIndex", "QdrantTrouble"]

MOST = 10_000
"""How many points are asked for, at most, to find enough that are seen."""
SWEPT = 1000
"""How many documents are asked about at once."""


class QdrantIndex:
    """An index on the ground of a database's. Databases that share a server need a prefix each."""

    def __init__(self, ground: Ground, points: Points, *, prefix: str = "holdfast") -> None:
        self._ground = ground
        self._points = points
        self._prefix = prefix

    # what is brought to Qdrant, and found there

    def publish(self, name: Name, *, model: Model) -> None:
        drawn = self._ground.drawn(name, model=model)
        if drawn is None:
            return
        space = self._space(model)
        self._points.prepare(space, model.dimension)
        points = [
            Point(name=name, place=(drawn.document, drawn.version, position), page=page, vector=_numbers(halves))
            for position, page, halves in drawn.chunks
        ]
        self._points.put(space, points)
        self._delete_all_but(space, drawn.document, self._alive([drawn.document])[drawn.document])

    def by_meaning(self, model: Model, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        among = self._among(where)
        asked = 2 * limit
        while True:
            near = self._points.nearest(self._space(model), vector.tolist(), among, limit=asked)
            seen = self._ground.seen(model, [place for place, _ in near])
            hits = [Hit(seen[place], place[0], score) for place, score in near if place in seen]
            if len(hits) >= limit or len(near) < asked or asked >= MOST:
                return hits[:limit]
            asked = min(4 * asked, MOST)

    def holds(self, name: Name, *, model: Model, chunks: int) -> bool:
        if not chunks or not self._ground.holds(name, model=model, chunks=chunks):
            return not chunks
        number = self._ground.number(name)
        if number is None:
            return False
        (version,) = self._alive([number])[number]
        return self._points.count(self._space(model), Among(documents=[number], version=version)) == chunks

    def sweep(self, model: Model) -> int:
        """Deletes the points of versions that are gone: of forgotten documents, and what kills left. Says of how many.

        Documents that are worked on meanwhile are safe: a version is in the database before it is published.
        """
        held: dict[int, set[int]] = {}
        space = self._space(model)
        for document, version, _ in self._points.each(space):
            held.setdefault(document, set()).add(version)
        swept = 0
        documents = [*held]
        for start in range(0, len(documents), SWEPT):
            some = documents[start : start + SWEPT]
            for document, alive in self._alive(some).items():
                if held[document] - alive:
                    self._delete_all_but(space, document, alive)
                    swept += 1
        return swept

    def close(self) -> None:
        self._ground.close()
        self._points.close()

    def _alive(self, documents: Sequence[int]) -> dict[int, set[int]]:
        none: dict[int, set[int]] = {document: set() for document in documents}
        return none | self._ground.versions(documents)

    def _delete_all_but(self, space: str, document: int, versions: set[int]) -> None:
        self._points.delete(space, Among(documents=[document], but_versions=sorted(versions)))

    def _among(self, where: Where) -> Among:
        if where.names_documents:
            return Among(documents=self._ground.documents(where))
        return Among(collection=where.asked().get("collection"))

    def _space(self, model: Model) -> str:
        return space_of(self._prefix, model)

    # what is the database's

    def prepare(self, tx: Tx) -> None:
        self._ground.prepare(tx)

    def add(self, tx: Tx, entry: Entry, chunks: Sequence[Chunk]) -> None:
        self._ground.add(tx, entry, chunks)

    def complete(self, collection: str, *, model: Model) -> bool:
        return self._ground.complete(collection, model=model)

    def known(self, model: Model, hashes: Sequence[bytes]) -> set[bytes]:
        return self._ground.known(model, hashes)

    def remember(self, tx: Tx, model: Model, vectors: Mapping[bytes, bytes]) -> None:
        self._ground.remember(tx, model, vectors)

    def show(self, tx: Tx, name: Name, *, model: Model) -> None:
        self._ground.show(tx, name, model=model)

    def forget(self, tx: Tx, name: Name) -> None:
        self._ground.forget(tx, name)

    def rename(self, tx: Tx, name: Name, *, to: str) -> None:
        self._ground.rename(tx, name, to=to)

    def by_words(self, question: str, where: Where, *, limit: int) -> list[Hit]:
        return self._ground.by_words(question, where, limit=limit)

    def chunks(self, numbers: Sequence[int]) -> dict[int, Stored]:
        return self._ground.chunks(numbers)


def _numbers(halves: bytes) -> list[float]:
    import numpy as np

    numbers: list[float] = np.frombuffer(halves, "<f2").astype(np.float32).tolist()
    return numbers
