"""Notifications: which events a person or another program should know about at once, and their JSON.

A notification is about one kind of event of one worker. Documents of the same kind that follow each other quickly share
one, so that a thousand dead letters are one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.formatting import format_count, one_line
from holdfast.core.model import Checkpoint, Claim, DocumentStatus, State
from holdfast.core.moves import Move, Release
from holdfast.core.orphans import STRATEGIES, Strategy
from holdfast.observe.events import (
    BatchClosed,
    BatchExpired,
    CircuitClosed,
    CircuitOpened,
    ClockSetBack,
    Committed,
    Decided,
    Event,
    GaveBack,
    Reclaimed,
    ScanFindings,
    Scanned,
    describe_findings,
)

Kind = Literal[
    "dead_letter",
    "paused",
    "orphan_resolution",
    "circuit_opened",
    "circuit_closed",
    "gate_decided",
    "batch_expired",
    "batch_closed",
    "clock_set_back",
    "scan",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""The values of the field `event`."""

Level = Literal["info", "warning", "error"]

MAX_DOCUMENTS = 20
"""How many documents a notification names. `count` counts all."""
MAX_REASON = 500
"""How many characters of a reason are sent."""
MAX_IN_TEXT = 3
"""How many documents the sentence names."""

RESOLUTIONS: dict[Strategy, tuple[Level, str]] = {
    "requeue": ("info", "orphans requeued: {documents}"),
    "fail": ("warning", "orphans made dead letters: {documents}"),
    "review": ("warning", "orphans kept for review: {documents}"),
}
"""The level and the sentence for each strategy for orphans."""


class NotifiedDocument(Struct, frozen=True, kw_only=True):
    """A document in a notification."""

    batch: str
    key: str
    document: int
    generation: int
    step: str | None
    cursor: Any
    state: State
    code: str
    error: str
    recoverable: bool | None
    reason: str
    attempts: int
    crashes: int


class Notification(Struct, frozen=True, kw_only=True):
    """One message. `details` are the fields that only this kind has.

    `summary` is the sentence for people, without the names of documents. In it, `{documents}` stands for their number.
    """

    event: Kind
    level: Level
    pipeline: str
    worker: str
    summary: str
    count: int
    documents: tuple[NotifiedDocument, ...] = ()
    details: dict[str, Any] = {}

    @property
    def group(self) -> tuple[Any, ...]:
        """What notifications have in common that may share a message."""
        return self.event, self.pipeline, self.worker, self.summary, repr(self.details)

    @property
    def text(self) -> str:
        """The sentence for people."""
        summary = self.summary.replace("{documents}", format_count(self.count, "document"))
        named = [_named(document) for document in self.documents[:MAX_IN_TEXT]]
        names = f": {'; '.join(named)}" if named else ""
        more = f"; and {self.count - len(named):,} more" if named and self.count > len(named) else ""
        return f"{self.pipeline}: {summary}{names}{more}"

    def merged(self, later: Notification) -> Notification:
        """Return one notification for both."""
        documents = (*self.documents, *later.documents)[:MAX_DOCUMENTS]
        return replace(self, count=self.count + later.count, documents=documents)


def _named(document: NotifiedDocument) -> str:
    at = f" at {document.step}" if document.step else ""
    return f"{document.batch}/{document.key}{at}: {one_line(document.reason)}".removesuffix(": ")


def notifications_of(event: Event) -> Iterator[Notification]:
    """Yield the notifications of an event. A new kind of event gets a case here, and a value of Kind."""
    match event:
        case Committed(moves):
            paused = [_moved(move) for move in moves if move.state == "paused"]
            yield from _about(event, "paused", "warning", "waiting for a decision: {documents}", paused)
        case GaveBack(releases):
            yield from _of_releases(event, releases)
        case Reclaimed(documents):
            yield from _of_reclaimed(event, [*map(_status, documents)])
        case Decided(gate, decision, ids):
            details = {"gate": gate, "decision": decision}
            summary = f"nobody decided in time about {{documents}} at gate {gate}: {decision}"
            yield _notification(event, "gate_decided", "warning", summary, count=len(ids), details=details)
        case CircuitOpened(step, failure):
            why: dict[str, Any] = {"step": step, "category": failure.category, "recoverable": failure.recoverable}
            why["reason"] = one_line(str(failure), MAX_REASON)
            summary = f"step {step} is paused for all documents: {one_line(str(failure))}"
            yield _notification(event, "circuit_opened", "error", summary, count=0, details=why)
        case CircuitClosed(step):
            summary = f"step {step} goes on"
            yield _notification(event, "circuit_closed", "info", summary, count=0, details={"step": step})
        case BatchExpired(expired):
            details = {"batch": expired.batch, "action": expired.action}
            summary = f"ended at the deadline of batch {expired.batch}: {{documents}}"
            ended = [*map(_status, expired.documents)]
            yield from _about(event, "batch_expired", "warning", summary, ended, **details)
        case ClockSetBack(reset):
            summary = f"the clock was set back by at least {reset.setback}; put right: {reset}"
            back: dict[str, Any] = {"seconds": reset.ahead.total_seconds(), "workers": reset.workers}
            back |= {"running": reset.running, "steps": reset.steps}
            yield _notification(event, "clock_set_back", "warning", summary, count=reset.waiting, details=back)
        case BatchClosed():
            yield _of_closed(event)
        case Scanned(findings) if not findings.is_empty:
            yield _of_scan(event, findings)
        case _:
            pass


