"""An index whose vectors are in Qdrant. Words, and what is seen, stay in the database.

Qdrant takes no part in the database's transactions. So points are put there before a version is shown, and a point that
is found counts only if the database says that its version is the one that is seen. What a kill leaves behind is found
by nobody; `publish` of the next version, `tend` and `sweep` clear it away.

The database also remembers vectors by content: it is asked for them when a document is published, and a space of Qdrant
that is new or was lost can be filled from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.core.errors import RetryLater
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index import Drawn, Entry, Ground, Hit, Model, Name, Stored, Where, spaces
from holdfast.pipelines.rag.index.qdrant.points import Among, Point, Points, QdrantAway, QdrantTrouble
from holdfast.pipelines.rag.index.spaces import Space, Unpublished
from holdfast.pipelines.rag.model import Chunk

if TYPE_CHECKING:
    import numpy as np

__all__ = ["QdrantIndex", "QdrantTrouble"]

MOST = 10_000
"""How many points are asked for, at most, to find enough that are seen."""
SWEPT = 1000
"""How many documents are asked about at once."""
BROUGHT = 100
"""How many documents are brought to a space at once."""
TENDED = 20_000
"""How many versions are cleared away after a drain, at most; the next one goes on."""
LATER = timedelta(seconds=10)
"""How long a document is put off while Qdrant is away."""


class QdrantIndex:
    """An index on the ground of a database's.

    place  where its points are, as the settings of collections say it
    begin  begins a transaction of the database
    """

    def __init__(
        self, ground: Ground, points: Points, *, place: str, begin: Callable[[], AbstractContextManager[Tx]]
    ) -> None:
        self._ground = ground
        self._points = points
        self._place = place
        self._begin = begin

    # what is brought to Qdrant, and found there

    def reach(self, collection: str, *, model: Model) -> None:
        self._made(collection, model)

    def publish(self, name: Name, *, model: Model) -> None:
        """Brings a version to its space. Puts the document off while Qdrant is away: that is no fault of its own."""
        drawn = self._ground.drawn(name, model=model)
        try:
            if drawn is not None:
                self._publish(name, drawn, model)
        except QdrantAway as away:
            raise RetryLater(str(away), after=LATER) from away

    def _publish(self, name: Name, drawn: Drawn, model: Model) -> None:
        space = self._made(name.collection, model)
        self._points.put(space.name, _points(name, drawn))
        self._delete_all_but(space, drawn.document, self._alive([drawn.document])[drawn.document])

    def bring(self, collection: str, *, model: Model) -> int:
        brought = after = 0
        while some := self._unpublished(collection, model, after=after, limit=BROUGHT):
            after = some[-1].document
            space = self._made(collection, model)
            self._points.put(space.name, [point for one in some for point in self._drawn(collection, one, model)])
            with self._begin() as tx:
                spaces.publish(tx, space, [(one.document, one.version) for one in some])
            brought += len(some)
        return brought

    def _unpublished(self, collection: str, model: Model, *, after: int, limit: int) -> list[Unpublished]:
        return spaces.unpublished(self._ground.ask, collection, self._place, model, after=after, limit=limit)

    def _drawn(self, collection: str, one: Unpublished, model: Model) -> list[Point]:
        drawn = self._ground.version(one.document, one.version, model=model)
        return _points(Name(collection, one.source, one.key), drawn)

    def by_meaning(self, model: Model, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        among = Among(documents=self._ground.documents(where)) if where.names_documents else Among()
        there = spaces.spaces_at(self._ground.ask, self._place, model, where.asked().get("collection"))
        hits = [hit for space in there for hit in self._nearest(space, model, vector.tolist(), among, limit)]
        return sorted(hits, key=lambda hit: -hit.score)[:limit]

    def _nearest(self, space: Space, model: Model, vector: list[float], among: Among, limit: int) -> list[Hit]:
        asked = max(limit, min(2 * limit, MOST))
        while True:
            near = self._points.nearest(space.name, vector, among, limit=asked)
            if not near and among == Among() and spaces.should_have_some(self._ground.ask, space):
                raise QdrantTrouble(
                    f"the points of {space.collection} are gone from {self._place}; `holdfast collection tidy` brings "
                    "them there anew (searches by words alone work meanwhile)"
                )
            seen = self._ground.seen(model, [place for place, _ in near])
            hits = [Hit(seen[place], place[0], score) for place, score in near if place in seen]
            if len(hits) >= limit or len(near) < asked or asked >= MOST:
                return hits[:limit]
            asked = min(4 * asked, MOST)

    def has_words(self, name: Name, *, chunks: int) -> bool:
        return self._ground.has_words(name, chunks=chunks)

    def has_vectors(self, name: Name, *, model: Model, chunks: int) -> bool:
        return self._ground.has_vectors(name, model=model, chunks=chunks)

    def shows(self, name: Name, *, model: Model, chunks: int) -> bool:
        if not chunks or not self._ground.shows(name, model=model, chunks=chunks):
            return not chunks
        number = self._ground.number(name)
        space = self._space(name.collection, model)
        if number is None or space is None:
            return False
        (version,) = self._alive([number])[number]
        return self._points.count(space.name, Among(documents=[number], version=version)) == chunks

    def complete(self, collection: str, *, model: Model) -> bool:
        return self._ground.complete(collection, model=model) and not self._unpublished(
            collection, model, after=0, limit=1
        )

    # what is cleared away there

    def tend(self, collection: str, *, model: Model) -> None:
        space = self._space(collection, model)
        if space is None:
            return
        left = TENDED
        while left > 0 and (some := spaces.outdated(self._ground.ask, space, limit=min(SWEPT, left))):
            left -= len(some)
            for version in {version for _, version in some}:
                documents = [document for document, its in some if its == version]
                self._points.delete(space.name, Among(documents=documents, version=version))
            with self._begin() as tx:
                spaces.withdraw(tx, space, some)
        self._points.tend(space.name)

    def sweep(self, collection: str, *, model: Model) -> int:
        """Has a space hold what the database says and nothing else. Says of how many documents it did not.

        It looks at every point. Documents that are worked on meanwhile are safe: a version is in the database before it
        is published.
        """
        space = self._space(collection, model)
        if space is None:
            return 0
        believed = spaces.published(self._ground.ask, space)
        held: dict[int, set[int]] = {}
        for document, version, _ in self._points.each(space.name):
            held.setdefault(document, set()).add(version)
        lost = [one for one in believed if one[1] not in held.get(one[0], ())]
        with self._begin() as tx:
            spaces.withdraw(tx, space, lost)
        return self._swept(space, held) + self.bring(collection, model=model)

    def _swept(self, space: Space, held: Mapping[int, set[int]]) -> int:
        swept = 0
        documents = [*held]
        for start in range(0, len(documents), SWEPT):
            some = documents[start : start + SWEPT]
            for document, alive in self._alive(some).items():
                if held[document] - alive:
                    self._delete_all_but(space, document, alive)
                    swept += 1
        return swept

    def optimize(self, collection: str, *, model: Model) -> None:
        """Has Qdrant put the space of a collection in order."""
        space = self._space(collection, model)
        if space is not None:
            self._points.optimize(space.name)

    def drop(self, space: Space) -> None:
        """Removes a space that nobody needs any more. Killed in the middle, it can be called again."""
        self._points.drop(space.name)
        with self._begin() as tx:
            spaces.remove(tx, space)

    def close(self) -> None:
        self._ground.close()
        self._points.close()

    def _made(self, collection: str, model: Model) -> Space:
        """Gives a space that is there."""
        space = self._space(collection, model)
        if space is None:
            with self._begin() as tx:
                spaces.enter(tx, collection, self._place, model)
            space = self._space(collection, model)
            assert space is not None
        self._points.prepare(space.name, model.dimension)
        return space

    def _space(self, collection: str, model: Model) -> Space | None:
        return next(iter(spaces.spaces_at(self._ground.ask, self._place, model, collection)), None)

    def _alive(self, documents: Sequence[int]) -> dict[int, set[int]]:
        none: dict[int, set[int]] = {document: set() for document in documents}
        return none | self._ground.versions(documents)

    def _delete_all_but(self, space: Space, document: int, versions: set[int]) -> None:
        self._points.delete(space.name, Among(documents=[document], but_versions=sorted(versions)))

    # what is the database's

    def prepare(self, tx: Tx) -> None:
        self._ground.prepare(tx)

    def add(self, tx: Tx, entry: Entry, chunks: Sequence[Chunk]) -> None:
        self._ground.add(tx, entry, chunks)

    def known(self, model: Model, hashes: Sequence[bytes]) -> set[bytes]:
        return self._ground.known(model, hashes)

    def remember(self, tx: Tx, model: Model, vectors: Mapping[bytes, bytes]) -> None:
        self._ground.remember(tx, model, vectors)

    def show(self, tx: Tx, name: Name, *, model: Model) -> None:
        self._ground.show(tx, name, model=model)
        spaces.publish_seen(tx, self._place, model, name)

    def forget(self, tx: Tx, name: Name) -> None:
        self._ground.forget(tx, name)

    def rename(self, tx: Tx, name: Name, *, to: str) -> None:
        self._ground.rename(tx, name, to=to)

    def by_words(self, question: str, where: Where, *, limit: int) -> list[Hit]:
        return self._ground.by_words(question, where, limit=limit)

    def vectors(self, model: Model, numbers: Sequence[int]) -> dict[int, bytes]:
        return self._ground.vectors(model, numbers)

    def chunks(self, numbers: Sequence[int]) -> dict[int, Stored]:
        return self._ground.chunks(numbers)


def _points(name: Name, drawn: Drawn) -> list[Point]:
    return [
        Point(name=name, place=(drawn.document, drawn.version, position), page=page, vector=_numbers(halves))
        for position, page, halves in drawn.chunks
    ]


def _numbers(halves: bytes) -> list[float]:
    import numpy as np

    numbers: list[float] = np.frombuffer(halves, "<f2").astype(np.float32).tolist()
    return numbers
