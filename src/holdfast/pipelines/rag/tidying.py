"""Tidying up: what no collection needs any more leaves the index. A person asks for it; nothing calls it by itself.

Vectors of contents that nobody has now may be wanted tomorrow: a file that moves to another collection, or comes back,
is not embedded again as long as they are there. So they are not cleared away in passing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.pipelines.rag.collections import collections
from holdfast.pipelines.rag.index import Model, spaces
from holdfast.pipelines.rag.index.choice import Indexes
from holdfast.pipelines.rag.index.qdrant.points import QdrantTrouble
from holdfast.stores.protocol import Store

SLICE = 500
"""How many documents go in one transaction."""
VECTORS = 10_000
"""How many vectors go in one transaction: finding them may take a walk over all chunks."""


class Tidied(Struct, frozen=True, kw_only=True):
    """What was cleared away.

    vectors    remembered vectors of contents that no chunk had any more
    documents  documents that were gone and of which there were still chunks
    swept      documents whose points elsewhere were not as the database says
    left       why places could not be put in order: another time
    """

    vectors: int
    documents: int
    swept: int
    left: Sequence[str]


def tidy(store: Store) -> Tidied:
    """Clears away what no collection of a store needs any more. Killed anywhere, it can be called again."""
    indexes = Indexes(store)
    try:
        _give_up_forgotten_spaces(store, indexes)
        swept, left = _swept(indexes)
        return Tidied(
            documents=_documents(store, indexes),
            vectors=sum(_vectors(store, indexes, model) for model in _models(indexes)),
            swept=swept,
            left=[*left, *indexes.clear()],
        )
    finally:
        indexes.close()


def _give_up_forgotten_spaces(store: Store, indexes: Indexes) -> None:
    """Gives up what a worker with earlier settings made after they had changed."""
    with store.transaction() as tx:
        indexes.ground.prepare(tx)
        for one in collections(tx):
            if one.searched is None:
                spaces.abandon(tx, one.name, but_place=one.settings.index)


def _documents(store: Store, indexes: Indexes) -> int:
    gone = 0
    while some := indexes.ground.lost(limit=SLICE):
        with store.transaction() as tx:
            for document in some:
                indexes.ground.discard(tx, document)
        gone += len(some)
    return gone


def _vectors(store: Store, indexes: Indexes, model: Model) -> int:
    gone, after = 0, b""
    while some := indexes.ground.unused(model, after=after, limit=VECTORS):
        after = some[-1]
        with store.transaction() as tx:
            gone += indexes.ground.shed(tx, model, some)
    return gone


def _models(indexes: Indexes) -> list[Model]:
    return [Model(*row) for row in indexes.ground.ask("select name, dimension from rag_model order by id")]


def _swept(indexes: Indexes) -> tuple[int, list[str]]:
    swept, left = 0, {}
    models = {model.name: model for model in _models(indexes)}
    for space in spaces.in_use(indexes.ground.ask):
        model = models.get(space.model)
        if model is None or space.place in left:
            continue
        try:
            index = indexes.elsewhere(space.place)
            swept += index.sweep(space.collection, model=model)
            index.optimize(space.collection, model=model)
        except QdrantTrouble as trouble:
            left[space.place] = str(trouble)
    return swept, [*left.values()]
