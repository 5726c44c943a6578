"""Log the events of a worker. Attach `log_events` as a listener; without it the engine logs nothing.

Every record has a sentence for people, and fields with stable names for programs: `event` is what happened, the other
fields say to what. `JsonFormatter` writes both as one line.

event        one of submitted, unchanged, started, claimed, resumed, committed, aside, done, parked, fail, defer,
             release, pause, lost, skipped, reclaimed, decided, expired, rewound, leftover, outage, restored, clock,
             scanned, orphan, task, timed, stopping, stopped, closed, cleaned
pipeline     the pipeline's name
worker       the name of the worker; no other run of a worker has the same one, unless you name it yourself
plan         the id of the plan that the worker runs: its steps with their versions and settings
holdfast     the version of holdfast
batch, key   the document
document     the id of the document in the store
claim        the number of the claim on the document: every log record of one claim has the same one
generation   the document's generation
step         the step at which the document is
cursor       where it is inside that step
position     the position of an item that failed and was set aside
attempt      the number of the attempt
state        the state of the document now
reason       why, as a sentence
error        the class of the error
recoverable  true or false: whether the error can go away by itself. Left out if nobody knows
category     the kind of problem, such as rate_limit or authentication (see holdfast.core.error_categories)
traceback    the traceback of the error
delay        seconds until the next attempt
documents    how many documents
moves        how many moves
items        how many items were kept
seconds      how long it took
holder       the worker that held the document before
labels       identifiers of the run that were given with `--label`
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from holdfast.core.batches import AT_DEADLINE, ExpiredBatch
from holdfast.core.codec import encode_json
from holdfast.core.distribution import installed_version
from holdfast.core.formatting import format_count, printable
from holdfast.core.model import Checkpoint, Claim, DocumentStatus
from holdfast.core.moves import Move, Release
from holdfast.observe.events import (
    BatchCleaned,
    BatchClosed,
    BatchExpired,
    CircuitClosed,
    CircuitOpened,
    Claimed,
    ClockSetBack,
    Committed,
    Decided,
    Event,
    GaveBack,
    LostClaim,
    Reclaimed,
    Rewound,
    RowsLeft,
    ScanFindings,
    Scanned,
    StepsTimed,
    Stopping,
    Submitted,
    TaskFailed,
    Warned,
    WorkerStarted,
    WorkerStopped,
    describe_findings,
)
from holdfast.observe.log_formatters import FIELDS, JsonFormatter, TextFormatter

__all__ = ["JsonFormatter", "TextFormatter", "log", "log_events"]

log = logging.getLogger("holdfast")

MAX_ORPHANS = 50
"""How many orphans of one scan are logged. The event has all of them."""

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR


def log_events(event: Event) -> None:
    """Write an event to the logger `holdfast`.

    Args:
        event: Any event of the engine.

    Example:
        holdfast.drain(papers, store, listeners=[log_events])
    """
    match event:
        case WorkerStarted(worker, pipeline, plan_id):
            message = f"worker {worker.name} works on {pipeline}"
            fields = {"pipeline": pipeline, "worker": worker.name, "plan": plan_id, "holdfast": installed_version()}
            _log(INFO, "started", message, **fields)
        case WorkerStopped(worker):
            _log(INFO, "stopped", f"worker {worker.name} has stopped", worker=worker.name)
        case _ if log.isEnabledFor(DEBUG):
            _log_progress(event, _source(event))
        case _:
            _log_exceptional(event, _source(event))


def _source(event: Event) -> dict[str, Any]:
    return {"pipeline": getattr(event, "pipeline", ""), "worker": getattr(event, "worker", "")}


def _log_progress(event: Event, by: dict[str, Any]) -> None:
    match event:
        case Claimed(claims):
            _log(DEBUG, "claimed", f"claimed {len(claims)} documents", documents=len(claims), **by)
            _log_resumed(claims, by)
        case Committed(moves, seconds):
            items = sum(len(move.items) for move in moves)
            message = f"committed {len(moves)} moves in {seconds * 1000:.1f} ms"
            _log(DEBUG, "committed", message, moves=len(moves), items=items, seconds=seconds, **by)
            for move in moves:
                _log_asides(move, by)
                _log_move(move, by)
        case StepsTimed(times):
            for step, (documents, seconds) in times.items():
                message = f"{step}: {documents} documents passed it, and its bodies took {seconds:.3f} s"
                _log(DEBUG, "timed", message, step=step, documents=documents, seconds=seconds, **by)
        case _:
            _log_exceptional(event, by)


def _log_exceptional(event: Event, by: dict[str, Any]) -> None:
    match event:
        case GaveBack(releases):
            for release in releases:
                _log_release(release, by)
        case Claimed(claims):
            _log_resumed(claims, by)
        case Committed(moves):
            for move in moves:
                _log_asides(move, by)
        case LostClaim():
            _log_lost(event, by)
        case Reclaimed(documents):
            for document in documents:
                _log_reclaimed(document, by)
        case Decided(gate, decision, ids):
            message = f"gate {gate}: nobody decided in time about {len(ids)} documents: {decision}"
            _log(WARNING, "decided", message, step=gate, documents=len(ids), reason=decision, **by)
        case Rewound(claim, to, reason):
            message = f"{_name(claim)}: rewound to {to}: {reason}"
            _log(WARNING, "rewound", message, **by, **_claimed(claim) | {"step": to, "cursor": None, "reason": reason})
        case Stopping(reason):
            _log(INFO, "stopping", f"stopping: {reason}", reason=reason, **by)
        case _:
            _log_pipeline(event, by)


def _log_pipeline(event: Event, by: dict[str, Any]) -> None:
    """Log what happened to a batch, a step or a whole pipeline."""
    match event:
        case CircuitOpened(step, failure, failures):
            message = f"step {step} is paused for all documents after {failures} failures in a row: {failure}"
            why = {"error": failure.kind, "category": failure.category, "recoverable": failure.recoverable}
            _log(ERROR, "outage", message, step=step, reason=str(failure), **why, **by)
        case CircuitClosed(step):
            _log(INFO, "restored", f"step {step} goes on", step=step, **by)
        case RowsLeft(step):
            _log(WARNING, "leftover", event.sentence, step=step, **by)
        case Warned(claim, warning):
            place = {"batch": claim.batch, "key": claim.key, "step": warning.step}
            _log(WARNING, "warning", event.sentence, code=warning.code, **place, **by)
        case Scanned(findings):
            _log_scan(findings, by)
        case TaskFailed(task, reason):
            _log(WARNING, "task", f"the background task {task} failed: {reason}", reason=reason, **by)
        case Submitted():
            _log_submitted(event)
        case ClockSetBack(reset):
            message = f"the clock was set back by at least {reset.setback}; put right: {reset}"
            _log(WARNING, "clock", message, documents=reset.waiting, seconds=reset.ahead.total_seconds(), **by)
        case BatchExpired(expired):
            _log_expired(expired, by)
        case BatchClosed(pipeline, batch, report):
            counts = f"{report.in_all.done} done, {report.in_all.dead} dead, {report.in_all.cancelled} cancelled"
            message = f"batch {batch} of {pipeline} is closed: {counts} of {report.expected}"
            _log(INFO, "closed", message, pipeline=pipeline, batch=batch, documents=report.expected)
        case BatchCleaned(pipeline, batch, documents, items):
            message = f"batch {batch} of {pipeline} is cleaned up: {documents} documents with {items} items are deleted"
            _log(INFO, "cleaned", message, pipeline=pipeline, batch=batch, documents=documents, items=items)
        case _:
            pass


def _log_submitted(event: Submitted) -> None:
    """Log what was submitted. Documents that are done already are named at the level debug: they may be very many."""
    place, result = {"pipeline": event.pipeline, "batch": event.batch}, event.result
    for key in event.done:
        message = f"{key} of {event.batch}: already done and unchanged, so there is nothing to do"
        _log(DEBUG, "unchanged", message, **place, key=key, state="done")
    counts = f"{result.new} new, {result.changed} changed, {result.unchanged} unchanged"
    done = f"; {len(event.done)} are done already" if event.done else ""
    _log(INFO, "submitted", f"submitted to {event.batch}: {counts}{done}", **place, documents=result.total)


def _log_resumed(claims: Sequence[Claim], by: dict[str, Any]) -> None:
    """Log where documents continue that a worker held before: after a kill, a stop, a failure or a decision."""
    if not log.isEnabledFor(INFO):
        return
    for claim in claims:
        if claim.fence > 1:
            at = claim.checkpoint
            cursor = "" if at.cursor is None else f", cursor {encode_json(at.cursor)}"
            message = f"{_name(claim)}: taken up again at {at.step}{cursor}, attempt {claim.attempts}"
            _log(INFO, "resumed", message, **by, **_claimed(claim))


def _log_lost(event: LostClaim, by: dict[str, Any]) -> None:
    """Log a lost claim. A move that is made already is skipped, and nothing is lost by that."""
    claim, now = event.claim, event.now
    if event.is_made_already and now is not None:
        place = f"at {now.checkpoint.step}" if now.checkpoint.step else now.state
        message = f"{_name(claim)}: its move was skipped, because the document is already {place}"
        _log(INFO, "skipped", message, **by, **_claimed(claim), state=now.state)
        return
    message = "its claim was lost: it was taken over, or a person decided about it; nothing was written"
    _log(WARNING, "lost", f"{_name(claim)}: {message}", **by, **_claimed(claim), state=now.state if now else "")


def _log_asides(move: Move, by: dict[str, Any]) -> None:
    """Log the items that failed and were set aside. The document goes on without them."""
    for item in move.asides:
        error, tries = item.error, format_count(item.tries, "try", "tries")
        message = f"{_name(move.claim)}: item {item.position} of {move.before.step} is set aside after {tries}: {error}"
        fields = {
            "step": move.before.step,
            "position": item.position,
            "attempt": item.tries,
            "reason": error.message,
            "error": error.kind,
            "recoverable": error.recoverable,
            "category": error.category,
            "traceback": error.traceback,
        }
        _log(WARNING, "aside", message, **by, **_claimed(move.claim) | _place(move.after) | fields)


def _log_move(move: Move, by: dict[str, Any]) -> None:
    """Log the end of a document. Progress inside steps is part of the record about the commit."""
    if move.state == "running":
        return
    event, text = ("done", "done") if move.state == "done" else ("parked", f"parked: {move.reason}")
    place = _claimed(move.claim) | _place(move.after)
    _log(DEBUG, event, f"{_name(move.claim)}: {text}", **by, **place, state=move.state, reason=move.reason)


def _log_release(release: Release, by: dict[str, Any]) -> None:
    level = {"dead": ERROR, "waiting": WARNING}.get(release.state, INFO)
    if release.verb == "release":
        level = DEBUG
    failure, place = release.failure, _claimed(release.claim)
    fields = {
        "step": release.step or place["step"],
        "state": release.state,
        "reason": release.reason or (failure.message if failure else ""),
        "error": failure.kind if failure else "",
        "recoverable": release.recoverable,
        "category": failure.category if failure else "",
        "traceback": failure.traceback if failure else "",
        "delay": release.delay.total_seconds(),
    }
    message = f"{_name(release.claim)}: {release.verb}, now {release.state}: {failure or release.reason}"
    _log(level, release.verb, message, **by, **place | fields)


def _log_reclaimed(now: DocumentStatus, by: dict[str, Any]) -> None:
    fields = {"state": now.state, "reason": now.reason, "error": now.error, "attempt": now.attempts}
    fields |= {"crashes": now.crashes, "losses": now.losses}
    message = f"{now.key} of {now.batch}: reclaimed ({now.reason}), now {now.state}"
    place = {"batch": now.batch, "key": now.key, "document": now.id, **_place(now.checkpoint)}
    _log(WARNING, "reclaimed", message, **by, **place, **fields)


def _log_expired(expired: ExpiredBatch, by: dict[str, Any]) -> None:
    """Log how many documents the deadline of a batch ended. The store has their names."""
    if expired.documents:
        count, state = len(expired.documents), AT_DEADLINE[expired.action]
        message = f"batch {expired.batch}: its deadline has passed: {count} open documents are {state} now"
        reason = expired.documents[0].reason
        _log(WARNING, "expired", message, batch=expired.batch, documents=count, state=state, reason=reason, **by)


def _log_scan(findings: ScanFindings, by: dict[str, Any]) -> None:
    """Log what a scan found, and each document without a sign of life."""
    cleaned = f"; {findings.cleaned} documents were cleaned up" if findings.cleaned else ""
    level = INFO if findings.is_empty else WARNING
    _log(level, "scanned", f"scan: {describe_findings(findings)}{cleaned}", documents=len(findings.orphans), **by)
    for orphan in findings.orphans[:MAX_ORPHANS]:
        now = orphan.document
        place = {"batch": now.batch, "key": now.key, "document": now.id, **_place(now.checkpoint)}
        _log(WARNING, "orphan", f"{now.key} of {now.batch}: {orphan.why}", **by, **place, holder=now.holder)


def _name(claim: Claim) -> str:
    return f"{claim.key} of {claim.batch}"


def _claimed(claim: Claim) -> dict[str, Any]:
    ids = {"document": claim.document_id, "claim": claim.fence}
    return {"batch": claim.batch, "key": claim.key, **ids, **_place(claim.checkpoint), "attempt": claim.attempts}


def _place(at: Checkpoint) -> dict[str, Any]:
    return {"generation": at.generation, "step": at.step, "cursor": at.cursor}


def _log(level: int, event: str, message: str, **fields: Any) -> None:
    """Write one record. Empty fields are left out."""
    filled = {"event": event} | {name: value for name, value in fields.items() if value not in ("", None)}
    log.log(level, "%s", printable(message), extra={FIELDS: filled})
