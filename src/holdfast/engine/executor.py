"""The executor: takes one document through its pipeline. It does no I/O.

It is a generator. It yields requests (compute this, commit this), and the caller sends the answers. A worker, a single
thread, a function with a deadline and a test with a manual clock all drive this same generator.

    request = next(run)            Compute: start the calls, send a list of events as soon as there are any
    request = run.send(events)     CommitMove: send the result of the commit
    request = run.send(result)     RewindDocument: send the claim after the rewind
                                   ReadJournal: send the journal
                                   GiveBack: the last request
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.core.document import Document
from holdfast.core.errors import CursorExpired, ItemDamaged
from holdfast.core.extents import after_step, inside_step, place_mark
from holdfast.core.integrity import (
    NO_ITEMS,
    KeptState,
    checkpoint_damage,
    count_damage,
    cursor_damage,
    order_damage,
    parking_of,
    row_damage,
    stream_damage,
    windows_damage,
)
from holdfast.core.item_windows import Windows
from holdfast.core.model import WHOLE, Checkpoint, Claim, Damage, Item, JournalEntry
from holdfast.core.moves import Accepted, CommitResult, Effect, Move, MoveWarning, Refused, Release, Tx
from holdfast.core.pipeline import Pipeline
from holdfast.core.plan import Shape
from holdfast.core.reasons import (
    AT_GATE,
    CURSOR_EXPIRED,
    FEWER_THAN_TOTAL,
    MORE_THAN_TOTAL,
    WORK_GONE,
    WORK_GONE_AGAIN,
    sentence,
)
from holdfast.core.step import AnyStep
from holdfast.engine.effect_rows import EffectRows
from holdfast.engine.executor_requests import (
    Call,
    CommitMove,
    Compute,
    CountKept,
    Event,
    GiveBack,
    MeasureExtent,
    Produced,
    Pulled,
    PullStream,
    Raised,
    ReadJournal,
    Request,
    RewindDocument,
    RunValue,
    RunVerify,
    Yielded,
)
from holdfast.engine.failure_policy import DocumentReleased, RaisedBy, Tried, decide_outcome, place_not_passed
from holdfast.engine.over_items import OverItemsRun

Run = Generator[Request, Any, None]


def advance(
    pipeline: Pipeline,
    claim: Claim,
    document: Document,
    *,
    who: str,
    kept: KeptState | None = None,
    done_under: Shape | None = None,
) -> Run:
    """Process a claimed document until its end, a gate or an error.

    `kept` is what the store keeps for a document that has made moves; its checkpoint is compared with it.
    `done_under` is the plan under which its earlier steps were done; None if it is that of the pipeline.
    """
    return Executor(pipeline, claim, document, who, kept, done_under=done_under).run()


class Executor:
    """One document on its way through the pipeline. `at` is its checkpoint; every accepted commit moves it."""

    __slots__ = (
        "at",
        "attempts",
        "claim",
        "count",
        "crashes",
        "document",
        "done_under",
        "effect_rows",
        "extents",
        "held",
        "kept",
        "lengths",
        "own_cursor",
        "pipeline",
        "totals",
        "who",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        claim: Claim,
        document: Document,
        who: str,
        kept: KeptState | None,
        *,
        done_under: Shape | None,
    ) -> None:
        self.pipeline = pipeline
        self.claim = claim
        self.document = document
        self.who = who
        self.at = claim.checkpoint
        self.attempts = claim.attempts
        self.crashes = claim.crashes
        self.held = True
        self.kept = kept
        self.done_under = done_under
        self.effect_rows = EffectRows(pipeline, claim, document)
        self.extents = claim.extents
        self.totals = claim.totals or {}  # by step, how many items it said it will yield
        self.count = 0  # number of items that its step has kept so far
        self.own_cursor = False  # whether its stream has cursors that are not counts
        self.lengths: dict[str, int] = {}  # number of items of the streams that ended in this run

    def run(self) -> Run:
        """Run step by step until the document is done, parked or given back."""
        try:
            if damage := row_damage(self.claim):
                raise self._parked_for(damage)
            if self.kept:
                yield from self._check_kept(self.kept)
            if self.at.moves:
                yield from self._verify_earlier_steps()
            elif self.at.cursor is not None:
                raise self._parked_for(
                    Damage(f"it never moved, and is at {self.at.cursor!r} inside step {self.at.step!r}")
                )
            while self.held:
                assert self.at.step is not None
                step = self.pipeline[self.at.step]
                self._begin(step)
                if step.kind == "gate":
                    yield from self._park_at(step)
                    return
                yield from self._run_step(step)
        except DocumentReleased as over:
            yield GiveBack(over.release)

    def _run_step(self, step: AnyStep) -> Run:
        if step.kind == "value":
            return self._run_value(step)
        if step.kind == "stream":
            return self._run_stream(step)
        return self._run_over(step)

    def _begin(self, step: AnyStep) -> None:
        """Let the document say at which step it is, and how often that was tried."""
        document, at = self.document, self.at
        document.step, document.attempt = step.name, self.attempts
        document.resumed = at.cursor is not None or (at is self.claim.checkpoint and self.claim.held_before)

    # the three kinds of step

    def _run_value(self, step: AnyStep) -> Run:  # the most frequent path, so without `compute` and `commit`
        produced: Produced = self._result(step, (yield Compute((RunValue(step.name),))))
        move = self.past(step, produced.items, self.effect(step, produced.value))
        self._accept(step, move, (yield CommitMove(move)))

    def _run_stream(self, step: AnyStep) -> Run:
        cursor, position, self.own_cursor = self.at.cursor, 0, False
        if cursor is not None:
            yield from self._check_cursor_age(step)
            cursor = self.at.cursor  # a rewind clears it
        if cursor is not None:
            position = self.kept.extent if self.kept else (yield from self.compute(MeasureExtent(step.name)))
            self.count, self.own_cursor = position, (self.extents or {}).get(step.name, 0) < 0
        start = position if step.options.keep else cursor
        events: list[Event] = [*(yield Compute((PullStream(step.name, cursor, position),)))]
        while not (pulled := self._pulled(step, events[0])).exhausted:
            is_part = isinstance(events.pop(0), Yielded)
            self.own_cursor = self.own_cursor or pulled.own_cursor
            effect = self.effect(step, pulled.values) if pulled.values else None
            if pulled.error is not None:
                if pulled.cursor != cursor:
                    move = self._within_stream(step, pulled, effect)
                    yield from self.commit(step, self._with_total(step, move, pulled, start=start))
                raise self.released_after(step, pulled.error)
            cursor = pulled.cursor
            move = self._within_stream(step, pulled, effect)
            if self.totals or pulled.total is not None:
                move = self._with_total(step, move, pulled, start=start)
            start = self._yielded(step, pulled)
            yield from self._commit_part(step, move, events) if is_part else self.commit(step, move)
            if not events:
                events += yield Compute(() if is_part else (PullStream(step.name, cursor, pulled.position),))
        effect = self.effect(step, pulled.values) if pulled.values else None
        move = self.past(step, pulled.items, effect)
        if self.totals or pulled.total is not None:
            move = self._with_total(step, move, pulled, start=start)
        yield from self.commit(step, move)
        self.lengths[step.name] = pulled.position

    def _pulled(self, step: AnyStep, event: Event) -> Pulled:
        if isinstance(event, Raised):
            raise self.released_after(step, event.error)
        pulled: Pulled = event.result
        return pulled

    def _commit_part(self, step: AnyStep, move: Move, events: Sequence[Event]) -> Run:
        """Commit what a stream yielded while its body goes on. `events` are later ones that are known already.

        If the commit is refused, the body stops at its next item. Until then the document is kept: its body must not
        begin again while it still runs.
        """
        try:
            yield from self.commit(step, move)
        except DocumentReleased:
            while all(isinstance(event, Yielded) for event in events):
                events = yield Compute(())
            raise

    def _within_stream(self, step: AnyStep, pulled: Pulled, effect: Effect | None) -> Move:
        places = None if self.own_cursor else pulled.cursor
        return self.within(step, pulled.cursor, pulled.items, effect, places=places)

    def _with_total(self, step: AnyStep, move: Move, pulled: Pulled, *, start: Any) -> Move:
        """Return a move with the total that the stream yielded, and a warning if its items do not fit any more.

        `start` is how many items it had yielded before; anything else than a number if nobody knows.
        """
        before = self.totals.get(step.name)
        total = before if pulled.total is None else pulled.total
        if total is None:
            return move
        if total != before:
            move = replace(move, totals={**self.totals, step.name: total})
        items = self._yielded(step, pulled)
        if items is None:
            return move
        warned = before is not None and type(start) is int and start > before
        code = MORE_THAN_TOTAL if items > total and not warned else ""
        if pulled.exhausted and items < total:
            code = FEWER_THAN_TOTAL
        if not code:
            return move
        warning = MoveWarning(code, step.name, sentence(code, step=step.name, items=f"{items:,}", total=f"{total:,}"))
        return replace(move, warnings=(warning,))

    def _yielded(self, step: AnyStep, pulled: Pulled) -> int | None:
        """Return how many items a stream has yielded in all. None if nobody knows: it keeps none, with own cursors."""
        if step.options.keep:
            return pulled.position
        is_count = type(pulled.cursor) is int and not (self.own_cursor or pulled.own_cursor)
        return pulled.cursor if is_count else None

    def _run_over(self, step: AnyStep) -> Run:
        assert step.options.over is not None
        extent = self.lengths.get(step.options.over)
        if extent is None:
            extent = yield from self.compute(MeasureExtent(step.options.over))
        if damage := cursor_damage(self.at, extent):
            raise self._parked_for(damage)
        if self.at.cursor is not None and self.kept is not None and self.kept.steps is not None:
            counts = self.kept.steps.get(step.name, NO_ITEMS)
            if damage := windows_damage(self.claim, counts):
                raise self._parked_for(damage)
            self.count = counts.items
        yield from OverItemsRun(self, step, Windows(extent, cursor=self.at.cursor)).run()

    # used by all kinds

    def compute(self, call: Call) -> Generator[Request, Any, Any]:
        """Run one call and return its result. An error ends the work on the document."""
        return self._result(self.pipeline[call.step], (yield Compute((call,))))

    def _result(self, step: AnyStep, events: Sequence[Event]) -> Any:
        (event,) = events
        if isinstance(event, Raised):
            raise self.released_after(step, event.error)
        return event.result

    def within(
        self, step: AnyStep, cursor: Any, items: Sequence[Item], effect: Effect | None, *, places: Any, **more: Any
    ) -> Move:
        """Return the move to a further cursor inside the step. `places` is how many places are done with it."""
        after = Checkpoint(self.at.generation, step.name, cursor, self.at.moves + 1)
        mark = place_mark(places, self.count + len(items), keeps=step.options.keep)
        extents = inside_step(self.extents, step.name, mark)
        effects = None
        if effect is not None:
            effect, effects = self.effect_rows.replace_earlier(step, effect, ends=False)
        move = Move(
            self.claim,
            self.at,
            after,
            items=items,
            effect=effect,
            timeout=step.deadline,
            effects=effects,
            extents=extents,
            **more,
        )
        return self._with_left_rows(move) if self.effect_rows.left else move

    def past(self, step: AnyStep, items: Sequence[Item] = (), effect: Effect | None = None, *, asides: int = 0) -> Move:
        """Return the move past the step, with `asides` items set aside: to the next step, to a gate, or to the end."""
        at, rows, changes = self.at, self.effect_rows, None
        if effect is not None or rows.by_step:
            effect, changes = rows.replace_earlier(step, effect, ends=True)
        successor = self.pipeline.after(step.name)
        if successor is None:
            end = Checkpoint(at.generation, None, None, at.moves + 1)
            move = Move(self.claim, at, end, "done", items, effect=effect, effects=changes)
        else:
            kept = WHOLE if items and items[0].position == WHOLE else self.count + len(items) + asides
            extents = after_step(self.extents, step.name, kept)
            after = Checkpoint(at.generation, successor.name, None, at.moves + 1)
            if successor.kind == "gate":
                move = Move(self.claim, at, after, "paused", items, effect=effect, effects=changes, extents=extents)
                move = replace(
                    move,
                    timeout=successor.options.within,
                    reason=sentence(AT_GATE, gate=successor.name),
                    code=AT_GATE,
                )
            else:
                wait = successor.deadline
                move = Move(
                    self.claim, at, after, "running", items, (), (), effect, wait, effects=changes, extents=extents
                )
        return self._with_left_rows(move) if rows.left else move

    def _with_left_rows(self, move: Move) -> Move:
        left, self.effect_rows.left = self.effect_rows.left, ()
        return replace(move, rows_left=left)

    def commit(self, step: AnyStep, move: Move) -> Run:
        """Commit a move. If the store refused it, the work on the document ends with that error."""
        self._accept(step, move, (yield CommitMove(move)))

    def _accept(self, step: AnyStep, move: Move, answer: CommitResult) -> None:
        if type(answer) is not Accepted:
            assert isinstance(answer, Refused)
            raise self.released_after(step, answer.error, raised_by="effect")
        if move.effects is not None:
            self.effect_rows.commit(move.effects)
        if move.extents is not None:
            self.extents = move.extents
        if move.totals is not None:
            self.totals = move.totals
        self.count = 0 if move.after.cursor is None else self.count + len(move.items)
        self.at = move.after
        self.held = move.state == "running"
        self.crashes = 0
        if move.is_progress:
            self.attempts = 1

    def effect(self, step: AnyStep, value: Any) -> Effect | None:
        return None if step.effect_body is None else partial(_run_effect, step.effect_body, self.document, value)

    def _park_at(self, gate: AnyStep) -> Run:
        yield GiveBack(self._pause(AT_GATE, sentence(AT_GATE, gate=gate.name), delay=gate.options.within))

    def _pause(self, code: str, reason: str, *, delay: timedelta | None = None) -> Release:
        wait = delay or timedelta(0)
        return Release(self.claim, self.who, "paused", "pause", wait, costs="nothing", reason=reason, code=code)

    def _check_kept(self, kept: KeptState) -> Run:
        """Park the document if its checkpoint cannot be true, by what the store keeps."""
        kind, shape = self.pipeline[self.at.step or ""].kind, self.done_under or self.pipeline.shape()
        if damage := checkpoint_damage(kind, self.claim, kept) or order_damage(self.claim, shape):
            raise self._parked_for(damage)
        steps = kept.steps
        if steps is None:
            steps = yield from self.compute(CountKept(self.at.step or ""))
            self.kept = replace(kept, steps=steps)
        damage = count_damage(self.claim, shape, steps)
        if damage is None and kind == "stream" and self.at.cursor is not None:
            damage = stream_damage(self.claim, kept.extent, steps.get(self.at.step or "", NO_ITEMS))
        if damage is not None:
            raise self._parked_for(damage)

    def _parked_for(self, damage: Damage) -> DocumentReleased:
        parking = parking_of(damage, step=self.claim.checkpoint.step, first=self.pipeline.first.name)
        return DocumentReleased(self._pause(*parking))

    def _verify_earlier_steps(self) -> Run:
        assert self.at.step is not None
        for step in self.pipeline.behind(self.at.step):
            if step.verify_body is None or (self.done_under is not None and step.name not in self.done_under.names):
                continue
            self.document.step = step.name
            if not (yield from self.compute(RunVerify(step.name))):
                yield from self._redo(step)
                return

    def _redo(self, step: AnyStep) -> Run:
        """Rewind to a step whose work is gone. If the last rewind did not help, park the document for a person."""
        journal: Sequence[JournalEntry] = yield ReadJournal()
        place = place_not_passed(self.pipeline, step, self.at, journal)
        if place is None:
            yield from self._rewind(step.name, WORK_GONE, sentence(WORK_GONE, step=step.name))
            return
        since = f"before the document passed {place}"
        raise DocumentReleased(self._pause(WORK_GONE_AGAIN, sentence(WORK_GONE_AGAIN, step=step.name, since=since)))

    def _check_cursor_age(self, step: AnyStep) -> Run:
        limit, age = step.options.cursor_expires, self.claim.cursor_age
        if limit is None or age <= limit or self.at is not self.claim.checkpoint:
            return
        reason = sentence(CURSOR_EXPIRED, step=step.name, age=age, limit=limit)
        if step.options.when_expired == "fail":
            raise self.released_after(step, CursorExpired(reason))
        yield from self._rewind(step.name, CURSOR_EXPIRED, reason)

    def _rewind(self, to: str, code: str, reason: str) -> Run:
        self.claim = yield RewindDocument(to, code, reason)
        self.at = self.claim.checkpoint
        self.document.generation = self.at.generation
        self.extents, self.count, self.own_cursor = self.claim.extents, 0, False
        self.totals = {}
        self.lengths.clear()
        self.attempts, self.crashes = 1, 0
        self.document.attempt, self.document.resumed = 1, False

    def released_after(self, step: AnyStep, error: BaseException, *, raised_by: RaisedBy = "body") -> DocumentReleased:
        if issubclass(type(error), ItemDamaged):  # isinstance would ask the error for its class, which may raise
            return self._parked_for(Damage(str(error), "nothing"))
        if step.name != self.at.step:
            raised_by = "verify"
        claim, counts, losses = self.claim, (0, timedelta(0)), 0
        if self.at is claim.checkpoint:  # it did not move since it was claimed
            counts, losses = (claim.deferrals, claim.deferred_for), claim.losses
        tried = Tried(claim, self.who, self.attempts, self.crashes, *counts, raised_by, losses)
        return DocumentReleased(decide_outcome(step, error, tried))


def _run_effect(body: Any, document: Document, value: Any, tx: Tx) -> None:
    body(tx, document, value)
