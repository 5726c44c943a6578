"""What an explanation is built from: a document, circuits, future times, sentences and the commands that help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.batches import CLOSING
from holdfast.core.circuit import CircuitStatus
from holdfast.core.formatting import format_ago, format_count, format_duration, format_time, one_line
from holdfast.core.future_times import FutureTimes, is_future
from holdfast.core.model import DocumentStatus, JournalEntry
from holdfast.core.plan import Shape
from holdfast.core.reasons import rewind_target
from holdfast.core.suggested_commands import PIPELINE_FILE, REASON_ARGS, command_args, format_command
from holdfast.core.wait_causes import Holder
from holdfast.process_identity import is_gone
from holdfast.stores.protocol import Store

Command = Callable[..., str]
"""Turns the words of a command into text that a person can paste into a shell."""


def rewind_step(store: Store, document: DocumentStatus) -> str | None:
    """Return the step to which a person should rewind a damaged document. Return None if it is not damaged."""
    shape = store.shape(document.pipeline)
    return rewind_target(document.code, document.checkpoint.step, shape.names[0]) if shape else None


def plain_command(*words: str) -> str:
    """Return a command for the default store."""
    return format_command(words)


class DocumentContext:
    """One document, what is known about it, and the sentences and facts that explain it."""

    def __init__(self, store: Store, status: DocumentStatus, command: Command) -> None:
        self.store = store
        self.status = status
        self.now = store.now()
        self.shape: Shape | None = store.shape(status.pipeline)
        self.sentences: list[str] = []
        self.facts: dict[str, Any] = {}
        self.command = command
        self._options = document_options(store, status)

    @property
    def step(self) -> str:
        """The step at which the document is."""
        return self.status.checkpoint.step or ""

    @property
    def is_at_gate(self) -> bool:
        """True if this step is a gate."""
        return is_gate(self.shape, self.step)

    @property
    def is_closing(self) -> bool:
        """True if it is the document of a batch's closing steps."""
        return self.status.pipeline.endswith(CLOSING)

    @property
    def start(self) -> str:
        """Advice how to start a worker for it."""
        return start_advice(self.status.pipeline, self.status.batch, self.command)

    def say(self, sentence: str) -> None:
        """Add a sentence."""
        self.sentences.append(sentence)

    def because(self, cause: str, **facts: Any) -> None:
        """Set the cause, as one word for programs, and add facts."""
        self.facts |= {"cause": cause, **facts}

    def look(self, verb: str, *more: str) -> str:
        """Return a command that shows this document."""
        return f"`{self.command(*command_args((verb,), self.status.key, options=(*self._options, *more)))}`"

    def decide(self, *words: str, more: Sequence[str] = ()) -> str:
        """Return a command that decides about this document, with a place for the reason."""
        return f"`{self.command(*command_args(words, self.status.key, options=(*self._options, *more, *REASON_ARGS)))}`"

    def prioritise(self, priority: int) -> str:
        """Return the command that sets its priority, which may be negative."""
        options = (*self._options, *REASON_ARGS)
        return f"`{self.command(*command_args(('doc', 'priority'), str(priority), self.status.key, options=options))}`"

    def requeue(self, grace: timedelta | None = None) -> str:
        """Return the command that requeues only this document, if the same worker still does not advance it."""
        holder = ("--batch", self.status.batch, "--worker", self.status.holder)
        patience = ("--grace", f"{grace.total_seconds():g}s") if grace else ()
        options = (*holder, *patience, "--strategy", "requeue", *REASON_ARGS)
        words = command_args(("doc", "orphans"), self.status.pipeline, self.status.key, options=options)
        return f"`{self.command(*words)}`"

    def redo(self) -> str:
        """Return the command that redoes the stale work of its batch."""
        return f"`{self.command('doc', 'rewind', '--stale', PIPELINE_FILE, '--batch', self.status.batch)}`"

    def last_entry(self, *verbs: str) -> JournalEntry | None:
        """Return the journal entry that brought it into its state, among entries with these verbs."""
        for entry in reversed(self.store.journal(self.status.id)):
            detail = entry.detail if isinstance(entry.detail, dict) else {}
            if entry.verb in verbs and detail.get("state", self.status.state) == self.status.state:
                return entry
        return None


def document_options(store: Store, status: DocumentStatus) -> tuple[str, ...]:
    """Return the options with which a command finds this document. None are needed if no other one has its key."""
    is_ambiguous = len(store.find(status.key)) > 1
    return ("--pipeline", status.pipeline, "--batch", status.batch) if is_ambiguous else ()


def is_gate(shape: Shape | None, step: str | None) -> bool:
    """Return True if a step is a gate."""
    return shape is not None and any(one.kind == "gate" and one.name == step for one in shape.steps)


def start_advice(pipeline: str, batch: str, command: Command) -> str:
    """Return advice how to start a worker. Closing steps run when the batch is closed again."""
    if pipeline.endswith(CLOSING):
        return f"go on with `{command(*command_args(('batch', 'close'), PIPELINE_FILE, batch))}`"
    return f"start one with `{command('work', PIPELINE_FILE)}`"


