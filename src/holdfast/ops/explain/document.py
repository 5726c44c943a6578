"""Explain why a document is where it is, and what a person can do. It reads the store, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from holdfast.core.circuit import CircuitStatus
from holdfast.core.formatting import (
    format_ago,
    format_checkpoint,
    format_count,
    format_duration,
    format_time,
    format_tries,
    name_first,
    one_line,
    printable,
)
from holdfast.core.model import DocumentStatus
from holdfast.core.orphans import GRACE, last_progress
from holdfast.core.reasons import (
    BATCH_DEADLINE,
    DEFERRED_TOO_LONG,
    FEWER_THAN_TOTAL,
    INTERRUPTED,
    MORE_THAN_TOTAL,
    sentence,
)
from holdfast.core.retry import SUSPECT, is_suspect
from holdfast.core.staleness import differences
from holdfast.core.wait_causes import Holder
from holdfast.ops.explain.context import (
    Command,
    DocumentContext,
    describe_circuit,
    describe_heartbeat,
    describe_pause,
    describe_wait,
    describe_workers,
    plain_command,
    rewind_step,
)
from holdfast.process_identity import is_gone
from holdfast.stores.protocol import Store


class Explanation(Struct, frozen=True):
    """Why a document or a batch is where it is. `print(explanation)` shows the sentences.

    Attributes:
        sentences: For people. Each says what to do.
        facts: The same for programs. For a document, `facts["cause"]` is one word, such as `"backoff"` or `"gate"`.
    """

    sentences: tuple[str, ...]
    facts: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join(map(printable, self.sentences))


def explain(store: Store, document: DocumentStatus, *, command: Command = plain_command) -> Explanation:
    """Explain why a document is where it is, and what a person can do. It changes nothing.

    Args:
        store: The store that holds the document.
        document: The document, as `store.document(pipeline, batch, key)` returns it.
        command: A function that turns the words of a command into text that can be pasted into a shell.

    Returns:
        Sentences for people and facts for programs.

    Raises:
        StoreError: The store cannot be reached or used.

    Example:
        print(holdfast.explain(store, store.document("papers", "march", "a.pdf")))
    """
    case = DocumentContext(store, document, command)
    _EXPLAIN[document.state](case)
    _items_that_differ(case)
    facts = {
        "pipeline": document.pipeline,
        "batch": document.batch,
        "key": document.key,
        "state": document.state,
        "step": document.checkpoint.step,
    }
    return Explanation(tuple(case.sentences), facts | case.facts)


def _items_that_differ(case: DocumentContext) -> None:
    """Say what about the items of a document a person should know, although it stops nothing."""
    outputs = case.store.outputs(case.status.id)
    totals: dict[str, dict[str, int]] = {}
    for output in outputs:
        total, is_over = output.total, output.step != case.status.checkpoint.step
        if total is None or output.items == total or (output.items < total and not is_over):
            continue
        totals[output.step] = {"items": output.items, "total": total}
        code = MORE_THAN_TOTAL if output.items > total else FEWER_THAN_TOTAL
        why = sentence(code, step=output.step, items=f"{output.items:,}", total=f"{total:,}")
        case.say(f"{why}: look whether that is right.")
    if totals:
        case.facts["totals"] = totals
    here = next((output.aside for output in outputs if output.step == case.status.checkpoint.step), 0)
    if here and case.status.state != "dead":
        case.facts["set_aside"] = here
        case.say(f"{format_count(here, 'item')} of this step failed and {_were(here)} set aside: {case.look('show')}.")


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _waiting(case: DocumentContext) -> None:
    status = case.status
    if case.shape and case.step not in case.shape.names:
        case.because("stale plan", steps=case.shape.names)
        case.say(
            f"It waits at step {case.step}, which pipeline {status.pipeline} no longer has (its steps are "
            f"{', '.join(case.shape.names)}), so no worker claims it. Bring the step back, or write with renamed= "
            "where its documents go on."
        )
    elif circuit := next((one for one in case.store.circuits(status.pipeline) if _pauses(one, case)), None):
        why = {"category": circuit.category, "error": circuit.error, "recoverable": circuit.recoverable}
        case.because("circuit", since=circuit.opened_at, reason=circuit.reason, probe_at=circuit.probe_at, **why)
        case.say(f"It waits at step {case.step}. {describe_circuit(circuit, case.now, case.command)}")
    elif status.due_at and (too_long := describe_wait(case, status.due_at)):
        case.say(too_long)
        case.say(describe_workers(case.store, status.pipeline, case.facts, start=case.start))
    elif status.code == INTERRUPTED:
        case.because("interrupted", since=status.due_at or status.moved_at)
        _interrupted(case)
        case.say(describe_workers(case.store, status.pipeline, case.facts, start=case.start))
    elif status.due_at and status.due_at > case.now:
        _waiting_for_retry(case, status.due_at)
    else:
        _waiting_for_worker(case, since=status.due_at or status.moved_at)
        case.say(describe_workers(case.store, status.pipeline, case.facts, start=case.start))


def _pauses(circuit: CircuitStatus, case: DocumentContext) -> bool:
    return circuit.is_open and circuit.step == case.step


def _interrupted(case: DocumentContext) -> None:
    """Explain that the time of workers was never enough for the document so far."""
    case.facts |= {"interruptions": case.status.interruptions, "reason": case.status.reason}
    case.say(
        f"It was {one_line(case.status.reason, 600)}. If it never gets further, it is paused for a person: "
        "Retry(interruptions=) says after how many times."
    )


def _waiting_for_retry(case: DocumentContext, due: datetime) -> None:
    status = case.status
    case.because("backoff", until=due, error=status.error, reason=status.reason, attempts=status.attempts)
    case.facts |= {"crashes": status.crashes, "losses": status.losses, "recoverable": status.recoverable}
    after = f", after {one_line(status.reason)}" if status.reason else ""
    tries = f"{format_tries(attempts=status.attempts, crashes=status.crashes, losses=status.losses)} so far"
    if status.deferrals:
        since = status.deferred_at or case.now
        case.facts |= {"deferrals": status.deferrals, "deferred_at": since}
        tries += f", put off {format_count(status.deferrals, 'time')} since {format_time(since)}"
    nothing = "To cancel" if status.recoverable is False else "Nothing has to be done; to cancel"
    case.say(
        f"It waits until {format_time(due)}, {format_ago(due, case.now)}, to be tried again at step {case.step}{after} "
        f"({tries}). {_recoverable(status)}{nothing} it: {case.decide('doc', 'cancel')}."
    )


def _waiting_for_worker(case: DocumentContext, *, since: datetime) -> None:
    status = case.status
    ahead = case.store.count_ahead(status.id)
    if is_suspect(crashes=status.crashes, losses=status.losses):
        _waiting_to_run_alone(case, ahead=ahead, since=since)
        return
    case.because("due", ahead=ahead, since=since)
    before = "1 document comes" if ahead == 1 else f"{format_count(ahead, 'document')} come"
    case.say(
        f"It waits for a worker at step {case.step}, due since {format_time(since)}: {before} before it, by priority, "
        f"then age. To move it up: {case.prioritise(status.priority + 10)}."
    )


def _waiting_to_run_alone(case: DocumentContext, *, ahead: int, since: datetime) -> None:
    status = case.status
    case.because("suspect", ahead=ahead, crashes=status.crashes, losses=status.losses, since=since)
    crashed = status.crashes >= SUSPECT
    why = (
        f"It crashed its workers {format_count(status.crashes, 'time')}"
        if crashed
        else f"Its worker was lost {format_count(status.losses, 'time')} since it last moved, and nobody knows why"
    )
    advice = (
        'For a step that crashes, use runs_in="process"'
        if crashed
        else f"Look for what kills the workers; the last one: {one_line(status.reason)}"
    )
    case.say(
        f"{why}, so it is processed alone at step {case.step}, by a worker that holds no other document; "
        f"{format_count(ahead, 'suspect')} before it. {advice}; to cancel the document: {case.decide('doc', 'cancel')}."
    )


def _running(case: DocumentContext) -> None:
    holder = case.store.holder(case.status.id)
    if holder is None:
        case.because("released")
        case.say(f"Its worker released it at this moment; look again: {case.look('explain')}.")
        return
    _held(case, holder)
    if case.status.code == INTERRUPTED:
        _interrupted(case)
    if case.facts["alive"]:
        _say_if(case, describe_heartbeat(case, holder))
        _waiting_for_permit(case)
        _without_progress(case, holder.worker.lease)


def _held(case: DocumentContext, holder: Holder) -> None:
    status, worker = case.status, holder.worker
    alive = holder.alive and not is_gone(worker)
    since, over = status.claimed_at or status.moved_at, holder.heartbeat_at + worker.lease
    case.because("worked on" if alive else "silent", alive=alive, holder=worker.name, since=since)
    case.facts |= {"heartbeat_at": holder.heartbeat_at, "lease_until": over, "deadline_at": status.deadline_at}
    case.facts["cursor"] = status.checkpoint.cursor
    where = format_checkpoint(status.checkpoint, case.shape, case.store.outputs(status.id), total=status.items_total)
    held = f"Worker {worker.name} (pid {worker.pid}) holds it since {format_time(since)}, {where}"
    heartbeat = f"sent its last heartbeat {format_ago(min(holder.heartbeat_at, case.now), case.now)}"
    if not alive:
        requeue = case.requeue(timedelta(seconds=1) if is_gone(worker) else worker.lease)
        case.say(
            f"{held}. The worker {heartbeat} and is silent or dead, so the next worker of the pipeline takes the "
            f"document over: {case.start}, or requeue it with {requeue}."
        )
        return
    until = f" Its step has until {format_time(status.deadline_at)}." if status.deadline_at else ""
    case.say(
        f"{held}. The worker {heartbeat}; others take over if it sends no other one by {format_time(over)} (its lease "
        f"is {format_duration(worker.lease.total_seconds())}).{until} Nothing has to be done; to cancel the document: "
        f"{case.decide('doc', 'cancel')}."
    )


def _waiting_for_permit(case: DocumentContext) -> None:
    """Explain that a worker holds the document, but its step has reached its limit."""
    inside = case.store.documents_in_step(case.status.pipeline, case.step)
    if not inside or case.status.id in dict(inside):
        return
    keys = [key for _, key in inside]
    case.because("full step", inside=keys)
    case.say(
        f"It waits for room in step {case.step}, which has reached its limit of documents, over all workers: "
        f"{name_first(keys)} {'is' if len(keys) == 1 else 'are'} in it. It enters when one of them leaves; to allow "
        "more, raise the step's limit=."
    )


def _without_progress(case: DocumentContext, lease: timedelta) -> None:
    status, still = case.status, case.now - last_progress(case.status)
    if status.deadline_at and status.deadline_at < case.now:
        case.because("overdue")
        case.say(
            f"Its step is overdue since {format_time(status.deadline_at)}, so the next worker takes it over; if none "
            f"does: {case.requeue(lease)}."
        )
    elif still > GRACE:
        case.because("no progress", progress_at=last_progress(status))
        case.say(
            f"It made no progress for {format_duration(still.total_seconds())}, although its worker is alive. If its "
            f"body should be faster than that, requeue it: {case.requeue()}; a timeout= of the step does so by itself."
        )


def _paused(case: DocumentContext) -> None:
    status = case.status
    entry = case.last_entry("pause", "reclaim", "fail", "defer", "rewind")
    since, who = (entry.at, entry.who) if entry else (status.moved_at, "")
    cause = "gate" if case.is_at_gate else "until" if status.due_at else "person"
    case.because(cause, since=since, until=status.due_at, reason=status.reason, who=who)
    by = f" by {who}" if who else ""
    why = f": {one_line(status.reason)}" if status.reason else ""
    later = f"at {format_time(status.due_at)}, {format_ago(status.due_at, case.now)}" if status.due_at else ""
    if cause == "gate":
        unless = f"without a decision the gate decides {later}; " if later else ""
        case.say(
            f"It waits at the gate {case.step} since {format_time(since)} for a person to decide; {unless}"
            f"{case.decide('review', 'approve')} or {case.decide('review', 'reject')}."
        )
    elif to := rewind_step(case.store, status):
        case.because("damaged", to=to)
        case.say(
            f"It is parked at step {case.step} since {format_time(since)}: {one_line(status.reason, 500)}. To look: "
            f"{case.look('show', '--items')}; to rewind it: {case.decide('doc', 'rewind', more=('--to', to))}. If it "
            "is resumed, it is parked again."
        )
    elif cause == "until":
        case.say(
            f"It is paused at step {case.step} since {format_time(since)}{by}{why}. It goes on by itself {later}; "
            f"earlier with {case.decide('doc', 'resume')}."
        )
    else:
        if status.code in (INTERRUPTED, DEFERRED_TOO_LONG):
            case.facts |= {"interruptions": status.interruptions, "deferrals": status.deferrals, "code": status.code}
            why = f": {one_line(status.reason, 600)}"
        case.say(
            f"It is paused at step {case.step} since {format_time(since)}{by}, until a person decides{why}. To let it "
            f"go on: {case.decide('doc', 'resume')}; to make it a dead letter: {case.decide('review', 'reject')}."
        )
    _say_if(case, describe_pause(case, since))


def _say_if(case: DocumentContext, sentence: str | None) -> None:
    if sentence is not None:
        case.say(sentence)


def _dead(case: DocumentContext) -> None:
    status = case.status
    entry = case.last_entry("fail", "reclaim", "reject")
    since = entry.at if entry else status.moved_at
    case.because("dead", since=since, reason=status.reason, error=status.error, attempts=status.attempts)
    case.facts |= {"crashes": status.crashes, "losses": status.losses}
    case.facts |= {"accepted_by": status.accepted_by, "recoverable": status.recoverable}
    how = f"after {format_tries(attempts=status.attempts, crashes=status.crashes, losses=status.losses)}"
    if status.code == BATCH_DEADLINE:
        how = "ended at the deadline of its batch"
    elif entry and entry.verb == "reject":
        how = f"rejected by {entry.who}"
    hint = _recoverable(status) if entry is None or entry.verb == "fail" else ""
    failed = status.code != BATCH_DEADLINE and (entry is None or entry.verb == "fail")
    history = "Its history with the traceback" if failed else "Its history"
    case.say(
        f"It is a dead letter at step {case.step} since {format_time(since)}, {how}: {one_line(status.reason, 500)}. "
        f"{hint}{history}: {case.look('show')}; to try it again from its checkpoint: "
        f"{case.decide('dead', 'redrive')}."
    )
    if status.accepted_by:
        case.say(
            f"It was accepted by {status.accepted_by}, so its batch can be closed with it: nothing has to be done."
        )
    elif case.is_closing:
        case.say(f"Its batch is closed; only these closing steps are left. After redriving it, {case.start}.")
    else:
        case.say(
            "It keeps its batch from being closed until somebody accepts it, unless the pipeline tolerates it "
            f"(Pipeline(tolerates=), batch close --tolerate): {case.decide('dead', 'accept')}."
        )


def _recoverable(status: DocumentStatus) -> str:
    """Return whether the error can go away by itself, as a sentence. Empty if nobody knows."""
    if status.recoverable is None:
        return ""
    if status.recoverable:
        return "This error can go away by itself. "
    return "This error does not go away by itself: remove its cause first. "


def _cancelled(case: DocumentContext) -> None:
    entry = case.last_entry("cancel")
    since, who = (entry.at, entry.who) if entry else (case.status.moved_at, "somebody")
    case.because("cancelled", since=since, who=who, reason=case.status.reason)
    why = f": {one_line(case.status.reason)}" if case.status.reason else ""
    again = case.decide("doc", "rewind", more=("--to", case.step))
    case.say(f"It was cancelled by {who} at {format_time(since)}, at step {case.step}{why}. To bring it back: {again}.")


def _done(case: DocumentContext) -> None:
    status, generation = case.status, case.status.checkpoint.generation
    case.because("done", since=status.moved_at, generation=generation, cleaned_at=status.cleaned_at)
    as_which = f", as generation {generation} (its content changed, or it was rewound)" if generation else ""
    kept = f". What it kept: {case.look('show', '--items')}"
    cleaned = f"; its items were cleaned up at {format_time(status.cleaned_at)}" if status.cleaned_at else kept
    case.say(
        f"It is done since {format_time(status.moved_at)}, {format_ago(status.moved_at, case.now)}, after "
        f"{format_count(status.checkpoint.moves, 'move')}{as_which}{cleaned}."
    )
    _stale_work(case)


def _stale_work(case: DocumentContext) -> None:
    """Explain that the work is stale. It stays as it is until a person has it redone; settled work is never redone."""
    status, made_under = case.status, case.store.shape_of(case.status.plan_id)
    if made_under is None or case.shape is None or status.cleaned_at:
        return
    differing = [one for one in differences(made_under, case.shape) if one.to]
    closed = [one.name for one in case.store.batches(status.pipeline) if one.state == "closed"] if differing else []
    if differing and status.batch not in closed:
        why = "; ".join(one.why for one in differing)
        case.facts["stale"] = {"why": why, "to": differing[0].to}
        case.say(f"Its work is out of date: {why}. To redo it from step {differing[0].to} on: {case.redo()}.")


_EXPLAIN: dict[str, Callable[[DocumentContext], None]] = {
    "waiting": _waiting,
    "running": _running,
    "paused": _paused,
    "dead": _dead,
    "cancelled": _cancelled,
    "done": _done,
}
