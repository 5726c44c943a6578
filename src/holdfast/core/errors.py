"""All errors that holdfast raises, and the three signals that a body can raise.

HoldfastError
├── DefinitionError        the definition of a pipeline is wrong; raised where it is written
├── PlanRefused            the pipeline has changed, and open documents cannot go on with it
├── DuplicateKey           one submit contains the same key twice
├── BatchSealed            the batch is sealed or closed and accepts no documents
├── UnknownBatch           there is no such batch
├── UnknownDocument        there is no such document
├── UnknownStep            there is no such step
├── OutputMissing          a step has no output for a document, or none yet
├── HeldByAnother          another worker holds the document that was asked for; nothing was done
├── CloseRefused           the batch cannot be closed yet
├── SealRefused            the batch does not have the declared number of documents
├── UndoFailed             the undo of a document failed, so the document was not withdrawn
├── LeaseLost              another worker holds the document; nothing was written
├── MoveRefused            a move is neither to the next step nor further inside its step; nothing was written
├── CapsuleError           a capsule cannot be read, written or loaded
├── StoreError
│   ├── SchemaOutdated     run `holdfast store migrate`
│   ├── SchemaNewer        this holdfast is older than the store
│   ├── StoreReadOnly      the database cannot be written
│   ├── StoreFull          the disk under the database is full
│   ├── ItemDamaged        a value that a step kept is gone, or is not what it was
│   └── StoreGone          the database does not answer
└── BodyError              a body did something that is not allowed
    ├── CannotKeep         a value is neither JSON nor bytes, nor what the annotation of the body says
    ├── CursorMovedBack    the cursor of a stream went back, or did not move
    ├── WrongLength        a body over items returned the wrong number of results
    ├── CursorExpired      a cursor is older than `cursor_expires`
    ├── TransactionEnded   an effect ended the transaction that it was given, or tried to
    ├── TooManyFailures    more items were set aside than the step allows
    ├── StepTimeout        a step took longer than its `timeout`
    ├── BodyCrashed        the process that ran a body died of what the body did
    └── BodyLost           the process that ran a body is gone, and nothing says that the body caused it

Signal                     not an error: a body raises it to say what happens next
├── RetryLater             try again later; costs no attempt
├── Reject                 never try again; the document becomes a dead letter
└── Pause                  wait until a date, or until a person decides
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from holdfast.core.text_limits import MAX_NAME, shorten
from holdfast.core.waits import moment_of, wait_of

if TYPE_CHECKING:
    from holdfast.core.close_refusal import CloseRefusal


class HoldfastError(Exception):
    """The base class of all errors that holdfast raises."""


class DefinitionError(HoldfastError):
    """The definition of a pipeline, a step or a worker is wrong. The message says how to write it."""


class PlanRefused(HoldfastError):
    """The pipeline has changed, and open documents cannot go on with it. The message names them and what to do."""


class DuplicateKey(HoldfastError):
    """One submit contains the same key twice. The slices of 1,000 documents before it stay submitted."""


class BatchSealed(HoldfastError):
    """The batch is sealed or closed, and a submitted document is new or changed. Unchanged ones are no error."""


class UnknownBatch(HoldfastError):
    """The pipeline has no batch with this name. The message lists its batches.

    Args:
        pipeline: The name of the pipeline.
        batch: The name that was not found.
        known: The names of its batches.
    """

    def __init__(self, pipeline: str, batch: str, known: Sequence[str]) -> None:
        has = f"it has: {', '.join(known)}" if known else "it has none yet"
        super().__init__(f"pipeline {pipeline!r} has no batch {shorten(batch, MAX_NAME)!r}; {has}")


class UnknownDocument(HoldfastError):
    """The batch has no document with this key."""


class UnknownStep(HoldfastError):
    """The pipeline has no step with this name. The message lists its steps.

    Args:
        pipeline: The name of the pipeline.
        step: The name that was not found.
        known: The names of its steps.
    """

    def __init__(self, pipeline: str, step: str, known: Sequence[str]) -> None:
        from difflib import get_close_matches  # slow to import, and rarely needed

        close = get_close_matches(step, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(known)}"
        super().__init__(f"pipeline {pipeline!r} has no step {shorten(step, MAX_NAME)!r}; {hint}")


class OutputMissing(HoldfastError):
    """A step has no output for a document, or none yet. The message says why, and what to do."""


class HeldByAnother(HoldfastError):
    """Another worker holds the document that was asked for. Nothing was done: ask again when the lease may be over.

    Args:
        key: The key of the document.
        batch: Its batch.
        worker: The name of the worker that holds it.
        since: When that worker claimed it.
        lease_left: How long its lease lasts without a further heartbeat. It is longer if the worker goes on.

    Attributes:
        worker: The name of the worker that holds it.
        since: When that worker claimed it.
        lease_left: How long its lease lasts without a further heartbeat. Others may take the document after that time.
    """

    def __init__(self, key: str, *, batch: str, worker: str, since: datetime, lease_left: timedelta) -> None:
        left = max(lease_left.total_seconds(), 0)
        super().__init__(
            f"the document {key!r} of batch {batch!r} is held by the worker {worker!r} since {since:%Y-%m-%d %H:%M:%S} "
            f"UTC, and its lease lasts for another {left:.0f} s at least: try again later"
        )
        self.worker = worker
        self.since = since
        self.lease_left = lease_left


class CloseRefused(HoldfastError):
    """The batch cannot be closed yet. The message says why.

    Attributes:
        refusal: The same facts for programs.
    """

    def __init__(self, refusal: CloseRefusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal


class SealRefused(HoldfastError):
    """The batch does not have the number of documents that was declared, so it was not sealed.

    Args:
        pipeline: The name of the pipeline.
        batch: The name of the batch.
        state: The state of the batch.
        declared: How many documents it should have.
        submitted: How many documents were submitted to it.

    Attributes:
        declared: How many documents it should have.
        submitted: How many documents were submitted to it.
    """

    def __init__(self, pipeline: str, batch: str, *, state: str, declared: int, submitted: int) -> None:
        documents = "document" if submitted == 1 else "documents"
        super().__init__(
            f"batch {batch!r} of {pipeline!r} has {submitted:,} {documents}, but {declared:,} were declared. It is "
            f"still {state}. {self._advice(state, declared, submitted)}"
        )
        self.declared = declared
        self.submitted = submitted

    @staticmethod
    def _advice(state: str, declared: int, submitted: int) -> str:
        if state != "open":
            return "It accepts no more documents: compare its keys with your list"
        if submitted < declared:
            return "Submit the documents that are missing, and seal it again"
        return "Compare its keys with your list; cancel what does not belong to it, and seal it with the right number"


class UndoFailed(HoldfastError):
    """The undo of a document failed, so the document was not withdrawn. The message names the document and the step."""


class LeaseLost(HoldfastError):
    """Another worker holds the document now. Nothing was written."""


class MoveRefused(HoldfastError):
    """A store refused a move that is neither to the next step nor further inside its step. Nothing was written.

    No worker makes such a move. The message names the document, where it is, and where it would have gone.
    """


class CapsuleError(HoldfastError):
    """A file is not a valid capsule, a document cannot be packed into one, or a store cannot load one."""


class StoreError(HoldfastError):
    """The store cannot be reached or used, or it cannot do what was asked."""


class SchemaOutdated(StoreError):
    """The schema of the store is older than this holdfast. Run `holdfast store migrate`."""


class SchemaNewer(StoreError):
    """The schema of the store is newer than this holdfast. Upgrade holdfast."""


def upgraded(name: str, version: int, newest: int) -> SchemaNewer:
    """Return the error for a store that a newer holdfast upgraded while this one worked on it."""
    return SchemaNewer(
        f"{name} was upgraded to schema {version} meanwhile, and this holdfast knows {newest}: what was committed is "
        "safe; upgrade holdfast and start it again"
    )


class StoreReadOnly(StoreError):
    """The database cannot be written."""


class StoreFull(StoreError):
    """The disk of the database is full. Nothing of the failed write was kept."""


class StoreGone(StoreError):
    """The database does not answer."""


class ItemDamaged(StoreError):
    """A value that a step kept is gone, cannot be read, or is not what it was when it was stored.

    A worker parks the document. To make the value again, rewind the document to the step that kept it.

    Args:
        why: What is wrong with it, such as `cannot be read`.
        position: Its position; -1 for a value that is not a list.
        step: The step that kept it.
        document: The key of its document.
    """

    def __init__(self, why: str, *, position: int, step: str, document: str) -> None:
        item = "the value" if position < 0 else f"item {position}"
        super().__init__(f"{item} of step {step!r} of the document {document!r} {why}")
        self.why = why
        self.position = position


class BodyError(HoldfastError):
    """A body did something that is not allowed. The message says what."""


class CannotKeep(BodyError):
    """A value could not be read back equal: it is neither JSON nor bytes, nor what the body's return annotation says.

    The return annotation decides how a value is stored. A dataclass, a TypedDict or a msgspec.Struct can be stored if
    the annotation names it.
    """


class CursorMovedBack(BodyError):
    """The cursor of a stream went back, or did not move."""


class WrongLength(BodyError):
    """A body over items returned another number of results than it got items."""


class CursorExpired(BodyError):
    """A cursor is older than the step's `cursor_expires`, and the step has `when_expired="fail"`."""