def describe_workers(store: Store, pipeline: str, facts: dict[str, Any], *, start: str) -> str:
    """Return a sentence about the workers that could process waiting documents. Add their number to the facts."""
    alive = [worker for worker, _, stale in store.workers() if not stale and not is_gone(worker)]
    facts["workers_alive"] = len(alive)
    if not alive:
        return f"No worker is alive: {start}."
    ids = {worker.id for worker in alive}
    held = sum(documents for holder, documents in store.holders(pipeline) if holder.worker.id in ids)
    facts["worked_on"] = held
    are, hold = ("1 worker is", "holds") if len(alive) == 1 else (f"{len(alive):,} workers are", "hold")
    if not held:
        return f"{are} alive and {hold} no document of {pipeline}: if none of them works on it, {start}."
    return f"{are} alive and {hold} {format_count(held, 'document')} of {pipeline}; to go faster, {start} as well."


ADVICE = {
    "authentication": "Check the key or the password. Workers that read it when they start must be started again",
    "permission": "Check what the key is allowed to do, and whether its quota is used up",
    "configuration": "Check the settings, the packages and the certificates of the workers",
    "rate_limit": "The service asks for fewer calls: use a smaller limit= of the step, or fewer workers",
    "unreachable": "Check whether the service can be reached from here",
    "timeout": "Check whether the service answers",
    "server_error": "Check whether the service works",
}
"""What a person can do, by the category of the error."""
MANY = 3
"""After this many documents were tried in vain, each one may have a problem of its own."""


def open_circuits(store: Store, pipeline: str) -> list[CircuitStatus]:
    """Return the circuits that are open at steps that the pipeline has."""
    shape = store.shape(pipeline)
    names = shape.names if shape else ()
    return [one for one in store.circuits(pipeline) if one.is_open and one.step in names]


def describe_circuit(circuit: CircuitStatus, now: datetime, command: Command) -> str:
    """Return sentences about an open circuit: since when, why, what happens next, and what to do."""
    opened, probe = circuit.opened_at or now, circuit.probe_at or now
    since = f"since {format_time(opened)}, {format_ago(min(opened, now), now)}"
    calls = format_count(circuit.failures, "call")
    tried = f"{format_count(circuit.probes, 'document')} tried in vain so far, the next one " if circuit.probes else ""
    when = "now" if probe <= now else format_ago(probe, now)
    close = f"`{command(*close_command(circuit))}`"
    own = "If each document calls a server of its own, write circuit=None. " if circuit.probes >= MANY else ""
    return (
        f"Step {circuit.step} is paused for all documents {since}: {calls} in a row failed, the last one with "
        f"{one_line(circuit.reason, 300)}. {ADVICE.get(circuit.category, 'Look at the error')}. The step goes on by "
        f"itself: one document is tried from time to time ({tried}{when}). {own}To let all go on now: {close}."
    )


def close_command(circuit: CircuitStatus) -> tuple[str, ...]:
    """Return the words of the command that closes a circuit."""
    return command_args(("pipeline", "circuit", "close"), circuit.pipeline, circuit.step, options=REASON_ARGS)


CORRECTION = "Workers put that right by themselves, when they start and then once in each lease"


def describe_future_times(found: FutureTimes) -> str:
    """Return sentences about times in the future, for people."""
    return f"The clock was set back by at least {found.setback}. Times in the future: {found}. {CORRECTION}."


def describe_wait(case: DocumentContext, due: datetime) -> str | None:
    """Return why a waiting document waits too long. None if it does not."""
    since = case.status.waits_since
    if since is None or not is_future(since, case.now):
        return None
    wait = max(due - since, timedelta(0))
    meant = f"after {format_duration(wait.total_seconds())}" if wait else "at once"
    case.because("clock", until=due, wait=wait, **_facts(since, case.now))
    return (
        f"It waits at step {case.step} until {format_time(due)}, {format_ago(due, case.now)}, because the clock was "
        f"set back by at least {_span(since, case.now)}. It was meant to go on {meant}. {CORRECTION}."
    )


def describe_pause(case: DocumentContext, since: datetime) -> str | None:
    """Return what is wrong with the end of a pause that began in the future. None if nothing is."""
    status, at = case.status, case.status.waits_since or since
    if status.due_at is None or not is_future(at, case.now):
        return None
    case.facts |= _facts(at, case.now)
    ahead = f"The time was set when the clock was ahead by at least {_span(at, case.now)}."
    return f"{ahead} {CORRECTION}." if status.waits_since else f"{ahead} It stays as it was given."


def describe_heartbeat(case: DocumentContext, holder: Holder) -> str | None:
    """Return what is wrong with a heartbeat in the future: its worker may be dead. None if nothing is."""
    if not is_future(holder.heartbeat_at, case.now):
        return None
    case.facts |= _facts(holder.heartbeat_at, case.now)
    back = _span(holder.heartbeat_at, case.now)
    return f"That heartbeat is in the future, because the clock was set back by at least {back}. {CORRECTION}."


def _facts(at: datetime, now: datetime) -> dict[str, Any]:
    return {"clock_set_back_by": at - now}


def _span(at: datetime, now: datetime) -> str:
    return format_duration((at - now).total_seconds())
