"""Events of the engine. Logs, progress, reports and metrics listen to them; the engine itself logs nothing.

A listener is any function that takes one event. Pass listeners to `holdfast.drain` or `holdfast.work`. They are called
under the scheduler lock, one event at a time, so they must be quick. An error in a listener stops the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.core.batches import BatchReport, ExpiredBatch, Reconciliation
from holdfast.core.formatting import format_count
from holdfast.core.future_times import FutureTimes
from holdfast.core.model import Checkpoint, Claim, DocumentStatus, Failure, SubmitResult, WorkerRecord
from holdfast.core.moves import Move, MoveWarning, Release
from holdfast.core.orphans import Orphan
from holdfast.core.reasons import REMOVED_ROWS_LEFT, ROWS_LEFT, sentence
from holdfast.stores.protocol import StepTimes


class ScanFindings(Struct, frozen=True, kw_only=True):
    """What a scan found and did.

    Attributes:
        stale: Batches that are not closed, and in which nothing moved for a long time.
        dead_letters: How many dead letters nobody redrove or accepted for a long time, by batch.
        orphans: Running documents without a sign of life for longer than the grace time.
        ended: Stale batches that the scan ended: their open documents were cancelled.
        closed: Stale batches that the scan closed.
        cleaned: How many documents the scan cleaned up.
    """

    stale: tuple[Reconciliation, ...] = ()
    dead_letters: dict[str, int] = {}
    orphans: tuple[Orphan, ...] = ()
    ended: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    cleaned: int = 0

    @property
    def is_empty(self) -> bool:
        """True if there is nothing that a person should know."""
        return not (self.stale or self.dead_letters or self.orphans or self.ended or self.closed)


def describe_findings(findings: ScanFindings) -> str:
    """Return what a scan found and did, as a sentence without its subject."""
    parts = []
    if findings.stale:
        parts.append(f"nothing moves in {', '.join(found.batch for found in findings.stale)}")
    if findings.dead_letters:
        count = format_count(sum(findings.dead_letters.values()), "dead letter")
        parts.append(f"{count} without a decision in {', '.join(findings.dead_letters)}")
    if findings.orphans:
        parts.append(f"{format_count(len(findings.orphans), 'running document')} without a sign of life")
    parts += [f"ended: {', '.join(findings.ended)}"] if findings.ended else []
    parts += [f"closed: {', '.join(findings.closed)}"] if findings.closed else []
    return "; ".join(parts) or "nothing was found"


class WorkerEvent(Struct, frozen=True, kw_only=True):
    """The pipeline and the worker of an event, so that a listener need not remember earlier events."""

    pipeline: str = ""
    worker: str = ""


class Submitted(Struct, frozen=True):
    """A slice of documents was submitted. `done` has the keys of those for which there is nothing to do any more."""

    pipeline: str
    batch: str
    result: SubmitResult
    done: Sequence[str] = ()


class WorkerStarted(Struct, frozen=True):
    """A worker was registered and starts to work. `plan_id` names the steps, versions and settings that it runs."""

    worker: WorkerRecord
    pipeline: str
    plan_id: int = 0


class Claimed(WorkerEvent, frozen=True):
    """Documents were claimed."""

    claims: Sequence[Claim]


class Committed(WorkerEvent, frozen=True):
    """Moves were committed, in one transaction. `seconds` is how long that took."""

    moves: Sequence[Move]
    seconds: float


class GaveBack(WorkerEvent, frozen=True):
    """Documents were given back without a move."""

    releases: Sequence[Release]


class LostClaim(WorkerEvent, frozen=True):
    """The worker lost a document: another worker took it, or a person decided. Its last work was not written.

    `to` is where the move that was not made would have led, if there was one. `now` is the document as it is instead.
    """

    claim: Claim
    to: Checkpoint | None = None
    now: DocumentStatus | None = None

    @property
    def is_made_already(self) -> bool:
        """True if the document is where the move leads, or further: skipping the move lost nothing."""
        if self.to is None or self.now is None:
            return False
        at = self.now.checkpoint
        return at.generation == self.to.generation and at.moves >= self.to.moves


class Reclaimed(WorkerEvent, frozen=True):
    """Documents were taken from dead workers, or from steps whose deadline has passed."""

    documents: Sequence[DocumentStatus]


class Decided(WorkerEvent, frozen=True):
    """Nobody decided about documents at a gate in time, so the gate's `otherwise` was applied."""

    gate: str
    decision: Literal["approve", "reject"]
    documents: Sequence[int]


class BatchExpired(WorkerEvent, frozen=True):
    """The deadline of a batch has passed, and documents of it were ended."""

    expired: ExpiredBatch


class ClockSetBack(WorkerEvent, frozen=True):
    """Times in the store were in the future, because the clock was set back. They were put right."""

    reset: FutureTimes


class CircuitOpened(WorkerEvent, frozen=True):
    """A step was paused for all documents, because its calls failed one after the other: a service is away."""

    step: str
    failure: Failure
    failures: int


class CircuitClosed(WorkerEvent, frozen=True):
    """A step that was paused goes on: a document was tried there, and it moved."""

    step: str


class Rewound(WorkerEvent, frozen=True):
    """A worker rewound a document to a step."""

    claim: Claim
    to: str
    reason: str


class Scanned(WorkerEvent, frozen=True):
    """A worker has scanned the pipeline for what nobody takes care of."""

    findings: ScanFindings


class TaskFailed(WorkerEvent, frozen=True):
    """A background task of a worker failed, such as a scan. The next run is another try."""

    task: str
    reason: str


class Warned(WorkerEvent, frozen=True):
    """Something about a document that a person should know, and that stops nothing. The document goes on."""

    claim: Claim
    warning: MoveWarning

    @property
    def sentence(self) -> str:
        """What it is, for people."""
        return f"{self.claim.batch}/{self.claim.key}: {self.warning.sentence}."


class RowsLeft(WorkerEvent, frozen=True):
    """A step did a document again, and rows of an earlier generation stay. It is emitted once for each step of a store.

    `removed` says that the pipeline does not have the step any more. Otherwise its effect has no undo.
    """

    step: str
    removed: bool

    @property
    def sentence(self) -> str:
        """What happened, for people."""
        return sentence(REMOVED_ROWS_LEFT if self.removed else ROWS_LEFT, step=self.step, pipeline=self.pipeline)


class StepsTimed(WorkerEvent, frozen=True):
    """How long bodies took since the last such event, by step. It is emitted every few seconds."""

    times: StepTimes


class Stopping(WorkerEvent, frozen=True):
    """A worker stops, and gives its documents back."""

    reason: str


class WorkerStopped(Struct, frozen=True):
    """A worker has stopped and retired."""

    worker: WorkerRecord


class BatchClosed(Struct, frozen=True):
    """A batch was closed, and its closing steps, if it has any, are done."""

    pipeline: str
    batch: str
    report: BatchReport


class BatchCleaned(Struct, frozen=True):
    """The documents of a closed batch were deleted. The batch, its report and its journal stay."""

    pipeline: str
    batch: str
    documents: int
    items: int


Event = (
    Submitted
    | WorkerStarted
    | Claimed
    | Committed
    | GaveBack
    | LostClaim
    | Reclaimed
    | Decided
    | BatchExpired
    | ClockSetBack
    | CircuitOpened
    | CircuitClosed
    | Rewound
    | Scanned
    | TaskFailed
    | RowsLeft
    | Warned
    | StepsTimed
    | Stopping
    | WorkerStopped
    | BatchClosed
    | BatchCleaned
)
Listener = Callable[[Event], object]
"""A function that is called with every event."""
