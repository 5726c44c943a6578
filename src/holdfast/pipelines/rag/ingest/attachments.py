"""The attachments of messages and the entries of containers: each one is a document of its own."""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import partial
from hashlib import blake2b
from itertools import islice

from holdfast.core.document import Document
from holdfast.core.errors import UnknownDocument
from holdfast.core.model import DocumentStatus, NewDocument
from holdfast.core.pipeline import Pipeline
from holdfast.core.text_limits import MAX_KEY, too_long
from holdfast.engine import api
from holdfast.pipelines.rag.index import DatabaseIndex, DocumentName
from holdfast.pipelines.rag.ingest.known_files import KnownFiles
from holdfast.pipelines.rag.ingest.removal import ATTACHMENT_GONE, INGEST_ACTOR, withdraw
from holdfast.pipelines.rag.values import EntryDocument
from holdfast.stores.protocol import Store

ATTACHMENT_MARK = "#"
"""Separates the key of a message or a container from the name of what is inside."""
OWN = "own"
"""The name under which the payload of an entry has the fingerprint of the entry, if it has one."""
SLICE = 1000
"""How many entries are submitted at once."""


def submit_entries(
    pipeline: Pipeline, store: Store, database: DatabaseIndex, doc: Document, *, entries: Iterator[EntryDocument]
) -> None:
    """Submit the attachments of a message, or the entries of a container. Remove those that it does not have any more.

    If it is read again, they have the same keys, so nothing is submitted twice. An entry that has a fingerprint of its
    own is read again only if that changed.

    Args:
        pipeline: The pipeline of the collection.
        store: The store.
        database: The index in the database.
        doc: The message or container.
        entries: What it has now.
    """
    present: set[str] = set()
    used: set[int] = set()
    known = KnownFiles(doc.pipeline, doc.batch)
    while part := list(islice(entries, SLICE)):
        keys = [_unique(doc, entry.name, used) for entry in part]
        with store.reading() as tx:
            gone_counts = known.gone_counts(tx, keys)
        api.submit(pipeline, store, batch=doc.batch, documents=map(partial(_document, doc), part, keys, gone_counts))
        if doc.generation:
            present.update(keys)
    if doc.generation:
        _remove_missing(pipeline, store, database, doc, present)


def attachment_fingerprint(message: str, gone_count: int) -> str:
    """Return the fingerprint of an attachment: that of its message and, if it was gone before, how often."""
    return f"{message}+{gone_count}" if gone_count else message


def is_attachment_of(document: DocumentStatus, key: str) -> bool:
    """Return True if a document is an attachment of a message. The key alone is not enough: a file may be named so."""
    return document.key.startswith(key + ATTACHMENT_MARK) and "inside" in document.payload


def _document(doc: Document, entry: EntryDocument, key: str, gone_count: int) -> NewDocument:
    """Return an entry as a new document. It is read from its container when it is processed.

    An entry that was gone has another fingerprint than before. Otherwise it would count as submitted already.
    """
    inside = [*doc.payload.get("inside", ()), entry.position]
    payload = {name: value for name, value in doc.payload.items() if name != OWN}
    own = {OWN: entry.fingerprint} if entry.fingerprint else {}
    fingerprint = attachment_fingerprint(entry.fingerprint or doc.fingerprint, gone_count)
    return NewDocument(key, payload | {"inside": inside, "name": entry.name} | own, fingerprint)


def _unique(doc: Document, name: str, used: set[int]) -> str:
    """Return the key of an entry. A second `name` becomes `name (2)`. Only hashes are remembered: there may be many."""
    key, number = _key(doc, name), 1
    while (digest := hash(key)) in used:
        number += 1
        stem, dot, suffix = name.rpartition(".")
        key = _key(doc, f"{stem} ({number}).{suffix}" if dot and "/" not in suffix else f"{name} ({number})")
    used.add(digest)
    return key


def _remove_missing(
    pipeline: Pipeline, store: Store, database: DatabaseIndex, doc: Document, present: Container[str]
) -> None:
    """Withdraw entries that are gone, then mark them as gone."""
    for name in database.names_with_prefix(DocumentName(doc.pipeline, doc.batch, doc.key + ATTACHMENT_MARK)):
        if _is_within(name.key, doc.key, present):
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


def _is_within(key: str, container: str, present: Container[str]) -> bool:
    """Return True if a document is one of these entries, or inside of one."""
    end = len(container) + len(ATTACHMENT_MARK)
    while (end := key.find(ATTACHMENT_MARK, end)) >= 0:
        if key[:end] in present:
            return True
        end += len(ATTACHMENT_MARK)
    return key in present


def _key(doc: Document, name: str) -> str:
    """Return the key of an attachment. A name that would make it too long is cut, and gets its hash instead."""
    key = f"{doc.key}{ATTACHMENT_MARK}{name}"
    if not too_long(key):
        return key
    digest = blake2b(name.encode(), digest_size=8).hexdigest()
    room = MAX_KEY - len(f"{doc.key}{ATTACHMENT_MARK}~{digest}".encode())
    start = name.encode()[: max(room, 0)].decode(errors="ignore")
    return f"{doc.key}{ATTACHMENT_MARK}{start}~{digest}"
