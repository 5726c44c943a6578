"""The attachments of messages: each one is a document of its own."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from holdfast.core.document import Document
from holdfast.core.errors import UnknownDocument
from holdfast.core.model import DocumentStatus, NewDocument
from holdfast.core.pipeline import Pipeline
from holdfast.core.text_limits import MAX_KEY, too_long
from holdfast.engine import api
from holdfast.pipelines.rag.index import DatabaseIndex, DocumentName
from holdfast.pipelines.rag.ingest.known_files import KnownFiles
from holdfast.pipelines.rag.ingest.removal import ATTACHMENT_GONE, INGEST_ACTOR, withdraw
from holdfast.stores.protocol import Store

ATTACHMENT_MARK = "#"
"""Separates the key of a message from the name of an attachment."""


def submit_attachments(
    pipeline: Pipeline, store: Store, database: DatabaseIndex, doc: Document, *, names: Sequence[str]
) -> None:
    """Submit the attachments of a message. Remove those that only an earlier version of the message had.

    If a message is read again, its attachments have the same keys, so nothing is submitted twice.

    Args:
        pipeline: The pipeline of the collection.
        store: The store.
        database: The index in the database.
        doc: The message.
        names: The names of its attachments.
    """
    if doc.generation:
        _remove_missing(pipeline, store, database, doc, names)
    if names:
        with store.reading() as tx:
            gone_counts = KnownFiles(doc.pipeline, doc.batch).gone_counts(tx, [_key(doc, name) for name in names])
        api.submit(pipeline, store, batch=doc.batch, documents=_documents(doc, names, gone_counts))


def attachment_fingerprint(message: str, gone_count: int) -> str:
    """Return the fingerprint of an attachment: that of its message and, if it was gone before, how often."""
    return f"{message}+{gone_count}" if gone_count else message


def is_attachment_of(document: DocumentStatus, key: str) -> bool:
    """Return True if a document is an attachment of a message. The key alone is not enough: a file may be named so."""
    return document.key.startswith(key + ATTACHMENT_MARK) and "inside" in document.payload


def _documents(doc: Document, names: Sequence[str], gone_counts: Sequence[int]) -> list[NewDocument]:
    """Return the attachments as new documents. They are read from the message when they are processed.

    An attachment that was gone has another fingerprint than before. Otherwise it would count as submitted already.
    """
    inside: list[int] = doc.payload.get("inside", [])
    return [
        NewDocument(
            _key(doc, name),
            doc.payload | {"inside": [*inside, position], "name": name},
            attachment_fingerprint(doc.fingerprint, gone_count),
        )
        for position, (name, gone_count) in enumerate(zip(names, gone_counts, strict=True))
    ]


def _remove_missing(
    pipeline: Pipeline, store: Store, database: DatabaseIndex, doc: Document, names: Sequence[str]
) -> None:
    """Withdraw attachments, then mark them as gone."""
    present = {_key(doc, name) for name in names}
    for name in database.names_with_prefix(DocumentName(doc.pipeline, doc.batch, doc.key + ATTACHMENT_MARK)):
        if name.key in present or name.key.startswith(tuple(key + ATTACHMENT_MARK for key in present)):
            continue
        try:
            document = store.document(doc.pipeline, doc.batch, name.key)
        except UnknownDocument:
            continue
        if is_attachment_of(document, doc.key):
            plan = store.declare(pipeline.shape())
            withdraw(store, database, plan, [document.id], who=INGEST_ACTOR, code=ATTACHMENT_GONE)
            with store.transaction() as tx:
                database.delete_document(tx, name)
                KnownFiles(doc.pipeline, doc.batch).mark_gone(tx, [name.key])


def _key(doc: Document, name: str) -> str:
    """Return the key of an attachment. A name that would make it too long is cut, and gets its hash instead."""
    key = f"{doc.key}{ATTACHMENT_MARK}{name}"
    if not too_long(key):
        return key
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    room = MAX_KEY - len(f"{doc.key}{ATTACHMENT_MARK}~{digest}".encode())
    start = name.encode()[: max(room, 0)].decode(errors="ignore")
    return f"{doc.key}{ATTACHMENT_MARK}{start}~{digest}"
