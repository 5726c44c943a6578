"""Delete a collection, forget a source or one document, and collect garbage. The files themselves are not touched.

Garbage is what no collection needs any more. Only a person starts its collection: unused vectors may be needed again. A
file that moves to another collection, or comes back, is not embedded again as long as its vectors are there.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.pipelines.rag.collections import jobs, metadata, remarks, spending
from holdfast.pipelines.rag.collections.open_collection import OpenCollection
from holdfast.pipelines.rag.collections.settings import SQL, list_collections, remove_collection
from holdfast.pipelines.rag.index import DocumentName, EmbeddingModel, vector_spaces
from holdfast.pipelines.rag.index.qdrant.protocol import QdrantError
from holdfast.pipelines.rag.index.registry import STORE, Indexes
from holdfast.pipelines.rag.ingest.removal import SOURCE_FORGOTTEN, WITHDRAWN, withdraw_all
from holdfast.pipelines.rag.ingest.source_documents import forget_document
from holdfast.sources import find_root
from holdfast.stores.protocol import Store


def delete_collection(opened: OpenCollection) -> None:
    """Delete a collection and all its documents from the index. After a kill, it can be called again."""
    name, store = opened.name, opened.store
    with store.transaction() as tx:
        jobs.delete_jobs(tx, name)
    withdraw_all(store, opened.indexes.database, name, who="delete", reason="its collection was deleted")
    with store.transaction() as tx:
        remove_collection(tx, name)
        metadata.delete_metadata(tx, name)
        remarks.delete_remarks(tx, name)
        spending.delete_limits(tx, name)
    opened.indexes.drop_abandoned()


def forget(opened: OpenCollection, source: str, *, document: str | None) -> int:
    """Delete all documents of a source from the index, or one of them. Return how many were withdrawn.

    Jobs of the source are forgotten too. After a kill, it can be called again.

    Raises:
        SourceRefused: Nothing was ingested from this source.
        UnknownDocument: The source has no such document.
    """
    root = find_source_root(opened, source)
    with opened.store.transaction() as tx:
        jobs.delete_jobs(tx, opened.name, source=root)
    if document is None:
        withdrawn = _forget_source(opened, root)
    else:
        name = DocumentName(opened.name, root, document)
        withdrawn = forget_document(opened.store, opened.indexes.database, name)
    if opened.settings.index != STORE and opened.has_embedder():
        opened.index.maintain(opened.name, model=opened.model)
    return withdrawn


def _forget_source(opened: OpenCollection, root: str) -> int:
    name, store = opened.name, opened.store
    withdrawn = withdraw_all(store, opened.indexes.database, name, source=root, who="forget", code=SOURCE_FORGOTTEN)
    with store.transaction() as tx:
        metadata.delete_metadata(tx, name, source=root)
    return withdrawn


def find_source_root(opened: OpenCollection, source: str) -> str:
    """Return the root by which a collection knows a source, even if the source does not exist any more.

    Raises:
        SourceRefused: Nothing was ingested from this source.
    """
    return find_root(source, [batch.batch for batch in opened.store.batch_counts(opened.name)])


def count_withdrawn(opened: OpenCollection) -> int:
    """Count the documents that were withdrawn: their files were deleted, or their source was forgotten."""
    return sum(opened.store.count(opened.name, state="cancelled", code=code) for code in WITHDRAWN)


SLICE = 500
"""How many documents are deleted in one transaction."""
VECTORS = 10_000
"""How many vectors are deleted in one transaction. Finding them may read all chunks."""


class GarbageReport(Struct, frozen=True, kw_only=True):
    """What a garbage collection deleted.

    Attributes:
        vectors: How many vectors were deleted because no chunk has their content any more.
        documents: How many deleted documents still had chunks.
        swept: How many documents had vectors in Qdrant that differ from the database.
        left: Why a Qdrant could not be cleaned up. Call it again later.
    """

    vectors: int
    documents: int
    swept: int
    left: Sequence[str]


def collect_garbage(store: Store) -> GarbageReport:
    """Delete from the index what no collection of a store needs any more. After a kill, it can be called again.

    Args:
        store: The store.

    Returns:
        How much was deleted.

    Example:
        with holdfast.open("sqlite:///holdfast.db") as store:
            print(rag.collect_garbage(store).vectors)
    """
    indexes = Indexes(store)
    try:
        _abandon_unused_spaces(store, indexes)
        swept, left = _reconcile_spaces(store, indexes)
        return GarbageReport(
            documents=_delete_documents(store, indexes),
            vectors=sum(_delete_vectors(store, indexes, model) for model in _models(store)),
            swept=swept,
            left=[*left, *indexes.drop_abandoned()],
        )
    finally:
        indexes.close()


def _abandon_unused_spaces(store: Store, indexes: Indexes) -> None:
    """Abandon vector spaces that a worker with earlier settings made after the settings had changed."""
    with store.transaction() as tx:
        indexes.database.create_tables(tx)
        for collection in list_collections(tx):
            if collection.searched is None:
                vector_spaces.abandon_spaces(tx, collection.name, kept_place=collection.settings.index)


def _delete_documents(store: Store, indexes: Indexes) -> int:
    deleted = 0
    while numbers := indexes.database.missing_documents(limit=SLICE):
        with store.transaction() as tx:
            for number in numbers:
                indexes.database.delete_missing(tx, number)
        deleted += len(numbers)
    return deleted


def _delete_vectors(store: Store, indexes: Indexes, model: EmbeddingModel) -> int:
    deleted, after = 0, b""
    while hashes := indexes.database.unused_hashes(model, after=after, limit=VECTORS):
        after = hashes[-1]
        with store.transaction() as tx:
            deleted += indexes.database.delete_vectors(tx, model, hashes)
    return deleted


def _models(store: Store) -> list[EmbeddingModel]:
    with store.reading() as tx:
        return [EmbeddingModel(*row) for row in SQL.run(tx, "models").fetchall()]


def _reconcile_spaces(store: Store, indexes: Indexes) -> tuple[int, list[str]]:
    swept, left = 0, {}
    models = {model.name: model for model in _models(store)}
    for space in vector_spaces.spaces_in_use(indexes.database.read):
        model = models.get(space.model)
        if model is None or space.place in left:
            continue
        try:
            index = indexes.external(space.place)
            swept += index.reconcile(space.collection, model=model)
            index.optimize(space.collection, model=model)
        except QdrantError as error:
            left[space.place] = str(error)
    return swept, [*left.values()]
