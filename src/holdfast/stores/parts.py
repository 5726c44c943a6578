"""What the parts of a submit mean: which documents are new, changed or unchanged, and which were named twice."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core.codec import unkept
from holdfast.core.errors import BatchSealed, CannotKeep, DuplicateKey
from holdfast.core.model import NewDocument

Known = Mapping[str, tuple[Any, ...]]
"""By key: (id, fingerprint, submission, part) of documents that the store has."""


class Judged(Exception):
    """Undoes a declaration after it was judged. Not an error: it ends a transaction that was only to see."""


class Unchanged(threading.local):
    """Which documents the earlier parts of this thread's submission left as they were: a bit for each.

    New and changed documents bear the submission's mark in their rows. To mark these too would rewrite every row of
    every submit that changes nothing. A part that is tried again is not an earlier one.
    """

    def __init__(self) -> None:
        self._part = (-1, -1)
        self._in_this_part: set[int] = set()
        self._bits = bytearray()

    def begin(self, submission: int, part: int) -> None:
        """Learns which part comes now."""
        if submission != self._part[0]:
            self._bits = bytearray()
        elif part != self._part[1]:
            self._remember()
        self._part = (submission, part)
        self._in_this_part = set()

    def _remember(self) -> None:
        more = max(self._in_this_part, default=0) // 8 + 1 - len(self._bits)
        self._bits.extend(bytes(max(more, 0)))
        for document_id in self._in_this_part:
            self._bits[document_id // 8] |= 1 << document_id % 8

    def add(self, document_id: int) -> None:
        """Learns that this part leaves a document as it is."""
        self._in_this_part.add(document_id)

    def were_named(self, document_id: int) -> bool:
        """Answers whether an earlier part left it as it is."""
        place = document_id // 8
        return place < len(self._bits) and bool(self._bits[place] & 1 << document_id % 8)


def refuse_bad_batch(name: str) -> None:
    """Raises CannotKeep for a name that no database keeps."""
    if why := unkept(name):
        raise CannotKeep(f"the batch {name!r} cannot be kept: its name {why}")


def sort_out(
    documents: Sequence[NewDocument], known: Known, unchanged: Unchanged, *, submission: int, part: int
) -> tuple[list[NewDocument], list[NewDocument], int]:
    """Sorts documents into new, changed, and a count of unchanged ones. Raises DuplicateKey.

    A document that this very part wrote before was committed by a try whose answer was lost: it counts as unchanged.
    """
    unchanged.begin(submission, part)
    new: list[NewDocument] = []
    changed: list[NewDocument] = []
    seen: set[str] = set()
    for document in documents:
        row = known.get(document.key)
        if document.key in seen or (row is not None and _was_named(row, unchanged, submission, part)):
            raise DuplicateKey(
                f"the key {document.key!r} was named twice in one submit. Keys name documents within a batch: "
                "give each document its own, or put them in different batches. Nothing of the slice that names it "
                "again was taken in; the slices before it stay submitted, and submitting again is safe"
            )
        seen.add(document.key)
        if row is None:
            new.append(document)
        elif row[1] != document.fingerprint:
            changed.append(document)
        else:
            unchanged.add(row[0])
    return new, changed, len(documents) - len(new) - len(changed)


def _was_named(row: tuple[Any, ...], unchanged: Unchanged, submission: int, part: int) -> bool:
    document_id, _, written_by, in_part = row
    return (written_by == submission and in_part != part) or unchanged.were_named(document_id)


def refuse_if_sealed(pipeline: str, batch: str, state: str, *, brought: int) -> None:
    """Raises BatchSealed when documents are brought, new or changed, to a batch that takes no more."""
    if brought and state != "open":
        raise BatchSealed(
            f"batch {batch!r} of {pipeline!r} is {state}: it takes no more documents, and {brought} of these are new "
            "or changed. Submit them to another batch; what it has is worked on with `holdfast work --drain`"
        )
