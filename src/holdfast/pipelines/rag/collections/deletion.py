"""Delete a collection, forget a source of it, or one document. The files themselves are not touched."""

from __future__ import annotations

from holdfast.pipelines.rag.collections import jobs, metadata
from holdfast.pipelines.rag.collections.open_collection import OpenCollection
from holdfast.pipelines.rag.collections.settings import remove_collection
from holdfast.pipelines.rag.index import DocumentName
from holdfast.pipelines.rag.index.registry import STORE
from holdfast.pipelines.rag.ingest.removal import SOURCE_FORGOTTEN, WITHDRAWN, withdraw_all
from holdfast.pipelines.rag.ingest.source_documents import forget_document
from holdfast.sources import find_root


def delete_collection(opened: OpenCollection) -> None:
    """Delete a collection and all its documents from the index. After a kill, it can be called again."""
    name, store = opened.name, opened.store
    with store.transaction() as tx:
        jobs.delete_jobs(tx, name)
    withdraw_all(store, opened.indexes.database, name, who="delete", reason="its collection was deleted")
    with store.transaction() as tx:
        remove_collection(tx, name)
        metadata.delete_metadata(tx, name)
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
