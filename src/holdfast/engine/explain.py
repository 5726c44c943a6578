"""Why a document is where it is, and what a person can do about it. It reads the store, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from holdfast.core.causes import Holder
from holdfast.core.damage import leads_out_to
from holdfast.core.model import Standing
from holdfast.core.orphans import GRACE, last_progress
from holdfast.core.retry import SUSPECT
from holdfast.core.stale import differences
from holdfast.core.words import ago, count, harmless, moment, one_line, place, span
from holdfast.engine.case import Case, Command, named, plain_command, workers_told
from holdfast.engine.hosts import is_gone
from holdfast.stores.protocol import Store


class Explanation(Struct, frozen=True):
    """Why a document or a batch is where it is: sentences for people, each with what to do, and facts for programs."""

    sentences: tuple[str, ...]
    facts: dict[str, Any]

    def __str__(self) -> str:
        return "\n".join(map(harmless, self.sentences))


def explain(store: Store, document: Standing, *, command: Command = plain_command) -> Explanation:
    """Says why a document is where it is: in sentences, each with what a person can do about it."""
    case = Case(store, document, command)
    _TOLD[document.state](case)
    facts = {
        "pipeline": document.pipeline,
        "batch": document.batch,
        "key": document.key,
        "state": document.state,
        "step": document.checkpoint.step,
    }
    return Explanation(tuple(case.sentences), facts | case.facts)


def _waiting(case: Case) -> None:
    here = case.here
    if case.shape and case.step not in case.shape.names:
        case.because("stale plan", steps=case.shape.names)
        case.say(
            f"It waits at step {case.step}, which pipeline {here.pipeline} has no more (its steps are "
            f"{', '.join(case.shape.names)}), so no worker claims it. Bring the step back, or say with renamed= where "
            "its documents go on."
        )
    elif here.due_at and here.due_at > case.now:
        _put_off(case, here.due_at)
    else:
        _queued(case, since=here.due_at or here.moved_at)
        case.say(workers_told(case.store, here.pipeline, case.facts, start=case.start))


def _put_off(case: Case, due: datetime) -> None:
    here = case.here
    case.because("backoff", until=due, error=here.error, reason=here.reason, attempts=here.attempts)
    case.facts["crashes"] = here.crashes
    after = f", after {one_line(here.reason)}" if here.reason else ""
    tries = f"{count(here.attempts, 'attempt')}, {count(here.crashes, 'crash', 'crashes')} so far"
    case.say(
        f"It waits until {moment(due)}, {ago(due, case.now)}, to be tried again at step {case.step}{after} ({tries}). "
        f"Nothing has to be done; to give it up: {case.decide('cancel')}."
    )


def _queued(case: Case, *, since: datetime) -> None:
    here = case.here
    ahead = case.store.ahead(here.id)
    if here.crashes >= SUSPECT:
        case.because("suspect", ahead=ahead, crashes=here.crashes, since=since)
        case.say(
            f"It crashed its workers {count(here.crashes, 'time')}, so it is worked on alone at step {case.step}, by a "
            f"worker that holds nothing else; {count(ahead, 'suspect')} before it. A step that crashes is better off "
            f'with runs_in="process"; to give the document up: {case.decide("cancel")}.'
        )
        return
    case.because("due", ahead=ahead, since=since)
    before = "1 document comes" if ahead == 1 else f"{count(ahead, 'document')} come"
    case.say(
        f"It waits for a worker at step {case.step}, due since {moment(since)}: {before} before it, by priority, then "
        f"age. To move it up: {case.prioritise(here.priority + 10)}."
    )


def _running(case: Case) -> None:
    holder = case.store.holder(case.here.id)
    if holder is None:
        case.because("let go")
        case.say(f"It was let go while we looked; look again: {case.look('explain')}.")
        return
    _held(case, holder)
    if case.facts["alive"]:
        _held_up(case)
        _late(case, holder.worker.lease)


def _held(case: Case, holder: Holder) -> None:
    here, worker = case.here, holder.worker
    alive = holder.alive and not is_gone(worker)
    since, over = here.claimed_at or here.moved_at, holder.beat_at + worker.lease
    case.because("worked on" if alive else "silent", alive=alive, holder=worker.name, since=since)
    case.facts |= {"heard_at": holder.beat_at, "lease_until": over, "deadline_at": here.deadline_at}
    case.facts["cursor"] = here.checkpoint.cursor
    where = place(here.checkpoint, case.shape, case.store.outputs(here.id))
    held = f"Worker {worker.name} (pid {worker.pid}) holds it since {moment(since)}, {where}"
    heard = f"was last heard {ago(min(holder.beat_at, case.now), case.now)}"
    if not alive:
        requeue = case.requeue(timedelta(seconds=1) if is_gone(worker) else worker.lease)
        case.say(
            f"{held}. The worker {heard} and is silent or gone, so the next worker of the pipeline takes the document "
            f"over: {case.start}, or let it wait again with {requeue}."
        )
        return
    until = f" Its step has until {moment(here.deadline_at)}." if here.deadline_at else ""
    case.say(
        f"{held}. The worker {heard}; others take over if it is not heard again by {moment(over)} (its lease is "
        f"{span(worker.lease.total_seconds())}).{until} Nothing has to be done; to take it away for good: "
        f"{case.decide('cancel')}."
    )


def _held_up(case: Case) -> None:
    """A document may be in its worker's hand, and in front of a step that only so many may be in."""
    inside = case.store.inside(case.here.pipeline, case.step)
    if not inside or case.here.id in dict(inside):
        return
    keys = [key for _, key in inside]
    case.because("full step", inside=keys)
    case.say(
        f"It stands in front of step {case.step}, which lets only so many in at once, over all workers: {named(keys)} "
        f"{'is' if len(keys) == 1 else 'are'} inside. It enters when one of them leaves; to let more in, raise the "
        "step's limit=."
    )


