"""Explain why a batch does not finish, or cannot be closed. Documents are counted by cause, the most frequent first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.core.batches import CLOSING, describe_deadline
from holdfast.core.errors import UnknownBatch
from holdfast.core.formatting import format_ago, format_count, one_line
from holdfast.core.model import Batch, DocumentStatus
from holdfast.core.orphans import GRACE
from holdfast.core.plan import Shape
from holdfast.core.staleness import stale_work
from holdfast.core.suggested_commands import PIPELINE_FILE, REASON_ARGS, command_args
from holdfast.core.wait_causes import Cause, Kind
from holdfast.ops.close_batch import closing_document, resume_commands
from holdfast.ops.explain.context import (
    Command,
    describe_circuit,
    describe_future_times,
    describe_workers,
    is_gate,
    open_circuits,
    plain_command,
    start_advice,
)
from holdfast.ops.explain.document import Explanation
from holdfast.ops.maintenance_scan import gone_workers
from holdfast.stores.protocol import Store

TOLERATED = "unless the pipeline tolerates them (Pipeline(tolerates=), close --tolerate)"

MAX_SEARCHED = 1000
"""How many running documents are searched for one that a live worker holds."""

HELD: tuple[Kind, ...] = ("worked on", "full step", "overdue")
ENDED: tuple[Kind, ...] = ("dead", "accepted", "cancelled")


def explain_batch(store: Store, pipeline: str, batch: str, *, command: Command = plain_command) -> Explanation:
    """Explain why a batch does not finish, or cannot be closed. It changes nothing.

    Args:
        store: The store that holds the batch.
        pipeline: The name of the pipeline.
        batch: The name of the batch.
        command: A function that turns the words of a command into text that can be pasted into a shell.

    Returns:
        For each cause: how many documents, the oldest one, and what to do.

    Raises:
        UnknownBatch: There is no such batch.
        StoreError: The store cannot be reached or used.

    Example:
        print(holdfast.explain_batch(store, "papers", "march"))
    """
    known = store.batches(pipeline)
    found = next((one for one in known if one.name == batch), None)
    if found is None:
        raise UnknownBatch(pipeline, batch, [one.name for one in known])
    return _BatchContext(store, found, command).explain()


class _BatchContext:
    """One batch, and the causes for which its documents wait."""

    def __init__(self, store: Store, batch: Batch, command: Command) -> None:
        self.store = store
        self.batch = batch
        self.now = store.now()
        self.shape: Shape | None = store.shape(batch.pipeline)
        self.causes = _with_dead_workers(store, batch, store.wait_causes(batch.pipeline, batch=batch.name))
        self.facts: dict[str, Any] = {}
        self._command = command

    def explain(self) -> Explanation:
        """Return all sentences and facts."""
        sentences = [self._counts(), *[self._sentence(cause) for cause in self.causes if cause.kind not in ENDED]]
        if any(self._kind(cause) in ("due", "suspect", "clock") for cause in self.causes):
            start = start_advice(self.batch.pipeline, self.batch.name, self._command)
            sentences.append(describe_workers(self.store, self.batch.pipeline, self.facts, start=start))
        sentences += self._open_circuits()
        sentences += self._future_times()
        sentences += [self._sentence(cause) for cause in self.causes if cause.kind == "dead"]
        sentences += self._deadline()
        sentences += self._stale_work()
        sentences += self._closing()
        balance = self.batch.balance
        facts = {
            "pipeline": self.batch.pipeline,
            "batch": self.batch.name,
            "state": self.batch.state,
            "balance": msgspec.structs.asdict(balance) | {"balances": balance.balances},
            "causes": [msgspec.structs.asdict(cause) | {"kind": self._kind(cause)} for cause in self.causes],
        }
        return Explanation(tuple(sentences), facts | self.facts)

    def _open_circuits(self) -> list[str]:
        """Return why steps are paused for all documents, if documents of this batch wait there."""
        waiting = {cause.step for cause in self.causes if cause.kind == "circuit"}
        circuits = [one for one in open_circuits(self.store, self.batch.pipeline) if one.step in waiting]
        self.facts["paused_steps"] = [one.step for one in circuits]
        return [describe_circuit(one, self.now, self._command) for one in circuits]

    def _future_times(self) -> list[str]:
        """Return what the clock did, if it was set back."""
        found = self.store.future_times(self.batch.pipeline)
        self.facts["clock_set_back_by"] = found.ahead if found.any else None
        return [describe_future_times(found)] if found.any else []

    def _counts(self) -> str:
        balance = self.batch.balance
        done = f"{balance.done:,} of {balance.expected:,} documents of batch {self.batch.name} are done"
        if not balance.balances:
            return f"{done}, but only {balance.found:,} were found. Look for the rest: {self._reconcile()}."
        if balance.open:
            are, them = ("is", "it") if balance.open == 1 else ("are", "them")
            return f"{done}, and {balance.open:,} {are} still open. To see {them}: {self._do('status')}."
        return f"{done}, and nothing is open any more. To see them: {self._do('status')}."

    def _do(self, *verb: str, more: Sequence[str] = ()) -> str:
        """Return a command about this batch."""
        return f"`{self._command(*verb, self.batch.pipeline, '--batch', self.batch.name, *more)}`"

    def _reconcile(self) -> str:
        """Return the command that counts this batch."""
        return f"`{self._command(*command_args(('batch', 'reconcile'), self.batch.pipeline, self.batch.name))}`"

    def _choose(self, *words: str, name: str = "") -> str:
        """Return a command about documents of this batch, or about one of them."""
        batch = ("--pipeline", self.batch.pipeline, "--batch", self.batch.name)
        return f"`{self._command(*command_args(words, *([name] if name else []), options=batch))}`"

    def _kind(self, cause: Cause) -> str:
        """Return the kind of a cause. No worker claims documents at a step that the pipeline no longer has."""
        removed = cause.state == "waiting" and self.shape is not None and cause.step not in self.shape.names
        return "stale plan" if removed else cause.kind

    def _sentence(self, cause: Cause) -> str:
        kind, is_one = self._kind(cause), cause.documents == 1
        at_gate = kind in ("person", "until") and is_gate(self.shape, cause.step)
        template, advice = _SENTENCES["gate" if at_gate else kind]
        text = template.format(
            step=cause.step,
            error=cause.error or "being put off",
            s="s" if is_one else "",
            are="is" if is_one else "are",
            lost_its="crashed or lost its workers and is" if is_one else "crashed or lost their workers and are",
            letters="a dead letter" if is_one else "dead letters",
        )
        oldest = cause.key if is_one else f"the oldest is {cause.key}"
        moved = format_ago(min(cause.moved_at, self.now), self.now)
        return f"{cause.documents:,} {text} ({oldest}, last moved {moved}). {self._advice(advice, cause)}."

    def _advice(self, advice: str, cause: Cause) -> str:
        """Fill in the commands of an advice."""
        these = ("--step", cause.step or "", *(("--error", cause.error) if cause.error else ()), "--reason", "...")
        return advice.format(
            explain=self._choose("explain", name=cause.key),
            orphans=self._do("doc", "orphans", more=("--grace", f"{self._lease().total_seconds():g}s")),
            review=self._choose("review", "list"),
            dead=self._choose("dead", "list"),
            redrive=self._choose("dead", "redrive", *these),
            accept=self._choose("dead", "accept", *these),
        )

    def _lease(self) -> timedelta:
        """Return the longest lease of this pipeline's workers: before it is over, their documents must not be taken."""
        return max((holder.worker.lease for holder, _ in self.store.holders(self.batch.pipeline)), default=GRACE)

    def _deadline(self) -> list[str]:
        """Return what the deadline of the batch does to its documents."""
        for found in self.store.batch_counts(self.batch.pipeline, self.batch.name):
            if found.deadline_at is not None and found.state != "closed":
                self.facts["deadline_at"] = found.deadline_at
                return [describe_deadline(found)]
        return []

    def _closing(self) -> list[str]:
        """Return why a batch without open documents cannot be closed, or how to close it."""
        if self.batch.pipeline.endswith(CLOSING):
            return self._closing_steps(self.batch.pipeline.removesuffix(CLOSING))
        if self.batch.state == "closed":
            report = f"The batch is closed. Its report: {self._reconcile()}."
            return [report, *self._closing_steps(self.batch.pipeline)]
        if self.batch.balance.open or not self.batch.balance.balances:
            return []
        left = sum(one.documents for one in self.causes if one.kind == "dead")
        self.facts["not_accepted"] = left
        missing = [f"{format_count(left, 'dead letter')} nobody accepted, {TOLERATED}"] if left else []
        missing += ["the batch is not sealed"] if self.batch.state == "open" else []
        if not missing:
            close = self._command(
                *command_args(("batch", "close"), PIPELINE_FILE, self.batch.name, options=REASON_ARGS)
            )
            return [f"Nothing keeps the batch from being closed: `{close}`."]
        seal = self._command(
            *command_args(("batch", "seal"), self.batch.pipeline, self.batch.name, options=REASON_ARGS)
        )
        advice = f": `{seal}`" if self.batch.state == "open" else ", as above"
        return [f"What keeps the batch from being closed: {', and '.join(missing)}{advice}."]

    def _closing_steps(self, pipeline: str) -> list[str]:
        """Return where the closing steps of a closed batch are, and how they go on."""
        last = closing_document(self.store, pipeline, self.batch.name)
        if last is None:
            return []
        self.facts["closing"] = {"state": last.state, "step": last.checkpoint.step, "reason": last.reason}
        if last.state in ("done", "cancelled"):
            return [f"Its closing steps are {last.state}: nothing has to be done."]
        why = f": {one_line(last.reason)}" if last.reason else ""
        at = f"Its closing steps are {last.state} at step {last.checkpoint.step}{why}"
        if not (commands := [f"`{self._command(*words)}`" for words in resume_commands(self.store, last)]):
            return [f"{at}; accepted by {last.accepted_by}, so nothing has to be done."]
        return [f"{at}. To go on with them: {', then '.join(commands)}."]

    def _stale_work(self) -> list[str]:
        """Return which work was done under an earlier plan and would have another result now."""
        if self.shape is None or self.batch.pipeline.endswith(CLOSING):
            return []
        found = stale_work(self.store.plans(self.batch.pipeline, batch=self.batch.name), self.shape)
        self.facts["stale"] = sum(one.documents for one in found)
        redo = self._command("doc", "rewind", "--stale", PIPELINE_FILE, "--batch", self.batch.name)
        return [
            f"The work of {format_count(one.documents, 'document')} is out of date: {one.why}: `{redo}`."
            for one in found
        ]


