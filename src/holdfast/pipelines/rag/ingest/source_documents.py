"""The documents of a source in the store: find, rename and remove them, always with their attachments."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.core.errors import UnknownDocument
from holdfast.core.model import DocumentStatus, NewDocument, Plan
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.collections.remarks import rename_remark
from holdfast.pipelines.rag.index import DatabaseIndex, DocumentName, Index
from holdfast.pipelines.rag.ingest.attachments import ATTACHMENT_MARK, OWN, attachment_fingerprint, is_attachment_of
from holdfast.pipelines.rag.ingest.file_changes import FileChange
from holdfast.pipelines.rag.ingest.known_files import KnownFiles, content_hash
from holdfast.pipelines.rag.ingest.removal import (
    DOCUMENT_FORGOTTEN,
    FILE_DELETED,
    INGEST_ACTOR,
    is_withdrawn,
    last_plan,
    withdraw,
)
from holdfast.sources import FileGone
from holdfast.stores.protocol import DocumentFilter, Store

FILE_MOVED = "file_moved"
MOVED = "its file was moved"
FILE_BACK = "file_back"
BACK = "its file is there again"


def forget_document(store: Store, index: DatabaseIndex, name: DocumentName) -> int:
    """Withdraw a document and its attachments, and delete them from the index. Return how many were withdrawn.

    After a kill, it can be called again. If its file is ingested instead, the document is a new one.

    Raises:
        UnknownDocument: Neither the store nor the index has the document.
    """
    if index.document_id(name) is None:
        store.document(name.collection, name.source, name.key)
    documents = SourceDocuments(
        store,
        index,
        KnownFiles(name.collection, name.source),
        collection=name.collection,
        source=name.source,
        plan=lambda: last_plan(store, name.collection),
    )
    return documents.remove(name.key, who="forget", code=DOCUMENT_FORGOTTEN)


class SourceDocuments:
    """The documents of one source. Changes to the store, the index and the known files are made together."""

    def __init__(
        self,
        store: Store,
        index: Index,
        files: KnownFiles,
        *,
        collection: str,
        source: str,
        plan: Callable[[], Plan | None],
    ) -> None:
        """Prepare the changes to the documents of a source.

        Args:
            store: The store.
            index: The index.
            files: The known files of the source.
            collection: The name of the collection.
            source: The source.
            plan: Returns the plan of the collection, None if it has none. Called only if documents are withdrawn.
        """
        self._collection = collection
        self._store = store
        self._index = index
        self._source = source
        self._files = files
        self._plan = plan
        self._has_attachments = True

    def find_dead_without_file(self) -> list[DocumentStatus]:
        """Return the documents that died because their files were missing."""
        dead: list[DocumentStatus] = []
        after = 0
        which: DocumentFilter = {"batch": self._source, "state": "dead", "error": FileGone.__name__}
        while ids := self._store.select(self._collection, **which, after=after):
            after = ids[-1]
            dead += self._store.documents_by_id(ids)
        return dead

    def retry(self, documents: Sequence[DocumentStatus]) -> None:
        """Retry dead documents whose files are there again."""
        ids = [document.id for document in documents]
        self._store.redrive(ids, who=INGEST_ACTOR, reason=BACK, code=FILE_BACK)

    def check_attachments(self) -> None:
        """Check whether the source has any attachments. Looking for those of one document reads all documents."""
        pattern = f"*{ATTACHMENT_MARK}*"
        ids = self._store.select(self._collection, batch=self._source, key=pattern, limit=1)
        self._has_attachments = bool(ids)

    def remove(self, key: str, *, who: str = INGEST_ACTOR, code: str = FILE_DELETED) -> int:
        """Withdraw a document and its attachments, then delete them from the index. Return how many were withdrawn.

        Args:
            key: The document.
            who: The name for the journal.
            code: Why: a key of WITHDRAWN.
        """
        documents, withdrawn = self._withdraw(key, who=who, code=code)
        keys = [key, *(document.key for document in documents if document.key != key)]
        with self._store.transaction() as tx:
            for gone in keys:
                self._index.delete_document(tx, self._name(gone))
            self._files.mark_gone(tx, keys)
        return withdrawn

    def rename(self, change: FileChange) -> bool:
        """Give the document of a moved file its new key. Return False if that is not possible.

        A document that has the new key already is withdrawn first and gets the old key, marked as gone. Then documents,
        index and known files change in one transaction.
        """
        assert change.now is not None
        old, new, now = change.came_from, change.key, change.now
        moved = self._moved_documents(change)
        if not moved:
            return False
        replaced = {
            document.key: NewDocument(old + document.key.removeprefix(new), document.payload)
            for document in self._withdraw(new, who=INGEST_ACTOR, code=FILE_DELETED)[0]
        }

        def rename_elsewhere(tx: Tx, renamed: Sequence[str]) -> None:
            if old not in renamed:
                return
            for key in renamed:
                if key in replaced:
                    self._index.delete_document(tx, self._name(key))
            for key in renamed:
                if key in moved:
                    self._index.rename_document(tx, self._name(key), to=moved[key].key)
                    rename_remark(tx, self._name(key), to=moved[key].key)
            self._files.mark_gone(tx, [*{old, *(replaced[key].key for key in renamed if key in replaced)}])
            self._files.save(tx, [now])

        return old in self._store.rename(
            self._collection,
            self._source,
            moved | replaced,
            who=INGEST_ACTOR,
            reason=MOVED,
            code=FILE_MOVED,
            effect=rename_elsewhere,
        )

    def _moved_documents(self, change: FileChange) -> dict[str, NewDocument]:
        """Return a moved document and its attachments, with their new keys, by their old keys.

        Attachments that are withdrawn, or that are not of the present content, get no fingerprint: no later document
        counts as the same. Return nothing if the document itself is like that.
        """
        assert change.seen is not None
        assert change.now is not None
        old, new, content = change.came_from, change.key, change.now.hash
        documents = sorted(self._with_attachments(old), key=lambda document: len(document.key))
        if not documents or is_withdrawn(documents[0]) or content_hash(documents[0].fingerprint) != content:
            return {}
        keys = [new + document.key.removeprefix(old) for document in documents]
        with self._store.reading() as tx:
            gone_counts = self._files.gone_counts(tx, keys)
        fingerprints = {new: self._files.fingerprint(change.now)}
        moved = {}
        for document, key, gone_count in zip(documents, keys, gone_counts, strict=True):
            if key != new:
                message = max((known for known in fingerprints if key.startswith(known + ATTACHMENT_MARK)), key=len)
                fingerprints[key] = attachment_fingerprint(fingerprints[message], gone_count)
            payload = document.payload | {"location": change.seen.location} | ({"name": key} if key == new else {})
            own = document.payload.get(OWN)
            if own is not None:
                fingerprints[key] = attachment_fingerprint(own, gone_count)
            is_current = content_hash(document.fingerprint) == (own or content) and not is_withdrawn(document)
            moved[document.key] = NewDocument(key, payload, fingerprints[key] if is_current else "")
        return moved

    def _withdraw(self, key: str, *, who: str, code: str) -> tuple[list[DocumentStatus], int]:
        """Withdraw a document and its attachments, so that no worker writes any more.

        Return them, and how many were not withdrawn before.
        """
        with self._store.transaction() as tx:
            self._files.mark_uncertain(tx, [key])
        documents = self._with_attachments(key)
        plan = self._plan() if documents else None
        ids = [document.id for document in documents]
        withdrawn = withdraw(self._store, self._index, plan, ids, who=who, code=code) if plan else 0
        return documents, withdrawn

    def _with_attachments(self, key: str) -> list[DocumentStatus]:
        """Return a document and its attachments. Empty if there is no such document."""
        try:
            documents = [self._store.document(self._collection, self._source, key)]
        except UnknownDocument:
            return []
        after = 0
        which: DocumentFilter = {"batch": self._source, "key": f"{key}{ATTACHMENT_MARK}*"}
        while self._has_attachments and (ids := self._store.select(self._collection, **which, after=after)):
            after = ids[-1]
            found = self._store.documents_by_id(ids)
            documents += [document for document in found if is_attachment_of(document, key)]
        return documents

    def _name(self, key: str) -> DocumentName:
        return DocumentName(self._collection, self._source, key)
