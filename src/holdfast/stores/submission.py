"""What a submit does with its documents, also with those of `tx.submit`: which are new, changed or unchanged."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from holdfast.core.codec import unkept
from holdfast.core.errors import BatchSealed, BodyError, CannotKeep, DuplicateKey
from holdfast.core.fingerprints import has_same_content, with_fingerprint
from holdfast.core.model import NewDocument, SubmitResult
from holdfast.core.plan import Shape
from holdfast.core.text_limits import MAX_NAME, shorten, too_long

if TYPE_CHECKING:
    from holdfast.core.pipeline import Pipeline


Known = Mapping[str, tuple[Any, ...]]
"""By key: (id, fingerprint, submission, part) of documents that the store has."""


class CheckDone(Exception):
    """Rolls back a declaration that was only checked. It is not an error."""


class UnchangedDocuments(threading.local):
    """Which documents the earlier parts of this thread's submission left unchanged: one bit for each.

    New and changed documents have the id of the submission in their rows. To write it for unchanged documents would
    rewrite every row in a submit that changes nothing. A part that is tried again is not an earlier part.
    """

    def __init__(self) -> None:
        self._part = (-1, -1)
        self._in_this_part: set[int] = set()
        self._bits = bytearray()

    def begin(self, submission: int, part: int) -> None:
        """Begin a part of a submission."""
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
        """Record that this part leaves a document unchanged."""
        self._in_this_part.add(document_id)

    def has(self, document_id: int) -> bool:
        """Return True if an earlier part left the document unchanged."""
        place = document_id // 8
        return place < len(self._bits) and bool(self._bits[place] & 1 << document_id % 8)


def refuse_bad_batch(name: str) -> None:
    """Raise CannotKeep for a name that no database can store or look up."""
    if why := unkept(name) or too_long(name):
        raise CannotKeep(f"the batch {shorten(name, MAX_NAME)!r} cannot be kept: its name {why}")


def classify(
    documents: Sequence[NewDocument], known: Known, unchanged: UnchangedDocuments, *, submission: int, part: int
) -> tuple[list[NewDocument], list[NewDocument], list[tuple[int, str]], int]:
    """Return the new documents, the changed ones, the touched ones, and the number of unchanged ones.

    Touched documents count as unchanged: their files have another time and the same content. They are returned as
    pairs of id and new fingerprint. Raise DuplicateKey.

    A document that this same part wrote before was committed by an attempt whose answer was lost: it is unchanged.
    """
    unchanged.begin(submission, part)
    new: list[NewDocument] = []
    changed: list[NewDocument] = []
    touched: list[tuple[int, str]] = []
    seen: set[str] = set()
    for document in documents:
        row = known.get(document.key)
        if document.key in seen or (row is not None and _was_named(row, unchanged, submission, part)):
            raise DuplicateKey(
                f"the key {document.key!r} was named twice in one submit. Keys name documents within a batch: "
                "give each document its own, or put them in different batches. Nothing of the slice that names it "
                "again was taken in. Without connection=, the slices before it stay submitted; submitting again is safe"
            )
        seen.add(document.key)
        if row is None:
            new.append(document)
        elif not has_same_content(row[1], document.fingerprint):
            changed.append(document)
        else:
            unchanged.add(row[0])
            if row[1] != document.fingerprint:
                touched.append((row[0], document.fingerprint))
    return new, changed, touched, len(documents) - len(new) - len(changed)


def _was_named(row: tuple[Any, ...], unchanged: UnchangedDocuments, submission: int, part: int) -> bool:
    document_id, _, written_by, in_part = row
    return (written_by == submission and in_part != part) or unchanged.has(document_id)


def refuse_if_sealed(pipeline: str, batch: str, state: str, *, brought: int) -> None:
    """Raise BatchSealed if new or changed documents are submitted to a batch that takes no more."""
    if brought and state != "open":
        raise BatchSealed(
            f"batch {batch!r} of {pipeline!r} is {state}: it takes no more documents, and {brought} of these are new "
            "or changed. Submit them to another batch; what it has is worked on with `holdfast work --drain`"
        )


SubmitWithin = Callable[[Shape, str, NewDocument], SubmitResult]
"""Submits one document to a batch of the pipeline with this shape, within the transaction that is open."""


class SubmittingTx(ABC):
    """A transaction that can submit documents. Each store has its own way to run statements in it.

    `batch` is the batch of the document whose effect runs. It is None outside of effects.
    """

    __slots__ = ("_submit_within", "batch")

    def __init__(self, submit_within: SubmitWithin) -> None:
        self._submit_within = submit_within
        self.batch: str | None = None

    def submit(
        self,
        pipeline: Pipeline,
        key: str,
        payload: Any = None,
        *,
        batch: str | None = None,
        fingerprint: str = "",
        priority: int = 0,
    ) -> SubmitResult:
        """Submit one document within this transaction. `holdfast.Tx` explains it."""
        into = self.batch if batch is None else batch
        if into is None:
            raise BodyError(
                f"tx.submit({pipeline.name!r}, {key!r}) needs batch=: only the effect of a document has a batch of its "
                "own, and this transaction is no effect"
            )
        document = with_fingerprint(NewDocument(str(key), payload, fingerprint, priority))
        with self._statements():
            return self._submit_within(pipeline.shape(), into, document)

    @abstractmethod
    def _statements(self) -> AbstractContextManager[None]:
        """Return a context for statements of the transaction: their errors are the store's."""


def new_submission() -> int:
    """Return a random number for a submission. It fits into a column of the stores."""
    return int.from_bytes(os.urandom(8)) >> 2