def _notification(event: Event, kind: Kind, level: Level, summary: str, **fields: Any) -> Notification:
    worker = getattr(event, "worker", "")
    return Notification(event=kind, level=level, pipeline=_pipeline(event), worker=worker, summary=summary, **fields)


def _pipeline(event: Event) -> str:
    return str(getattr(event, "pipeline", ""))


def _about(
    event: Event, kind: Kind, level: Level, summary: str, documents: Sequence[NotifiedDocument], **details: str
) -> Iterator[Notification]:
    """Yield one notification about documents, if there are any."""
    if documents:
        named = tuple(documents[:MAX_DOCUMENTS])
        yield _notification(event, kind, level, summary, count=len(documents), documents=named, details=details)


def _of_releases(event: GaveBack, releases: Sequence[Release]) -> Iterator[Notification]:
    ended = [_released(release) for release in releases if release.state in ("dead", "paused")]
    yield from _dead_letters(event, ended)
    paused = [document for document in ended if document.state == "paused"]
    yield from _about(event, "paused", "warning", "paused: {documents}", paused)


def _dead_letters(event: Event, documents: Sequence[NotifiedDocument]) -> Iterator[Notification]:
    dead = [document for document in documents if document.state == "dead"]
    yield from _about(event, "dead_letter", "error", "new dead letters: {documents}", dead)


def _of_reclaimed(event: Reclaimed, documents: Sequence[NotifiedDocument]) -> Iterator[Notification]:
    """Yield one notification for each strategy. A dead letter is also one of its own kind."""
    for strategy, state in STRATEGIES.items():
        taken = [document for document in documents if document.state == state]
        level, summary = RESOLUTIONS[strategy]
        yield from _about(event, "orphan_resolution", level, summary, taken, strategy=strategy)
    yield from _dead_letters(event, documents)


def _of_closed(event: BatchClosed) -> Notification:
    report = event.report
    counts = {name: getattr(report.in_all, name) for name in ("done", "dead", "accepted", "cancelled")}
    numbers = ", ".join(f"{counts[name]:,} {name}" for name in ("done", "dead", "cancelled"))
    details = {"batch": event.batch, "expected": report.expected, **counts, "closed_by": report.closed_by}
    details |= {"reason": report.reason, "report_sha256": report.sha256}
    summary = f"batch {event.batch} is closed: {numbers} of {report.expected:,}"
    return _notification(event, "batch_closed", "info", summary, count=report.expected, details=details)


def _of_scan(event: Scanned, findings: ScanFindings) -> Notification:
    details = {
        "stale_batches": [found.batch for found in findings.stale],
        "dead_letters": findings.dead_letters,
        "orphans": len(findings.orphans),
        "ended": [*findings.ended],
        "closed": [*findings.closed],
    }
    named = tuple(_status(orphan.document) for orphan in findings.orphans[:MAX_DOCUMENTS])
    about = {"count": len(findings.orphans), "documents": named, "details": details}
    return _notification(event, "scan", "warning", describe_findings(findings), **about)


def _moved(move: Move) -> NotifiedDocument:
    return _claimed(move.claim, move.after, state=move.state, code=move.code, reason=move.reason)


def _released(release: Release) -> NotifiedDocument:
    failure = release.failure
    reason, error = str(failure or release.reason), failure.kind if failure else ""
    document = _claimed(release.claim, release.claim.checkpoint, state=release.state, code=release.code, reason=reason)
    return replace(document, error=error, recoverable=release.recoverable)


def _claimed(claim: Claim, at: Checkpoint, *, state: State, code: str, reason: str) -> NotifiedDocument:
    return NotifiedDocument(
        batch=claim.batch,
        key=claim.key,
        document=claim.document_id,
        generation=at.generation,
        step=at.step,
        cursor=at.cursor,
        state=state,
        code=code,
        error="",
        recoverable=None,
        reason=reason[:MAX_REASON],
        attempts=claim.attempts,
        crashes=claim.crashes,
    )


def _status(document: DocumentStatus) -> NotifiedDocument:
    at = document.checkpoint
    return NotifiedDocument(
        batch=document.batch,
        key=document.key,
        document=document.id,
        generation=at.generation,
        step=at.step,
        cursor=at.cursor,
        state=document.state,
        code=document.code,
        error=document.error,
        recoverable=document.recoverable,
        reason=document.reason[:MAX_REASON],
        attempts=document.attempts,
        crashes=document.crashes,
    )
