"""Why a batch does not finish, or cannot be closed: counted by what keeps its documents, the most first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from holdfast.core.batches import CLOSING
from holdfast.core.causes import Cause, Kind
from holdfast.core.commands import FILE, WHY, about
from holdfast.core.errors import UnknownBatch
from holdfast.core.model import Batch, Standing
from holdfast.core.orphans import GRACE
from holdfast.core.plan import Shape
from holdfast.core.stale import stale_work
from holdfast.core.words import ago, count, one_line
from holdfast.engine.case import Command, is_gate, plain_command, start_of, workers_told
from holdfast.engine.closing import closing_document, ways_on
from holdfast.engine.explain import Explanation
from holdfast.engine.orphans import gone_workers
from holdfast.stores.protocol import Store

TOLERATED = "unless the pipeline tolerates them (Pipeline(tolerates=), close --tolerate)"

LOOKED_THROUGH = 1000
"""How many running documents are looked through for one that a living worker holds."""

HELD: tuple[Kind, ...] = ("worked on", "full step", "overdue")
ENDED: tuple[Kind, ...] = ("dead", "accepted", "cancelled")


def explain_batch(store: Store, pipeline: str, batch: str, *, command: Command = plain_command) -> Explanation:
    """Says why a batch does not finish: how many documents each cause keeps, the oldest of them, and what to do."""
    known = store.batches(pipeline)
    here = next((one for one in known if one.name == batch), None)
    if here is None:
        raise UnknownBatch(pipeline, batch, [one.name for one in known])
    return _Case(store, here, command).explained()


class _Case:
    """One batch, and what keeps its documents."""

    def __init__(self, store: Store, here: Batch, command: Command) -> None:
        self.store = store
        self.here = here
        self.now = store.now()
        self.shape: Shape | None = store.shape(here.pipeline)
        self.causes = _with_the_gone(store, here, store.causes(here.pipeline, batch=here.name))
        self.facts: dict[str, Any] = {}
        self._command = command

    def explained(self) -> Explanation:
        """Says all of it."""
        sentences = [self._counted(), *[self._told(one) for one in self.causes if one.kind not in ENDED]]
        if any(self._kind(one) in ("due", "suspect") for one in self.causes):
            start = start_of(self.here.pipeline, self.here.name, self._command)
            sentences.append(workers_told(self.store, self.here.pipeline, self.facts, start=start))
        sentences += [self._told(one) for one in self.causes if one.kind == "dead"]
        sentences += self._out_of_date()
        sentences += self._closing()
        balance = self.here.balance
        facts = {
            "pipeline": self.here.pipeline,
            "batch": self.here.name,
            "state": self.here.state,
            "balance": msgspec.structs.asdict(balance) | {"balances": balance.balances},
            "causes": [msgspec.structs.asdict(one) | {"kind": self._kind(one)} for one in self.causes],
        }
        return Explanation(tuple(sentences), facts | self.facts)

    def _counted(self) -> str:
        balance = self.here.balance
        said = f"{balance.done:,} of {balance.expected:,} documents of batch {self.here.name} are done"
        if not balance.balances:
            return f"{said}, but only {balance.found:,} were found. Look for the rest: {self._do('reconcile')}."
        if balance.open:
            are, them = ("is", "it") if balance.open == 1 else ("are", "them")
            return f"{said}, and {balance.open:,} {are} still open. To see {them}: {self._do('status')}."
        return f"{said}, and nothing is open any more. To see them: {self._do('status')}."

    def _do(self, verb: str, *more: str) -> str:
        """Gives a command about this batch."""
        return f"`{self._command(verb, self.here.pipeline, '--batch', self.here.name, *more)}`"

    def _choose(self, *words: str, name: str = "") -> str:
        """Gives a command about documents of this batch, or about one."""
        here = ("--pipeline", self.here.pipeline, "--batch", self.here.name)
        return f"`{self._command(*about(words, *([name] if name else []), options=here))}`"

    def _kind(self, cause: Cause) -> str:
        """A document that waits at a step that the pipeline has no more is not claimed."""
        gone = cause.state == "waiting" and self.shape is not None and cause.step not in self.shape.names
        return "stale plan" if gone else cause.kind

    def _told(self, cause: Cause) -> str:
        kind, one = self._kind(cause), cause.documents == 1
        at_gate = kind in ("person", "until") and is_gate(self.shape, cause.step)
        said, advice = _WORDS["gate" if at_gate else kind]
        said = said.format(
            step=cause.step,
            error=cause.error or "being put off",
            s="s" if one else "",
            are="is" if one else "are",
            crashed_its="crashed its workers and is" if one else "crashed their workers and are",
            letters="a dead letter" if one else "dead letters",
        )
        which = cause.key if one else f"the oldest is {cause.key}"
        moved = ago(min(cause.moved_at, self.now), self.now)
        return f"{cause.documents:,} {said} ({which}, last moved {moved}). {self._advised(advice, cause)}."

    def _advised(self, advice: str, cause: Cause) -> str:
        """Puts commands into what is advised."""
        these = ("--step", cause.step or "", *(("--error", cause.error) if cause.error else ()), "--reason", "...")
        return advice.format(
            explain=self._choose("explain", name=cause.key),
            orphans=self._do("orphans", "--grace", f"{self._lease().total_seconds():g}s"),
            review=self._choose("review", "list"),
            dead=self._choose("dead", "list"),
            redrive=self._choose("dead", "redrive", *these),
            accept=self._choose("dead", "accept", *these),
        )

    def _lease(self) -> timedelta:
        """How long workers of this pipeline may be silent: before that, what they hold is not to be taken away."""
        return max((holder.worker.lease for holder, _ in self.store.holders(self.here.pipeline)), default=GRACE)

    def _closing(self) -> list[str]:
        """Says what keeps a batch from being closed when nothing in it is open any more."""
        if self.here.pipeline.endswith(CLOSING):
            return self._closing_steps(self.here.pipeline.removesuffix(CLOSING))
        if self.here.state == "closed":
            report = f"The batch is closed. Its report: {self._do('reconcile')}."
            return [report, *self._closing_steps(self.here.pipeline)]
        if self.here.balance.open or not self.here.balance.balances:
            return []
        left = sum(one.documents for one in self.causes if one.kind == "dead")
        self.facts["not_accepted"] = left
        missing = [f"{count(left, 'dead letter')} nobody accepted, {TOLERATED}"] if left else []
        missing += ["the batch is not sealed"] if self.here.state == "open" else []
        if not missing:
            close = self._command(*about(("close",), FILE, self.here.name, options=WHY))
            return [f"Nothing keeps the batch from being closed: `{close}`."]
        seal = self._command(*about(("seal",), self.here.pipeline, self.here.name, options=WHY))
        advice = f": `{seal}`" if self.here.state == "open" else ", as above"
        return [f"What keeps the batch from being closed: {', and '.join(missing)}{advice}."]

    def _closing_steps(self, pipeline: str) -> list[str]:
        """Says where the closing steps of a closed batch are, and how they go on."""
        last = closing_document(self.store, pipeline, self.here.name)
        if last is None:
            return []
        self.facts["closing"] = {"state": last.state, "step": last.checkpoint.step, "reason": last.reason}
        if last.state in ("done", "cancelled"):
            return [f"Its closing steps are {last.state}: nothing has to be done."]
        why = f": {one_line(last.reason)}" if last.reason else ""
        at = f"Its closing steps are {last.state} at step {last.checkpoint.step}{why}"
        if not (ways := [f"`{self._command(*words)}`" for words in ways_on(last)]):
            return [f"{at}; accepted by {last.accepted_by}, so that nothing has to be done."]
        return [f"{at}. To go on with them: {', then '.join(ways)}."]

    def _out_of_date(self) -> list[str]:
        """Says what was made under an earlier plan and would be made otherwise now."""
        if self.shape is None or self.here.pipeline.endswith(CLOSING):
            return []
        found = stale_work(self.store.plans(self.here.pipeline, batch=self.here.name), self.shape)
        self.facts["stale"] = sum(one.documents for one in found)
        redo = self._command("rewind", "--stale", FILE, "--batch", self.here.name)
        return [f"The work of {count(one.documents, 'document')} is out of date: {one.why}: `{redo}`." for one in found]


def _with_the_gone(store: Store, here: Batch, causes: list[Cause]) -> list[Cause]:
    """Counts what workers of this machine hold whose processes are gone as silent before their leases are over."""
    gone = gone_workers(store)
    if not gone or not any(one.kind in HELD for one in causes):
        return causes
    orphans = store.orphans(here.pipeline, grace=timedelta(0), batch=here.name, gone=gone)
    known = {one.step: one.documents for one in causes if one.kind == "silent"}
    silent: dict[str | None, list[Standing]] = {}
    for orphan in orphans:
        if orphan.sign == "silent":
            silent.setdefault(orphan.standing.checkpoint.step, []).append(orphan.standing)
    for step, found in silent.items():
        running = store.standings(here.pipeline, batch=here.name, state="running", step=step, limit=LOOKED_THROUGH)
        numbers = {one.id for one in found}
        held = [one for one in running if one.id not in numbers]
        causes = _moved(causes, step, found, held, more=len(found) - known.get(step, 0))
    return sorted(causes, key=lambda one: -one.documents)


def _moved(
    causes: list[Cause], step: str | None, silent: list[Standing], held: list[Standing], *, more: int
) -> list[Cause]:
    """Takes so many from what seems to be held, and counts them as silent. Each is named by its own oldest."""
    left: list[Cause] = []
    for one in causes:
        taken = min(more, one.documents) if one.step == step and one.kind in HELD else 0
        more -= taken
        if one.documents > taken and not (one.step == step and one.kind == "silent"):
            left.append(_fewer(one, one.documents - taken, held) if taken else one)
    oldest = _oldest(silent)
    place = (len(silent), oldest.batch, oldest.key, oldest.moved_at)
    return [*left, Cause("silent", "running", step, "", *place)]


def _fewer(cause: Cause, documents: int, held: list[Standing]) -> Cause:
    if not held:
        return msgspec.structs.replace(cause, documents=documents)
    oldest = _oldest(held)
    return msgspec.structs.replace(cause, documents=documents, key=oldest.key, moved_at=oldest.moved_at)


def _oldest(documents: list[Standing]) -> Standing:
    return min(documents, key=lambda here: (here.moved_at, here.id))


_WORDS: dict[str, tuple[str, str]] = {
    "due": ("wait{s} for a worker at step {step}", "They are claimed by priority, then age: {explain}"),
    "stale plan": (
        "wait{s} at step {step}, which the pipeline has no more, so that no worker claims them",
        "Bring the step back, or say with renamed= where its documents go on",
    ),
    "backoff": (
        "wait{s} to be tried again at step {step} after {error}",
        "They go on by themselves; until when: {explain}",
    ),
    "suspect": (
        "{crashed_its} worked on alone at step {step}",
        'A step that crashes is better off with runs_in="process"; more: {explain}',
    ),
    "worked on": ("{are} being worked on at step {step}", "Nothing has to be done; who holds the oldest: {explain}"),
    "silent": (
        "{are} held at step {step} by a worker that is silent",
        "The next worker takes them over; without one, look first: {orphans}",
    ),
    "overdue": ("{are} overdue at step {step}", "The next worker takes them over; without one, look first: {orphans}"),
    "full step": (
        "{are} in hand in front of step {step}, which lets only so many in at once",
        "To let more in, raise the step's limit=; who is inside: {explain}",
    ),
    "gate": ("wait{s} at the gate {step} for a person to decide", "To decide: {review}"),
    "person": ("{are} paused at step {step} until a person decides", "To decide: {review}"),
    "until": ("{are} paused at step {step} until a moment", "They go on by themselves; until when: {explain}"),
    "dead": (
        "{are} {letters} at step {step}, with {error}",
        "To see them: {dead}; to try them again: {redrive}; to accept them: {accept}",
    ),
}
"""What is said of so many documents that the same thing keeps, and what to do about it."""