class TransactionEnded(BodyError):
    """An effect ended the transaction that it was given, or tried to.

    Its rows are committed with the checkpoint, together with those of other documents, so only holdfast may do it. The
    message names the effect and says what may have been kept.
    """


class TooManyFailures(BodyError):
    """More items were set aside than the step's `failure_rate` allows."""


class StepTimeout(BodyError):
    """A step took longer than its `timeout`."""


class BodyCrashed(BodyError):
    """The process that ran a body died of what the body did: an exit, out of memory, or a crash in native code."""


class BodyLost(BodyError):
    """The process that ran a body was killed from outside. Nothing says that the body caused it."""


class Signal(Exception):
    """The base class of what a body raises to say what happens next. Not an error."""


class RetryLater(Signal):
    """Raise it in a body to try the document again later. It costs no attempt.

    Args:
        reason: Why. It is shown in `holdfast explain` and written to the journal.
        after: How long to wait, as a timedelta or in seconds. By default as long as the step's Retry says. At most a
            year; a longer wait is taken for a mistake and shortened.

    Raises:
        TypeError: `after` is neither a timedelta nor a number.
        ValueError: `after` is not a finite number.

    Example:
        raise holdfast.RetryLater("throttled", after=timedelta(minutes=5))
    """

    def __init__(self, reason: str = "", *, after: timedelta | float | None = None) -> None:
        super().__init__(reason or "asked to be tried again later")
        self.after = None if after is None else wait_of(after)


class Reject(Signal):
    """Raise it in a body to never try this document again. It becomes a dead letter.

    In a step over items it sets the item aside for good; the document goes on.

    Args:
        reason: Why. It is shown with the dead letter.

    Example:
        raise holdfast.Reject("not a PDF file")
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Pause(Signal):
    """Raise it in a body to pause the document.

    When the document goes on, the body is called again, and `doc.decision()` returns what the person decided.

    Args:
        reason: Why, or the question to a person.
        until: When the document goes on by itself, with a time zone. Without it a person must resume the document.

    Raises:
        ValueError: `until` is not a time with a time zone.

    Example:
        raise holdfast.Pause("which page is the cover?")
    """

    def __init__(self, reason: str, *, until: datetime | None = None) -> None:
        super().__init__(reason)
        self.until = None if until is None else moment_of(until)
