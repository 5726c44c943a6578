"""Remove documents: cancel them, so that no worker processes them, and take them out of the index."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.model import DocumentStatus, Plan, WrittenRows
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.collections.settings import list_documents
from holdfast.pipelines.rag.index import DocumentName, Index
from holdfast.pipelines.rag.ingest.known_files import KnownFiles, keys_by_source
from holdfast.stores.protocol import DocumentFilter, Store

INGEST_ACTOR = "ingest"
"""Who made the changes of an ingest, for the journal."""
FILE_DELETED = "file_deleted"
ATTACHMENT_GONE = "attachment_gone"
SOURCE_FORGOTTEN = "source_forgotten"
DOCUMENT_FORGOTTEN = "document_forgotten"
WITHDRAWN = {
    FILE_DELETED: "its file was deleted",
    ATTACHMENT_GONE: "it is not attached to its message any more",
    SOURCE_FORGOTTEN: "its source was forgotten",
    DOCUMENT_FORGOTTEN: "it was forgotten",
}
"""The codes of documents that were withdrawn while their collection remains, with the sentence of each."""
SLICE = 2000
"""How many documents are withdrawn at once."""


def is_withdrawn(document: DocumentStatus) -> bool:
    """Return True if a document was withdrawn, and not cancelled by a person."""
    return document.state == "cancelled" and document.code in WITHDRAWN


def withdraw(
    store: Store, index: Index, plan: Plan, document_ids: Sequence[int], *, who: str, reason: str = "", code: str = ""
) -> int:
    """Cancel documents, also done ones and dead letters, and delete them from the index, in one transaction.

    Return how many there were.

    Args:
        store: The store.
        index: The index.
        plan: The plan of the collection.
        document_ids: The documents.
        who: The name for the journal.
        reason: Why, for people. The sentence of the code if empty.
        code: Why, for programs: a key of WITHDRAWN.
    """

    def delete(tx: Tx, written: Sequence[WrittenRows]) -> None:
        for rows in written:
            index.delete_document(tx, DocumentName(plan.pipeline, rows.document.batch, rows.document.key))

    why = {"reason": reason or WITHDRAWN[code], "code": code}
    return len(store.withdraw(plan, document_ids, undo=delete, who=who, **why))


def withdraw_all(
    store: Store,
    index: Index,
    collection: str,
    *,
    source: str | None = None,
    who: str,
    reason: str = "",
    code: str = "",
) -> int:
    """Remove all documents of a collection, or of one source, from the index. Return how many were withdrawn.

    After a kill, it can be called again. If the source is ingested instead, withdrawn documents are new ones.

    Args:
        store: The store.
        index: The index.
        collection: The name of the collection.
        source: Only documents of this source.
        who: The name for the journal.
        reason: Why, for people. The sentence of the code if empty.
        code: Why, for programs: a key of WITHDRAWN.
    """
    plan = last_plan(store, collection)
    which: DocumentFilter = {} if source is None else {"batch": source}
    after = withdrawn = 0
    while plan is not None and (ids := store.select(collection, after=after, limit=SLICE, **which)):
        after = ids[-1]
        keys_of = keys_by_source(store.documents_by_id(ids))
        for root, keys in keys_of.items():
            with store.transaction() as tx:
                KnownFiles(collection, root).mark_uncertain(tx, keys)
        withdrawn += withdraw(store, index, plan, ids, who=who, reason=reason, code=code)
        for root, keys in keys_of.items():
            with store.transaction() as tx:
                KnownFiles(collection, root).mark_gone(tx, keys)
    while _delete_unknown(store, index, collection, source):
        pass
    return withdrawn


def last_plan(store: Store, pipeline: str) -> Plan | None:
    """Return the plan that was declared last, even if nobody can build the pipeline any more. None: there is none."""
    known = store.plans(pipeline) if pipeline in store.pipelines() else []
    return store.declare(known[-1].shape) if known else None


def _delete_unknown(store: Store, index: Index, collection: str, source: str | None) -> int:
    """Delete what is still in the index: documents that a cleanup removed from the store. Return how many."""
    with store.transaction() as tx:
        names = list_documents(tx, collection, source=source, limit=SLICE)
        for name in names:
            index.delete_document(tx, name)
        return len(names)