def _with_dead_workers(store: Store, batch: Batch, causes: list[Cause]) -> list[Cause]:
    """Count documents of dead workers of this machine as silent, even before their leases are over."""
    gone = gone_workers(store)
    if not gone or not any(one.kind in HELD for one in causes):
        return causes
    orphans = store.orphans(batch.pipeline, grace=timedelta(0), batch=batch.name, gone=gone)
    known = {one.step: one.documents for one in causes if one.kind == "silent"}
    silent: dict[str | None, list[DocumentStatus]] = {}
    for orphan in orphans:
        if orphan.sign == "silent":
            silent.setdefault(orphan.document.checkpoint.step, []).append(orphan.document)
    for step, found in silent.items():
        running = store.documents(batch.pipeline, batch=batch.name, state="running", step=step, limit=MAX_SEARCHED)
        ids = {one.id for one in found}
        held = [one for one in running if one.id not in ids]
        causes = _move_to_silent(causes, step, found, held, more=len(found) - known.get(step, 0))
    return sorted(causes, key=lambda one: -one.documents)


def _move_to_silent(
    causes: list[Cause], step: str | None, silent: list[DocumentStatus], held: list[DocumentStatus], *, more: int
) -> list[Cause]:
    """Move `more` documents from causes with a live worker to "silent". Each cause names its own oldest document."""
    left: list[Cause] = []
    for one in causes:
        taken = min(more, one.documents) if one.step == step and one.kind in HELD else 0
        more -= taken
        if one.documents > taken and not (one.step == step and one.kind == "silent"):
            left.append(_fewer(one, one.documents - taken, held) if taken else one)
    oldest = _oldest(silent)
    count = len(silent)
    return [*left, Cause("silent", "running", step, "", count, oldest.batch, oldest.key, oldest.moved_at)]


