"""The executor: takes one document through its pipeline. It does no I/O.

It is a generator that says what to compute and what to commit, and is told what came of it. A worker's loop, a single
thread, a function with a deadline and a test with a hand-moved clock all drive this same generator.

    request = next(run)            Compute: start the calls, send a list of events as soon as there are any
    request = run.send(events)     Commit: send the answer of the store
    request = run.send(answer)     GiveBack: the last one; Rewind: send the claim as it is after it;
                                   ReadJournal: send the journal
"""

from __future__ import annotations

from collections.abc import Container, Generator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.core.decisions import waits_at
from holdfast.core.document import Document
from holdfast.core.errors import CursorExpired
from holdfast.core.integrity import Flaw, Traces, damage, flaw, misplaced, parked
from holdfast.core.model import Checkpoint, Claim, Entry, Item
from holdfast.core.moves import Accepted, Answer, Effect, Ending, Move, Refused, Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.core.windows import Windows
from holdfast.engine.calls import (
    AskVerify,
    Call,
    Commit,
    Compute,
    Event,
    GiveBack,
    MeasureExtent,
    Produced,
    Pulled,
    PullStream,
    Raised,
    ReadJournal,
    Request,
    Rewind,
    RunValue,
)
from holdfast.engine.verdicts import Over, judge, place_not_passed, work_is_gone
from holdfast.engine.walk import Walk

Run = Generator[Request, Any, None]


def advance(
    pipeline: Pipeline,
    claim: Claim,
    document: Document,
    *,
    who: str,
    traces: Traces | None = None,
    did: Container[str] | None = None,
) -> Run:
    """Takes a claimed document as far as it goes: to its end, to a gate, or to an error.

    `traces` is what is kept for one that was taken up in the middle; its checkpoint is compared with it.
    `did` has the steps of the plan that it was begun under, if that is another: it never did the others.
    """
    return Executor(pipeline, claim, document, who, traces, did=did).run()


