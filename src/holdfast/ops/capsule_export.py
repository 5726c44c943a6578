"""Pack a document of any store into a capsule, even while workers run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import BinaryIO

from holdfast.core.capsule import (
    Capsule,
    PackedAside,
    PackedDocument,
    PackedItem,
    PackedOutput,
    packed_entry,
    packed_item,
    refuse_damaged,
    written,
)
from holdfast.core.codec import Kept, decode_json
from holdfast.core.distribution import installed_version
from holdfast.core.errors import CapsuleError
from holdfast.core.model import DocumentStatus
from holdfast.stores.protocol import Store

MAX_ATTEMPTS = 3
"""How often a document that moves meanwhile is packed."""


def pack(store: Store, document_id: int, file: BinaryIO) -> Capsule:
    """Write everything about one document to a file, one item at a time.

    All of it is of one moment: if the document moves meanwhile, it is packed again.

    Args:
        store: The store that holds the document.
        document_id: The id of the document.
        file: A file that can be written and sought.

    Returns:
        The capsule without its items.

    Raises:
        CapsuleError: The document does not exist, keeps moving, is damaged, or is too large.
    """
    start = file.tell()
    for _ in range(MAX_ATTEMPTS):
        file.seek(start)
        file.truncate()
        status = _status(store, document_id)
        head = _head(store, status)
        for piece in written(head, (_packed(status, *item) for item in store.items(document_id))):
            file.write(piece)
        if _status(store, document_id) == status:
            refuse_damaged(head)
            return head
    raise CapsuleError(
        f"the document {status.key!r} moves while it is packed: {status.holder or 'a worker'} works on it. Stop "
        "the worker or pause the document, then pack it again"
    )


def _packed(status: DocumentStatus, step: str, position: int, kept: Kept) -> PackedItem:
    """Convert an item. Raise CapsuleError if it is not JSON any more, because somebody edited it."""
    try:
        decode_json(kept) if isinstance(kept, str) else None
    except (ValueError, RecursionError) as error:
        raise CapsuleError(
            f"the document {status.key!r} cannot be packed: item {position} of its step {step} cannot be read "
            f"({error}). Rewind it with `holdfast doc rewind {quote(status.key)} --to {step}`, then pack it again"
        ) from error
    return packed_item(step, position, kept)


def _status(store: Store, document_id: int) -> DocumentStatus:
    found = store.documents_by_id([document_id])
    if not found:
        raise CapsuleError("the document does not exist any more")
    return found[0]


def _head(store: Store, status: DocumentStatus) -> Capsule:
    shape = store.shape_of(status.plan_id) or store.shape(status.pipeline)
    assert shape is not None, "a document belongs to a plan"
    at = status.checkpoint
    return Capsule(
        holdfast=installed_version(),
        packed_at=store.now(),
        plan=shape,
        document=PackedDocument(
            pipeline=status.pipeline,
            batch=status.batch,
            key=status.key,
            payload=status.payload,
            fingerprint=status.fingerprint,
            priority=status.priority,
            state=status.state,
            generation=at.generation,
            step=at.step,
            cursor=at.cursor,
            moves=at.moves,
            attempts=status.attempts,
            crashes=status.crashes,
            losses=status.losses,
            deferrals=status.deferrals,
            interruptions=status.interruptions,
            reason=status.reason,
            code=status.code,
            error=status.error,
            accepted_by=status.accepted_by,
            reuses=store.reuses([status.id]).get(status.id, {}),
            submitted_at=status.submitted_at,
            moved_at=status.moved_at,
            due_at=status.due_at,
            claimed_at=status.claimed_at,
            cleaned_at=status.cleaned_at,
        ),
        outputs=[*_outputs(store, status)],
        asides=[
            PackedAside(step, item.position, item.tries, item.error) for step, item in store.failed_items(status.id)
        ],
        journal=[packed_entry(entry) for entry in store.journal(status.id)],
    )


def _outputs(store: Store, status: DocumentStatus) -> Iterator[PackedOutput]:
    for output in store.outputs(status.id):
        if output.first_at is not None and output.last_at is not None:
            yield PackedOutput(output.step, output.first_at, output.last_at)


def file_name(key: str) -> str:
    """Return a file name for a document's capsule, without characters that are special in a shell or file system."""
    last = Path(key.replace("\\", "/")).name
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in last).strip(".")
    return f"{plain[:100] or 'document'}.capsule.json"
