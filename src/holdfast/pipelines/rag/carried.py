"""What messages carry: their attachments, which are documents of their own."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.document import Document
from holdfast.core.errors import UnknownDocument
from holdfast.core.model import NewDocument, Standing
from holdfast.core.pipeline import Pipeline
from holdfast.engine import api
from holdfast.pipelines.rag.files import Files
from holdfast.pipelines.rag.index import Ground, Name
from holdfast.pipelines.rag.withdrawing import NOT_CARRIED, withdraw
from holdfast.stores.protocol import Store

CARRIED = "#"
"""Stands between the key of a message and the name of what it carries."""
WHO = "ingest"


def take_in_carried(pipeline: Pipeline, store: Store, ground: Ground, doc: Document, *, names: Sequence[str]) -> None:
    """Submits what a message carries, and forgets what an earlier version of it carried and this one does not.

    One that is read again names the same, and nothing is taken in twice.
    """
    if doc.generation:
        _forget_what_is_not_carried(pipeline, store, ground, doc, names)
    if names:
        with store.reading() as tx:
            gone = Files(doc.pipeline, doc.batch).times(tx, [_key(doc, name) for name in names])
        api.submit(pipeline, store, batch=doc.batch, documents=_documents(doc, names, gone))


def mark_of(message: str, times: int) -> str:
    """Gives the fingerprint of what a message carries: that of the message, and, if it was gone before, how often."""
    return f"{message}+{times}" if times else message


def is_carried_by(one: Standing, key: str) -> bool:
    """Answers whether a document came inside another. A file may be called as if it had."""
    return one.key.startswith(key + CARRIED) and "inside" in one.payload


def _documents(doc: Document, names: Sequence[str], gone: Sequence[int]) -> list[NewDocument]:
    """Gives what a message carries as documents of their own: read out of it when their turn comes.

    What was gone for a while has another fingerprint than before: else it would be taken for what is there already.
    """
    inside: list[int] = doc.payload.get("inside", [])
    return [
        NewDocument(
            _key(doc, name),
            doc.payload | {"inside": [*inside, place], "name": name},
            mark_of(doc.fingerprint, times),
        )
        for place, (name, times) in enumerate(zip(names, gone, strict=True))
    ]


def _forget_what_is_not_carried(
    pipeline: Pipeline, store: Store, ground: Ground, doc: Document, names: Sequence[str]
) -> None:
    """Stops work on documents first, so that no worker writes any more; then they leave the index."""
    still = {_key(doc, name) for name in names}
    for name in ground.beginning(Name(doc.pipeline, doc.batch, doc.key + CARRIED)):
        if name.key in still or name.key.startswith(tuple(key + CARRIED for key in still)):
            continue
        try:
            one = store.standing(doc.pipeline, doc.batch, name.key)
        except UnknownDocument:
            continue
        if is_carried_by(one, doc.key):
            withdraw(store, store.declare(pipeline.shape()), [one.id], who=WHO, reason=NOT_CARRIED)
            with store.transaction() as tx:
                ground.forget(tx, name)
                Files(doc.pipeline, doc.batch).forget(tx, [name.key])


def _key(doc: Document, name: str) -> str:
    return f"{doc.key}{CARRIED}{name}"
