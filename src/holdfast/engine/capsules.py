"""Packs a document into a capsule, from any store, also while workers run beside it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
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
from holdfast.core.errors import CapsuleError
from holdfast.core.model import Standing
from holdfast.stores.protocol import Store

TRIES = 3


def pack(store: Store, document_id: int, file: BinaryIO) -> Capsule:
    """Writes everything about one document to a file that can be sought, one item at a time. Answers all but the items.

    What is written is of one moment: a document that moves meanwhile is packed again, and after a few times refused.
    One that is damaged so that nobody could load it is refused too.
    """
    start = file.tell()
    for _ in range(TRIES):
        file.seek(start)
        file.truncate()
        here = _look(store, document_id)
        head = _head(store, here)
        for piece in written(head, (_packed(here, *item) for item in store.items(document_id))):
            file.write(piece)
        if _look(store, document_id) == here:
            refuse_damaged(head)
            return head
    raise CapsuleError(
        f"the document {here.key!r} moves while it is packed: {here.holder or 'somebody'} works on it. Stop the worker "
        "or pause the document, then pack it again"
    )


def _packed(here: Standing, step: str, position: int, kept: Kept) -> PackedItem:
    """Gives an item as it is, or refuses one that somebody edited so that it is no JSON any more."""
    try:
        decode_json(kept) if isinstance(kept, str) else None
    except (ValueError, RecursionError) as error:
        raise CapsuleError(
            f"the document {here.key!r} does not go into a capsule: item {position} of its step {step} cannot be read "
            f"({error}). Set it back with `holdfast rewind {quote(here.key)} --to {step}`, then pack it again"
        ) from error
    return packed_item(step, position, kept)


def _look(store: Store, document_id: int) -> Standing:
    found = store.look([document_id])
    if not found:
        raise CapsuleError("the document is not there any more")
    return found[0]


def _head(store: Store, here: Standing) -> Capsule:
    shape = store.shape_of(here.plan_id) or store.shape(here.pipeline)
    assert shape is not None, "a document belongs to a plan"
    at = here.checkpoint
    return Capsule(
        holdfast=version("holdfast"),
        packed_at=store.now(),
        plan=shape,
        document=PackedDocument(
            pipeline=here.pipeline,
            batch=here.batch,
            key=here.key,
            payload=here.payload,
            fingerprint=here.fingerprint,
            priority=here.priority,
            state=here.state,
            generation=at.generation,
            step=at.step,
            cursor=at.cursor,
            moves=at.moves,
            attempts=here.attempts,
            crashes=here.crashes,
            reason=here.reason,
            error=here.error,
            accepted_by=here.accepted_by,
            reuses=store.reuses([here.id]).get(here.id, {}),
            submitted_at=here.submitted_at,
            moved_at=here.moved_at,
            due_at=here.due_at,
            claimed_at=here.claimed_at,
            cleaned_at=here.cleaned_at,
        ),
        outputs=[*_outputs(store, here)],
        asides=[PackedAside(step, one.position, one.tries, one.error) for step, one in store.asides(here.id)],
        journal=[packed_entry(entry) for entry in store.journal(here.id)],
    )


def _outputs(store: Store, here: Standing) -> Iterator[PackedOutput]:
    for one in store.outputs(here.id):
        if one.first_at is not None and one.last_at is not None:
            yield PackedOutput(one.step, one.first_at, one.last_at)


def file_name(key: str) -> str:
    """Gives the name of a file for a document's capsule: of letters that mean nothing to any shell or file system."""
    last = Path(key.replace("\\", "/")).name
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in last).strip(".")
    return f"{plain[:100] or 'document'}.capsule.json"
