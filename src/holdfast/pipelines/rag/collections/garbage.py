"""Garbage collection: delete from the index what no collection needs any more. Only a person starts it.

Unused vectors may be needed again: a file that moves to another collection, or comes back, is not embedded again as
long as its vectors are there. So they are not deleted automatically.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.pipelines.rag.collections.settings import SQL, list_collections
from holdfast.pipelines.rag.index import EmbeddingModel, vector_spaces
from holdfast.pipelines.rag.index.qdrant.protocol import QdrantError
from holdfast.pipelines.rag.index.registry import Indexes
from holdfast.stores.protocol import Store

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
