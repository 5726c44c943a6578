"""Bring the documents of a collection up to its present settings.

Documents that were processed with other settings are processed again. With a new embedder, visible documents that the
pipeline does not process again get their vectors by a backfill. A newer version of such a document failed or waits, or
a cleanup removed the document from the store. Its visible version stays, and vector searches with the new model must
find it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.core.errors import Reject, Signal
from holdfast.core.pipeline import Pipeline
from holdfast.ops.forecast import stale_groups
from holdfast.pipelines.rag.collections.open_collection import OpenCollection
from holdfast.pipelines.rag.embed import Embedder
from holdfast.pipelines.rag.embed.protocol import to_float16
from holdfast.pipelines.rag.embed.registry import model_of
from holdfast.pipelines.rag.http_errors import ServiceError
from holdfast.pipelines.rag.index import DatabaseIndex, EmbeddingModel
from holdfast.pipelines.rag.index.registry import STORE
from holdfast.pipelines.rag.ingest.removal import INGEST_ACTOR
from holdfast.pipelines.rag.sql_statements import load_statements
from holdfast.pipelines.rag.values import prepend_title
from holdfast.stores.protocol import DocumentFilter, Store

SLICE = 2000
"""How many documents are rewound at once."""
DOCUMENTS_AT_ONCE = 100
SQL = load_statements(Path(__file__).parent / "queries")
AT_WORK = ("waiting", "running", "done")
"""States of documents that get their vectors from the pipeline, now or by the next ingest."""


def reprocess_stale(store: Store, pipeline: Pipeline) -> int:
    """Rewind documents that were processed with other settings. Return how many.

    Until they are processed again, searches see their former version.
    """
    if pipeline.name not in store.pipelines():
        return 0
    groups = stale_groups(store, pipeline)
    plan = store.declare(pipeline.shape())
    rewound = 0
    for group in groups:
        for place in group.counts:
            which: DocumentFilter = {"plan": group.plan_id, "state": place.state, "step": place.step}
            after = 0
            while ids := store.select(pipeline.name, after=after, limit=SLICE, **which):
                after = ids[-1]
                rewound += len(store.rewind_to(plan, ids, to=group.to, who=INGEST_ACTOR, reason=group.why))
    return rewound


def finish_indexing(opened: OpenCollection) -> None:
    """Complete the index after work. After a kill, the next call continues.

    - Documents that are not processed again get vectors of a new embedder.
    - Vectors that are searched outside the database are uploaded, and outdated ones deleted.
    - If all vectors of new settings are in place, the collection is searched by them from now on.
    """
    new, searched = opened.settings, opened.searched
    if new.embedder != searched.embedder:
        backfill_vectors(opened.store, opened.indexes.database, opened.name, opened.embedder)
    if new.index == searched.index == STORE:
        return
    opened.index.upload_missing(opened.name, model=opened.model)
    opened.switch_if_complete()
    opened.index.maintain(opened.name, model=opened.model)
    opened.indexes.drop_abandoned()


def backfill_vectors(store: Store, database: DatabaseIndex, collection: str, embedder: Embedder) -> None:
    """Embed visible versions that have no vectors of this embedder and that the pipeline does not process again.

    It ends early if the embedder is not available. Call it again to continue; also after a crash.
    """
    after = 0
    with suppress(Signal, ServiceError):
        model = model_of(embedder)
        while rows := _without_vectors(store, collection, model, after):
            for document, version in _not_at_work(store, collection, rows):
                vectors = _vectors(database, _hashes(store, document, version), model, embedder)
                with store.transaction() as tx:
                    database.save_vectors(tx, model, vectors)
                    database.mark_embedded(tx, document, version, model=model)
            after = rows[-1][0]


_Row = tuple[int, int, str, str]
"""The id, the visible version, the source and the key of a document."""


def _without_vectors(store: Store, collection: str, model: EmbeddingModel, after: int) -> list[_Row]:
    """Return documents whose visible version has no vectors of a model."""
    params = {"collection": collection, "model": model.name, "after": after, "limit": DOCUMENTS_AT_ONCE}
    with store.reading() as tx:
        return [(*row,) for row in SQL.run(tx, "without_vectors", **params).fetchall()]


def _not_at_work(store: Store, collection: str, rows: Sequence[_Row]) -> Iterator[tuple[int, int]]:
    """Yield id and version of the documents that no worker processes, now or later."""
    at_work: set[tuple[str, str]] = set()
    for source in {source for _, _, source, _ in rows}:
        keys = [key for _, _, other, key in rows if other == source]
        documents = store.documents_by_key(collection, source, keys)
        at_work |= {(source, document.key) for document in documents if document.state in AT_WORK}
    for document, version, source, key in rows:
        if (source, key) not in at_work:
            yield document, version


def _hashes(store: Store, document: int, version: int) -> dict[int, bytes]:
    """Return the hashes of a version's contents, by the ids of their chunks."""
    with store.reading() as tx:
        rows = SQL.run(tx, "chunks_of_version", document=document, version=version).fetchall()
    return {chunk: bytes(content) for chunk, content in rows}


def _vectors(
    database: DatabaseIndex, hashes: Mapping[int, bytes], model: EmbeddingModel, embedder: Embedder
) -> Mapping[bytes, bytes]:
    """Embed the contents of a version that have no vector yet."""
    known = database.known_hashes(model, [*hashes.values()])
    contents = {
        hashes[chunk]: prepend_title(stored.title if stored.title not in stored.text else "", stored.text)
        for chunk, stored in database.chunks([*hashes]).items()
        if hashes[chunk] not in known
    }
    return _embedded(contents, embedder)


def _embedded(contents: Mapping[bytes, str], embedder: Embedder) -> Mapping[bytes, bytes]:
    """Embed contents, one window at a time. A content that the model rejects has no vector: its words are found."""
    vectors: dict[bytes, bytes] = {}
    hashes = [*contents]
    for first in range(0, len(hashes), embedder.window):
        window = hashes[first : first + embedder.window]
        try:
            vectors |= _embed_window({content: contents[content] for content in window}, embedder)
        except Reject:
            for content in window:
                with suppress(Reject):
                    vectors |= _embed_window({content: contents[content]}, embedder)
    return vectors


def _embed_window(contents: Mapping[bytes, str], embedder: Embedder) -> dict[bytes, bytes]:
    rows = to_float16(embedder.embed([*contents.values()]), embedder, count=len(contents))
    return {content: row.tobytes() for content, row in zip(contents, rows, strict=True)}
