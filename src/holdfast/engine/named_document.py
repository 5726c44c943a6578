"""Work on one named document: find it, decide whether to wait for it, and say where it is afterwards."""

from __future__ import annotations

from collections.abc import Container
from datetime import timedelta

from holdfast.core.errors import HeldByAnother, UnknownBatch, UnknownDocument
from holdfast.core.model import DocumentStatus
from holdfast.core.reasons import CIRCUIT_OPEN, sentence
from holdfast.observe.report import DocumentResult, Report
from holdfast.stores.protocol import Store

NO_TIME = timedelta(0)


def find_document(store: Store, pipeline: str, key: str, *, batch: str | None) -> DocumentStatus:
    """Return the document with this key. Raise UnknownDocument if there is none, or if the batch is not clear."""
    found = [one for one in store.find(key) if one.pipeline == pipeline and batch in (None, one.batch)]
    if len(found) == 1:
        return found[0]
    if found:
        batches = ", ".join(sorted(one.batch for one in found))
        raise UnknownDocument(
            f"{len(found)} batches of pipeline {pipeline!r} have the document {key!r}: {batches}. Name one with batch="
        )
    if batch is None:
        raise UnknownDocument(f"no batch of pipeline {pipeline!r} has a document {key!r}")
    known = [one.name for one in store.batches(pipeline)]
    if batch not in known:
        raise UnknownBatch(pipeline, batch, known)
    raise UnknownDocument(f"batch {batch!r} of pipeline {pipeline!r} has no document {key!r}")


def wait_for(store: Store, document_id: int, *, me: int, paused: Container[str]) -> timedelta | None:
    """Return how long to wait until a worker may claim a document. Return None if it should not wait for it.

    Args:
        store: The store.
        document_id: The document.
        me: The id of the worker.
        paused: The steps that are paused, because a service is away.
    """
    found = store.documents_by_id([document_id])
    if not found or found[0].state not in ("waiting", "running"):
        return None
    document = found[0]
    if document.state == "running":
        holder = store.holder(document_id)
        is_held = holder is not None and holder.alive and holder.worker.id != me
        return None if is_held else NO_TIME  # one that nobody holds any more is reclaimed soon
    if document.checkpoint.step in paused:
        return None
    return max((document.due_at or store.now()) - store.now(), NO_TIME)


def result_of(store: Store, document_id: int, report: Report) -> DocumentResult:
    """Return where a document is now. Raise HeldByAnother if a worker holds it."""
    found = store.documents_by_id([document_id])
    if not found:
        raise UnknownDocument("the document was deleted meanwhile")
    document, now = found[0], store.now()
    if document.state == "running" and (holder := store.holder(document_id)) is not None:
        raise HeldByAnother(
            document.key,
            batch=document.batch,
            worker=holder.worker.name,
            since=document.claimed_at or now,
            lease_left=max(holder.heartbeat_at + holder.worker.lease - now, NO_TIME),
        )
    if document.state not in ("waiting", "running"):
        return DocumentResult(document, report, reason=document.reason)
    wait, reason = max((document.due_at or now) - now, NO_TIME), document.reason
    for circuit in store.circuits(document.pipeline):
        if circuit.is_open and circuit.step == document.checkpoint.step:
            wait = max(wait, circuit.probe_in or NO_TIME)
            reason = sentence(CIRCUIT_OPEN, step=circuit.step, why=circuit.reason)
    return DocumentResult(document, report, wait, reason)