class Executor:
    """One document on its way. The claim's checkpoint moves with every accepted commit."""

    __slots__ = (
        "at",
        "attempts",
        "claim",
        "crashes",
        "did",
        "document",
        "extents",
        "held",
        "pipeline",
        "traces",
        "who",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        claim: Claim,
        document: Document,
        who: str,
        traces: Traces | None,
        *,
        did: Container[str] | None,
    ) -> None:
        self.pipeline = pipeline
        self.claim = claim
        self.document = document
        self.who = who
        self.at = claim.checkpoint
        self.attempts = claim.attempts
        self.crashes = claim.crashes
        self.held = True
        self.traces = traces
        self.did = did
        self.extents: dict[str, int] = {}  # how many items came of the streams that ended here

    def run(self) -> Run:
        """Step by step, until the document is done, parked or given back."""
        try:
            if wrong := damage(self.claim):
                raise self._parked(wrong)
            if self.traces and (wrong := flaw(self.pipeline[self.at.step or ""].kind, self.claim, self.traces)):
                raise self._parked(wrong)
            if self.at.moves:
                yield from self._verify_what_is_behind()
            elif self.at.cursor is not None:
                raise self._parked(Flaw(f"it never moved, and is at {self.at.cursor!r} inside step {self.at.step!r}"))
            while self.held:
                assert self.at.step is not None
                step = self.pipeline[self.at.step]
                self.document.step = step.name
                if step.kind == "gate":
                    yield from self._park_at(step)
                    return
                yield from self._work_through(step)
        except Over as over:
            yield GiveBack(over.ending)

    def _work_through(self, step: AnyStep) -> Run:
        if step.kind == "value":
            return self._value(step)
        if step.kind == "stream":
            return self._stream(step)
        return self._over(step)

    # the three shapes of body

    def _value(self, step: AnyStep) -> Run:  # most documents come by here, so it asks directly
        produced: Produced = self._result(step, (yield Compute((RunValue(step.name),))))
        move = self.past(step, produced.items, self.effect(step, produced.value))
        self._settle(step, move, (yield Commit(move)))

    def _stream(self, step: AnyStep) -> Run:
        cursor, position = self.at.cursor, 0
        if cursor is not None:
            yield from self._refuse_expired(step)
            cursor = self.at.cursor  # a restart begins without one
        if cursor is not None:
            position = self.traces.extent if self.traces else (yield from self.compute(MeasureExtent(step.name)))
        pulled: Pulled = yield from self.compute(PullStream(step.name, cursor, position))
        while not pulled.exhausted:
            effect = self.effect(step, pulled.values) if pulled.values else None
            if pulled.error is not None:
                if pulled.cursor != cursor:
                    yield from self.commit(step, self.within(step, pulled.cursor, pulled.items, effect))
                raise self.judged(step, pulled.error)
            cursor = pulled.cursor
            yield from self.commit(step, self.within(step, cursor, pulled.items, effect))
            pulled = yield from self.compute(PullStream(step.name, cursor, pulled.position))
        effect = self.effect(step, pulled.values) if pulled.values else None
        yield from self.commit(step, self.past(step, pulled.items, effect))
        self.extents[step.name] = pulled.position

    def _over(self, step: AnyStep) -> Run:
        assert step.options.over is not None
        extent = self.extents.get(step.options.over)
        if extent is None:
            extent = yield from self.compute(MeasureExtent(step.options.over))
        if wrong := misplaced(self.at, extent):
            raise self._parked(wrong)
        yield from Walk(self, step, Windows(extent, cursor=self.at.cursor)).run()

    # what they share

    def compute(self, call: Call) -> Generator[Request, Any, Any]:
        """Runs one call to its result; an error is judged."""
        return self._result(self.pipeline[call.step], (yield Compute((call,))))

    def _result(self, step: AnyStep, events: Sequence[Event]) -> Any:
        (event,) = events
        if isinstance(event, Raised):
            raise self.judged(step, event.error)
        return event.result

    def within(self, step: AnyStep, cursor: Any, items: Sequence[Item], effect: Effect | None, **more: Any) -> Move:
        """Gives the move further inside the step."""
        after = Checkpoint(self.at.generation, step.name, cursor, self.at.moves + 1)
        return Move(self.claim, self.at, after, items=items, effect=effect, timeout=step.deadline, **more)

    def past(self, step: AnyStep, items: Sequence[Item] = (), effect: Effect | None = None) -> Move:
        """Gives the move past the step: to its one successor, to a gate, or to the end."""
        at, successor = self.at, self.pipeline.after(step.name)
        if successor is None:
            return Move(
                self.claim, at, Checkpoint(at.generation, None, None, at.moves + 1), "done", items, effect=effect
            )
        after = Checkpoint(at.generation, successor.name, None, at.moves + 1)
        if successor.kind == "gate":
            parked = Move(self.claim, at, after, "paused", items, effect=effect, reason=waits_at(successor.name))
            within = successor.options.within
            return parked if within is None else replace(parked, timeout=within)
        return Move(self.claim, at, after, "running", items, effect=effect, timeout=successor.deadline)

    def commit(self, step: AnyStep, move: Move) -> Run:
        """Makes a move, or ends with what the store refused."""
        self._settle(step, move, (yield Commit(move)))

    def _settle(self, step: AnyStep, move: Move, answer: Answer) -> None:
        if isinstance(answer, Refused):
            raise self.judged(step, answer.error)
        assert isinstance(answer, Accepted)
        self.at = move.after
        self.held = move.state == "running"
        self.crashes = 0
        if move.is_progress:
            self.attempts = 1

    def effect(self, step: AnyStep, value: Any) -> Effect | None:
        return None if step.effect_body is None else partial(_write, step.effect_body, self.document, value)

    def _park_at(self, gate: AnyStep) -> Run:
        within = gate.options.within or timedelta(0)
        ending = Ending(self.claim, self.who, "paused", "pause", within, costs="nothing", reason=waits_at(gate.name))
        yield GiveBack(ending)

    def _parked(self, wrong: Flaw) -> Over:
        reason = parked(self.claim, wrong, first=self.pipeline.first.name)
        return Over(Ending(self.claim, self.who, "paused", "pause", costs="nothing", reason=reason))

    def _verify_what_is_behind(self) -> Run:
        assert self.at.step is not None
        for step in self.pipeline.behind(self.at.step):
            if step.verify_body is None or (self.did is not None and step.name not in self.did):
                continue
            self.document.step = step.name
            if not (yield from self.compute(AskVerify(step.name))):
                yield from self._redo(step)
                return

    def _redo(self, step: AnyStep) -> Run:
        """Rewinds to a step whose work is gone. If that was of no use the last time, a person has to look."""
        journal: Sequence[Entry] = yield ReadJournal()
        place = place_not_passed(self.pipeline, step, self.at, journal)
        if place is None:
            yield from self._rewind(step.name, work_is_gone(step))
            return
        reason = f"{work_is_gone(step)} again, before the document got past {place}: a person has to decide"
        raise Over(Ending(self.claim, self.who, "paused", "pause", costs="nothing", reason=reason))

    def _refuse_expired(self, step: AnyStep) -> Run:
        lives = step.options.cursor_expires
        if lives is None or self.claim.cursor_age <= lives or self.at is not self.claim.checkpoint:
            return
        reason = f"the cursor of {step.name} is {self.claim.cursor_age} old and lives {lives}"
        if step.options.when_expired == "fail":
            raise self.judged(step, CursorExpired(reason))
        yield from self._rewind(step.name, reason)

    def _rewind(self, to: str, reason: str) -> Run:
        self.claim = yield Rewind(to, reason)
        self.at = self.claim.checkpoint
        self.document.generation = self.at.generation
        self.extents.clear()
        self.attempts, self.crashes = 1, 0

    def judged(self, step: AnyStep, error: BaseException) -> Over:
        return Over(judge(step, error, claim=self.claim, who=self.who, attempts=self.attempts, crashes=self.crashes))


def _write(body: Any, document: Document, value: Any, tx: Tx) -> None:
    body(tx, document, value)