def _fewer(cause: Cause, documents: int, held: list[DocumentStatus]) -> Cause:
    if not held:
        return msgspec.structs.replace(cause, documents=documents)
    oldest = _oldest(held)
    return msgspec.structs.replace(cause, documents=documents, key=oldest.key, moved_at=oldest.moved_at)


def _oldest(documents: list[DocumentStatus]) -> DocumentStatus:
    return min(documents, key=lambda one: (one.moved_at, one.id))


_SENTENCES: dict[str, tuple[str, str]] = {
    "due": ("wait{s} for a worker at step {step}", "They are claimed by priority, then age: {explain}"),
    "stale plan": (
        "wait{s} at step {step}, which the pipeline no longer has, so no worker claims them",
        "Bring the step back, or write with renamed= where its documents go on",
    ),
    "backoff": (
        "wait{s} to be tried again at step {step} after {error}",
        "They go on by themselves; to see when: {explain}",
    ),
    "clock": ("wait{s} too long at step {step}, because the clock was set back", "To see until when: {explain}"),
    "circuit": (
        "wait{s} at step {step}, which is paused for all documents",
        "They go on by themselves; more: {explain}",
    ),
    "suspect": (
        "{lost_its} processed alone at step {step}",
        'For a step that crashes, use runs_in="process"; more: {explain}',
    ),
    "worked on": (
        "{are} being worked on at step {step}",
        "Nothing has to be done; to see who holds the oldest: {explain}",
    ),
    "silent": (
        "{are} held at step {step} by a worker that is silent",
        "The next worker takes them over; without one, look first: {orphans}",
    ),
    "overdue": ("{are} overdue at step {step}", "The next worker takes them over; without one, look first: {orphans}"),
    "full step": (
        "{are} held by workers and wait{s} for room in step {step}, which is full",
        "To allow more documents in it, raise its limit=; to see which are in it: {explain}",
    ),
    "gate": ("wait{s} at the gate {step} for a person to decide", "To decide: {review}"),
    "person": ("{are} paused at step {step} until a person decides", "To decide: {review}"),
    "until": ("{are} paused at step {step} until a time", "They go on by themselves; to see when: {explain}"),
    "dead": (
        "{are} {letters} at step {step}, with {error}",
        "To see them: {dead}; to try them again: {redrive}; to accept them: {accept}",
    ),
}
"""For each kind of cause: what is said about the documents, and what to do."""