def _late(case: Case, lease: timedelta) -> None:
    here, still = case.here, case.now - last_progress(case.here)
    if here.deadline_at and here.deadline_at < case.now:
        case.because("overdue")
        case.say(
            f"Its step is overdue since {moment(here.deadline_at)}, so the next worker that looks takes it over; if "
            f"nobody does: {case.requeue(lease)}."
        )
    elif still > GRACE:
        case.because("no progress", progress_at=last_progress(here))
        case.say(
            f"It made no progress for {span(still.total_seconds())} although its worker lives. If its body should be "
            f"faster than that, let another try: {case.requeue()}; a timeout= on the step does so by itself."
        )


def _paused(case: Case) -> None:
    here = case.here
    line = case.brought_here("pause", "reclaim", "fail", "defer", "rewind")
    since, who = (line.at, line.who) if line else (here.moved_at, "")
    cause = "gate" if case.stands_at_a_gate else "until" if here.due_at else "person"
    case.because(cause, since=since, until=here.due_at, reason=here.reason, who=who)
    by = f" by {who}" if who else ""
    why = f": {one_line(here.reason)}" if here.reason else ""
    later = f"at {moment(here.due_at)}, {ago(here.due_at, case.now)}" if here.due_at else ""
    if cause == "gate":
        unless = f"without a decision one is made for it {later}; " if later else ""
        case.say(
            f"It waits at the gate {case.step} since {moment(since)} for a person to decide; {unless}"
            f"{case.decide('review', 'approve')} or {case.decide('review', 'reject')}."
        )
    elif to := leads_out_to(here.reason):
        case.because("damaged", to=to)
        case.say(
            f"It is parked at step {case.step} since {moment(since)}: {one_line(here.reason, 500)}. To look: "
            f"{case.look('show', '--items')}; to set it back: {case.decide('rewind', more=('--to', to))}. Resumed, it "
            "would be parked again."
        )
    elif cause == "until":
        case.say(
            f"It is paused at step {case.step} since {moment(since)}{by}{why}. It goes on by itself {later}; earlier "
            f"with {case.decide('resume')}."
        )
    else:
        case.say(
            f"It is paused at step {case.step} since {moment(since)}{by}, until a person decides{why}. To let it go "
            f"on: {case.decide('resume')}; to make it a dead letter: {case.decide('review', 'reject')}."
        )


