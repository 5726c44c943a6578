"""An index whose vectors are in Qdrant. Words, and which version is visible, stay in the database.

Qdrant does not take part in the database's transactions. So points are uploaded before a version becomes visible, and a
point that a search finds counts only if the database says that its version is visible. Points that a crash leaves
behind are never found; `upload` of the next version, `maintain` and `reconcile` delete them.

The database also has all vectors, by content. Uploads read them there, so a new or lost space of Qdrant can be filled
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.core.errors import RetryLater
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index import vector_spaces
from holdfast.pipelines.rag.index.protocol import DatabaseIndex
from holdfast.pipelines.rag.index.qdrant.protocol import (
    PointFilter,
    PointStore,
    QdrantError,
    QdrantPoint,
    QdrantUnavailable,
)
from holdfast.pipelines.rag.index.question import Question
from holdfast.pipelines.rag.index.values import (
    DocumentName,
    EmbeddingModel,
    Hit,
    IndexEntry,
    StoredChunk,
    VersionVectors,
    Where,
)
from holdfast.pipelines.rag.index.vector_spaces import MissingVersion, VectorSpace
from holdfast.pipelines.rag.values import Chunk

if TYPE_CHECKING:
    import numpy as np

MAX_REQUESTED = 10_000
"""Points that one search requests, at most, to find enough visible ones."""
DOCUMENTS_AT_ONCE = 1000
"""Documents that are looked up in the database at a time."""
UPLOADED_AT_ONCE = 100
"""Documents that are uploaded and recorded at a time."""
MAX_DELETED = 20_000
"""Outdated versions that one call of `maintain` deletes, at most. The next call continues."""
RETRY_AFTER = timedelta(seconds=10)
"""How long a document is postponed while Qdrant is unavailable."""


class QdrantIndex:
    """An index on top of the index of a database.

    Args:
        database: The index with words and the visible versions.
        points: The server or the embedded engine.
        place: Where the points are, as the `index` setting of collections names it.
        begin: Begins a transaction of the database.
    """

    def __init__(
        self,
        database: DatabaseIndex,
        points: PointStore,
        *,
        place: str,
        begin: Callable[[], AbstractContextManager[Tx]],
    ) -> None:
        self._database = database
        self._points = points
        self._place = place
        self._begin = begin

    # uploading and searching

    def check_reachable(self, collection: str, *, model: EmbeddingModel) -> None:
        self._require_space(collection, model)

    def upload(self, name: DocumentName, *, model: EmbeddingModel) -> None:
        """Upload the latest version. If Qdrant is unavailable, the document is postponed: it did nothing wrong."""
        latest = self._database.latest_vectors(name, model=model)
        try:
            if latest is not None:
                self._upload(name, latest, model)
        except QdrantUnavailable as error:
            raise RetryLater(str(error), after=RETRY_AFTER) from error

    def _upload(self, name: DocumentName, vectors: VersionVectors, model: EmbeddingModel) -> None:
        space = self._require_space(name.collection, model)
        self._points.upsert(space.name, _points(name, vectors))
        live = self._live_versions([vectors.document])[vectors.document]
        self._delete_versions_except(space, vectors.document, live)

    def upload_missing(self, collection: str, *, model: EmbeddingModel) -> int:
        uploaded = after = 0
        while versions := self._missing_versions(collection, model, after=after, limit=UPLOADED_AT_ONCE):
            after = versions[-1].document
            space = self._require_space(collection, model)
            points = [point for version in versions for point in self._points_of(collection, version, model)]
            self._points.upsert(space.name, points)
            with self._begin() as tx:
                vector_spaces.add_uploads(tx, space, [(version.document, version.version) for version in versions])
            uploaded += len(versions)
        return uploaded

    def _missing_versions(
        self, collection: str, model: EmbeddingModel, *, after: int, limit: int
    ) -> list[MissingVersion]:
        return vector_spaces.missing_versions(
            self._database.read, collection, self._place, model, after=after, limit=limit
        )

    def _points_of(self, collection: str, missing: MissingVersion, model: EmbeddingModel) -> list[QdrantPoint]:
        vectors = self._database.version_vectors(missing.document, missing.version, model=model)
        return _points(DocumentName(collection, missing.source, missing.key), vectors)

    def search_vectors(self, model: EmbeddingModel, vector: np.ndarray, where: Where, *, limit: int) -> list[Hit]:
        documents = self._database.matching_documents(where) if where.filters_documents else None
        points = PointFilter(documents=documents)
        spaces = vector_spaces.find_spaces(self._database.read, self._place, model, where.params().get("collection"))
        hits = [hit for space in spaces for hit in self._nearest(space, model, vector.tolist(), points, limit)]
        return sorted(hits, key=lambda hit: -hit.score)[:limit]

    def _nearest(
        self, space: VectorSpace, model: EmbeddingModel, vector: list[float], points: PointFilter, limit: int
    ) -> list[Hit]:
        requested = max(limit, min(2 * limit, MAX_REQUESTED))
        while True:
            near = self._points.nearest(space.name, vector, points, limit=requested)
            if not near and points == PointFilter() and vector_spaces.has_visible_versions(self._database.read, space):
                raise QdrantError(
                    f"the points of the collection {space.collection} are missing in {self._place}; `holdfast "
                    "collection tidy` uploads them again (until then, search by words alone)"
                )
            visible = self._database.visible_chunks(model, [key for key, _ in near])
            hits = [Hit(visible[key], key[0], score) for key, score in near if key in visible]
            if len(hits) >= limit or len(near) < requested or requested >= MAX_REQUESTED:
                return hits[:limit]
            requested = min(4 * requested, MAX_REQUESTED)

    def has_words(self, name: DocumentName, *, chunks: int) -> bool:
        return self._database.has_words(name, chunks=chunks)

    def has_vectors(self, name: DocumentName, *, model: EmbeddingModel, chunks: int) -> bool:
        return self._database.has_vectors(name, model=model, chunks=chunks)

    def is_visible(self, name: DocumentName, *, model: EmbeddingModel, chunks: int) -> bool:
        if not chunks or not self._database.is_visible(name, model=model, chunks=chunks):
            return not chunks
        document = self._database.document_id(name)
        space = self._find_space(name.collection, model)
        if document is None or space is None:
            return False
        (version,) = self._live_versions([document])[document]
        return self._points.count(space.name, PointFilter(documents=[document], version=version)) == chunks

    def has_all_vectors(self, collection: str, *, model: EmbeddingModel) -> bool:
        return self._database.has_all_vectors(collection, model=model) and not self._missing_versions(
            collection, model, after=0, limit=1
        )

    # maintenance of Qdrant

    def maintain(self, collection: str, *, model: EmbeddingModel) -> None:
        space = self._find_space(collection, model)
        if space is None:
            return
        remaining = MAX_DELETED
        while remaining > 0:
            limit = min(DOCUMENTS_AT_ONCE, remaining)
            outdated = vector_spaces.outdated_versions(self._database.read, space, limit=limit)
            if not outdated:
                break
            remaining -= len(outdated)
            for version in {version for _, version in outdated}:
                documents = [document for document, other in outdated if other == version]
                self._points.delete(space.name, PointFilter(documents=documents, version=version))
            with self._begin() as tx:
                vector_spaces.delete_uploads(tx, space, outdated)
        self._points.maintain(space.name)

    def reconcile(self, collection: str, *, model: EmbeddingModel) -> int:
        """Make a space hold exactly what the database says. It reads every point.

        Documents that are processed at the same time are safe: a version is in the database before it is uploaded.

        Returns:
            The number of documents whose points were missing or outdated.
        """
        space = self._find_space(collection, model)
        if space is None:
            return 0
        recorded = vector_spaces.uploaded_versions(self._database.read, space)
        stored: dict[int, set[int]] = {}
        for document, version, _ in self._points.chunk_keys(space.name):
            stored.setdefault(document, set()).add(version)
        lost = [(document, version) for document, version in recorded if version not in stored.get(document, ())]
        with self._begin() as tx:
            vector_spaces.delete_uploads(tx, space, lost)
        return self._delete_outdated(space, stored) + self.upload_missing(collection, model=model)

    def _delete_outdated(self, space: VectorSpace, stored: Mapping[int, set[int]]) -> int:
        cleaned = 0
        documents = [*stored]
        for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
            batch = documents[start : start + DOCUMENTS_AT_ONCE]
            for document, live in self._live_versions(batch).items():
                if stored[document] - live:
                    self._delete_versions_except(space, document, live)
                    cleaned += 1
        return cleaned

    def optimize(self, collection: str, *, model: EmbeddingModel) -> None:
        """Optimise the space of a collection."""
        space = self._find_space(collection, model)
        if space is not None:
            self._points.optimize(space.name)

    def drop(self, space: VectorSpace) -> None:
        """Delete a space that no collection uses, with its record. After a crash, call it again."""
        self._points.drop(space.name)
        with self._begin() as tx:
            vector_spaces.delete_space(tx, space)

    def close(self) -> None:
        self._database.close()
        self._points.close()

    def _require_space(self, collection: str, model: EmbeddingModel) -> VectorSpace:
        """Return the space of a collection. Record and create it if it does not exist."""
        space = self._find_space(collection, model)
        if space is None:
            with self._begin() as tx:
                vector_spaces.add_space(tx, collection, self._place, model)
            space = self._find_space(collection, model)
            assert space is not None
        self._points.create(space.name, model.dimension)
        return space

    def _find_space(self, collection: str, model: EmbeddingModel) -> VectorSpace | None:
        return next(iter(vector_spaces.find_spaces(self._database.read, self._place, model, collection)), None)

    def _live_versions(self, documents: Sequence[int]) -> dict[int, set[int]]:
        none: dict[int, set[int]] = {document: set() for document in documents}
        return none | self._database.live_versions(documents)

    def _delete_versions_except(self, space: VectorSpace, document: int, versions: set[int]) -> None:
        self._points.delete(space.name, PointFilter(documents=[document], except_versions=sorted(versions)))

    # delegated to the database

    def create_tables(self, tx: Tx) -> None:
        self._database.create_tables(tx)

    def add_chunks(self, tx: Tx, entry: IndexEntry, chunks: Sequence[Chunk]) -> None:
        self._database.add_chunks(tx, entry, chunks)

    def known_hashes(self, model: EmbeddingModel, hashes: Sequence[bytes]) -> set[bytes]:
        return self._database.known_hashes(model, hashes)

    def save_vectors(self, tx: Tx, model: EmbeddingModel, vectors: Mapping[bytes, bytes]) -> None:
        self._database.save_vectors(tx, model, vectors)

    def make_visible(self, tx: Tx, name: DocumentName, *, model: EmbeddingModel) -> None:
        self._database.make_visible(tx, name, model=model)
        vector_spaces.add_upload_of_visible(tx, self._place, model, name)

    def delete_document(self, tx: Tx, name: DocumentName) -> None:
        self._database.delete_document(tx, name)

    def rename_document(self, tx: Tx, name: DocumentName, *, to: str) -> None:
        self._database.rename_document(tx, name, to=to)

    def search_words(self, question: Question, where: Where, *, limit: int) -> list[Hit]:
        return self._database.search_words(question, where, limit=limit)

    def search_runs(self, question: Question, where: Where, *, limit: int) -> list[Hit]:
        return self._database.search_runs(question, where, limit=limit)

    def chunks_allowed(self, question: Question, chunks: Sequence[int]) -> set[int]:
        return self._database.chunks_allowed(question, chunks)

    def vectors(self, model: EmbeddingModel, chunks: Sequence[int]) -> dict[int, bytes]:
        return self._database.vectors(model, chunks)

    def chunks(self, ids: Sequence[int]) -> dict[int, StoredChunk]:
        return self._database.chunks(ids)


def _points(name: DocumentName, vectors: VersionVectors) -> list[QdrantPoint]:
    return [
        QdrantPoint(
            name=name,
            chunk=(vectors.document, vectors.version, position),
            page=page,
            chunk_index=chunk_index,
            content=text,
            vector=_floats(vector),
        )
        for position, page, chunk_index, text, vector in vectors.chunks
    ]


def _floats(vector: bytes) -> list[float]:
    import numpy as np

    floats: list[float] = np.frombuffer(vector, "<f2").astype(np.float32).tolist()
    return floats