def _dead(case: Case) -> None:
    here = case.here
    line = case.brought_here("fail", "reclaim", "reject")
    since = line.at if line else here.moved_at
    case.because("dead", since=since, reason=here.reason, error=here.error, attempts=here.attempts)
    case.facts |= {"crashes": here.crashes, "accepted_by": here.accepted_by}
    how = f"after {count(here.attempts, 'attempt')} and {count(here.crashes, 'crash', 'crashes')}"
    if line and line.verb == "reject":
        how = f"rejected by {line.who}"
    story = "The whole story with its traceback" if line is None or line.verb == "fail" else "The whole story"
    case.say(
        f"It is a dead letter at step {case.step} since {moment(since)}, {how}: {one_line(here.reason, 500)}. "
        f"{story}: {case.look('show')}; to try it again from its checkpoint: {case.decide('dead', 'redrive')}."
    )
    if here.accepted_by:
        case.say(f"It was accepted by {here.accepted_by}, so its batch can be closed with it: nothing has to be done.")
    elif case.is_closing:
        case.say(f"Its batch is closed, and it is what is left of it: the closing steps. Redriven, {case.start}.")
    else:
        case.say(
            "It keeps its batch from being closed until somebody accepts it, unless the pipeline tolerates it "
            f"(Pipeline(tolerates=), close --tolerate): {case.decide('dead', 'accept')}."
        )


def _cancelled(case: Case) -> None:
    line = case.brought_here("cancel")
    since, who = (line.at, line.who) if line else (case.here.moved_at, "somebody")
    case.because("cancelled", since=since, who=who, reason=case.here.reason)
    why = f": {one_line(case.here.reason)}" if case.here.reason else ""
    again = case.decide("rewind", more=("--to", case.step))
    case.say(f"It was cancelled by {who} at {moment(since)}, at step {case.step}{why}. To bring it back: {again}.")


def _done(case: Case) -> None:
    here, generation = case.here, case.here.checkpoint.generation
    case.because("done", since=here.moved_at, generation=generation, cleaned_at=here.cleaned_at)
    as_which = f", as generation {generation} (its content changed, or it was rewound)" if generation else ""
    kept = f". What it kept: {case.look('show', '--items')}"
    cleaned = f"; its items were cleaned up at {moment(here.cleaned_at)}" if here.cleaned_at else kept
    case.say(
        f"It is done since {moment(here.moved_at)}, {ago(here.moved_at, case.now)}, after "
        f"{count(here.checkpoint.moves, 'move')}{as_which}{cleaned}."
    )
    _out_of_date(case)


def _out_of_date(case: Case) -> None:
    """Work of an earlier plan stays as it is until somebody has it redone. What is settled stays for good."""
    here, made_under = case.here, case.store.shape_of(case.here.plan_id)
    if made_under is None or case.shape is None or here.cleaned_at:
        return
    differing = [one for one in differences(made_under, case.shape) if one.to]
    closed = [one.name for one in case.store.batches(here.pipeline) if one.state == "closed"] if differing else []
    if differing and here.batch not in closed:
        why = "; ".join(one.why for one in differing)
        case.facts["stale"] = {"why": why, "to": differing[0].to}
        case.say(f"Its work is out of date: {why}. To redo what is, from step {differing[0].to} on: {case.redo()}.")


_TOLD: dict[str, Callable[[Case], None]] = {
    "waiting": _waiting,
    "running": _running,
    "paused": _paused,
    "dead": _dead,
    "cancelled": _cancelled,
    "done": _done,
}
