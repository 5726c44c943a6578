"""Runs the calls that the executor asks for: bodies, reads and verifies. The one place that calls a user's code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import suppress
from contextvars import Context
from datetime import timedelta
from time import monotonic
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from holdfast.core.codec import Kept, checked_json
from holdfast.core.decisions import decided_at_gate, decided_at_step
from holdfast.core.document import Document
from holdfast.core.errors import BodyError, CursorMovedBack, WrongLength
from holdfast.core.integrity import Traces
from holdfast.core.model import WHOLE, Claim, Decision, Item, Plan
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import NOTHING, AnyStep, At, Last
from holdfast.engine.calls import (
    NOTHING_THERE,
    Call,
    MeasureExtent,
    Produced,
    Pulled,
    PullStream,
    RunValue,
    RunWindow,
)
from holdfast.engine.fresh import Fresh, Room
from holdfast.stores.protocol import Store

AS_THEY_COME = 0.005
"""Seconds of items that share a commit when a stream says nothing else: what a crash makes us compute again."""

MANY_ITEMS = 1000
MANY_BYTES = 4 * 1024 * 1024
"""A stream is committed after so many items or bytes, however long it asked to wait."""


class StoreReader(Struct):
    """Reads what earlier steps kept for one document, from the store, unless it is still fresh in memory."""

    store: Store
    plan: Plan
    claim: Claim
    fresh: Fresh | None = None

    def extent(self, step: str) -> int:
        known = self.fresh.extent(step) if self.fresh else None
        return self.store.extent(*self._where(step)) if known is None else known

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:
        known = self.fresh.read(step, start, stop) if self.fresh else None
        return self.store.read(*self._where(step), start, stop) if known is None else known

    def learn(self, items: Sequence[Item], room: Room) -> None:
        """Remembers what was committed just now, if there is room."""
        if self.fresh is None:
            begun = self.claim.checkpoint
            self.fresh = Fresh(room, begun=None if begun.cursor is None else begun.step)
        self.fresh.learn(items)

    def forget(self) -> None:
        """Reads everything from the store from now on."""
        fresh, self.fresh = self.fresh, None
        if fresh is not None:
            fresh.give_back()

    def rewound(self, claim: Claim) -> None:
        """What was kept belongs to another generation now."""
        self.claim = claim
        self.forget()

    def decision(self, step: str) -> Decision | None:
        decided = decided_at_gate if step in self.plan.gates else decided_at_step
        return decided(self.store.journal(self.claim.document_id), step, self._generation_of(step))

    def _where(self, step: str) -> tuple[int, int, int]:
        return self.claim.document_id, self._generation_of(step), self.plan.step_ids[step]

    def _generation_of(self, step: str) -> int:
        return (self.claim.reuses or {}).get(step, self.claim.checkpoint.generation)


class StepsDone:
    """Says which steps documents of another plan did, so that nobody asks about the others. Asks once for each plan."""

    def __init__(self, pipeline: Pipeline, store: Store, plan: Plan) -> None:
        self._store = store
        self._known: dict[int, frozenset[str] | None] = {plan.plan_id: None}
        self._is_asked = any(step.verify_body is not None for step in pipeline.steps)

    def under(self, traces: Traces | None) -> frozenset[str] | None:
        """Gives the names of the steps; None when they are those of the present plan, or nobody will ask."""
        if traces is None or not self._is_asked:
            return None
        if traces.plan_id not in self._known:
            shape = self._store.shape_of(traces.plan_id)
            self._known[traces.plan_id] = frozenset(shape.names if shape else ())
        return self._known[traces.plan_id]


@runtime_checkable
class Closable(Protocol):
    """A stream that can be left in the middle: a generator, or one that is open in a child."""

    def close(self) -> None:
        """Lets it clean up."""


class Desk(Struct, eq=False):
    """One document in hand: what its bodies see, and the stream that may be running for it."""

    pipeline: Pipeline
    document: Document
    stopping: Callable[[], bool]
    stream: Generator[Any, None, None] | AsyncGenerator[Any, None] | Closable | None = None
    context: Context | None = None
    lost: bool = False  # to somebody else: what it still yields is of no use

    def run(self, call: Call) -> Any:
        """Runs a call whose body is plain."""
        step = self.pipeline[call.step]
        if isinstance(call, RunValue):
            return produced(step, step.body(self.document))
        if isinstance(call, PullStream):
            return self.context_of_stream().run(self._pull, step, call)
        if isinstance(call, RunWindow):
            places, values = self.window(step, call.span)
            return over(step, places, step.body(self.document, values)) if places else NOTHING_THERE
        if isinstance(call, MeasureExtent):
            return self._measure(step)
        assert step.verify_body is not None
        return bool(step.verify_body(self.document))

    async def run_async(self, call: Call) -> Any:
        """Runs a call whose body is async."""
        step = self.pipeline[call.step]
        match call:
            case RunValue():
                return produced(step, await step.body(self.document))
            case PullStream():
                return await self._pull_async(step, call)
            case RunWindow(span=span):
                places, values = self.window(step, span)
                return over(step, places, await step.body(self.document, values)) if places else NOTHING_THERE
            case _:
                raise AssertionError(f"{call} is not a call of an async body")

    def window(self, step: AnyStep, span: tuple[int, int]) -> tuple[list[int], Any]:
        """Reads the items of a window: their positions, and what the body is given."""
        source = self.pipeline[step.options.over or ""]
        kept = self.document.reader.read(source.name, *span)
        values = [source.codec_of_item.decode(value) for _, value in kept]
        places = [place for place, _ in kept]
        return places, values if step.options.size or not values else values[0]

    def _measure(self, step: AnyStep) -> int:
        reader = self.document.reader
        extent = reader.extent(step.name)
        whole = () if extent else reader.read(step.name, WHOLE, WHOLE + 1)
        if whole and whole[0][1] != "[]":  # an empty list is kept whole, to be told from nothing at all
            raise BodyError(f"step {step.name!r} kept one value, not a list, so there are no items to walk over")
        return extent

    def context_of_stream(self) -> Context:
        """Gives the context variables that a stream keeps over its turns, whichever thread takes them."""
        if self.stream is None or self.context is None:
            self.context = Context()
        return self.context

    def _pull(self, step: AnyStep, call: PullStream) -> Pulled:
        collector = Collector(step, call, self)
        if self.stream is None:
            self.stream = _begin(step, self.document, call.cursor)
        try:
            for yielded in self.stream:  # type: ignore[union-attr]
                if collector.take(yielded):
                    return collector.pulled()
        except Exception as error:  # noqa: BLE001 - what came before the error is kept first; then it is judged
            self.stream = None
            return collector.pulled(error=error)
        self.stream = None
        return collector.pulled(exhausted=True)

    async def _pull_async(self, step: AnyStep, call: PullStream) -> Pulled:
        collector = Collector(step, call, self)
        if self.stream is None:
            self.stream = _begin(step, self.document, call.cursor)
        try:
            async for yielded in self.stream:  # type: ignore[union-attr]
                if collector.take(yielded):
                    return collector.pulled()
        except Exception as error:  # noqa: BLE001 - as above
            self.stream = None
            return collector.pulled(error=error)
        self.stream = None
        return collector.pulled(exhausted=True)

    def close(self) -> None:
        """Lets a stream that was left in the middle clean up."""
        stream, self.stream = self.stream, None
        if stream is not None and isinstance(stream, Closable):
            with suppress(Exception):  # one that swallows our goodbye is left to itself: what it gave is safe
                (self.context or Context()).run(stream.close)


class Collector:
    """Gathers what a stream yields until it is time to commit. Its loop is the hottest of all: a million items pass."""

    def __init__(self, step: AnyStep, call: PullStream, desk: Desk) -> None:
        self.step = step
        self.cursor = call.cursor
        self.position = call.position
        self.desk = desk
        self.stopping = desk.stopping
        self.items: list[Item] = []
        self.values: list[Any] = []
        self.size = 0
        self.moved = 0
        self.count, self.until = _when(step.options.commit_every)
        self.began = monotonic()
        self._keep = step.codec_of_item.encode if step.options.keep else None
        self._has_effect = step.effect_body is not None

    def take(self, yielded: Any) -> bool:
        """Takes one yielded thing. Answers whether it is time to commit."""
        kind = type(yielded)
        if kind is Last:
            self.take(yielded.yielded)
            return False  # the end comes next, and is committed with it
        if kind is At:
            value = yielded.value
            cursor = self._own_cursor(yielded)
        else:
            value = yielded
            cursor = self.cursor + 1 if type(self.cursor) is int else self._first_count()
        if value is not NOTHING:
            if self._keep is not None:
                kept = self._keep(value, self._what)
                self.items.append(Item(self.step.name, self.position, kept))
                self.size += len(kept)
            if self._has_effect:
                self.values.append(value)
            self.position += 1
        self.cursor = cursor  # only now: a cursor never passes what could not be kept
        self.moved += 1
        return (
            self.moved >= self.count
            or self.size >= MANY_BYTES
            or (self.until is not None and monotonic() - self.began >= self.until)
            or self.desk.lost
            or self.stopping()
        )

    def _first_count(self) -> int:
        if self.cursor is not None:
            raise BodyError(f"step {self.step.name!r} has its own cursor: yield At(cursor, value) every time")
        return 1

    def _own_cursor(self, yielded: At[Any]) -> Any:
        _refuse_going_back(self.step, self.cursor, yielded.cursor)
        return yielded.cursor

    def _what(self) -> str:
        return f"item {self.position} of step {self.step.name!r}"

    def pulled(self, *, exhausted: bool = False, error: BaseException | None = None) -> Pulled:
        """Gives what was gathered."""
        return Pulled(self.items, self.values, self.cursor, self.position, exhausted, error)


def _when(every: int | timedelta | None) -> tuple[int, float | None]:
    if every is None:
        return MANY_ITEMS, AS_THEY_COME
    if isinstance(every, timedelta):
        return 10 * MANY_ITEMS, every.total_seconds()
    return every, None


def _begin(step: AnyStep, document: Document, cursor: Any) -> Any:
    return step.body(document) if cursor is None else step.body(document, cursor=cursor)


def _refuse_going_back(step: AnyStep, before: Any, after: Any) -> None:
    if not isinstance(after, int):
        checked_json(after, f"the cursor of step {step.name!r}")
    if after is None or after == before:
        raise CursorMovedBack(f"step {step.name!r} yielded At({after!r}) after {before!r}: a cursor has to move")
    if isinstance(before, (int, float)) and isinstance(after, (int, float)) and after < before:
        raise CursorMovedBack(
            f"step {step.name!r} moved its cursor back from {before!r} to {after!r}; items in between would be done "
            "twice. Cursors only grow; to go back on purpose, rewind the document"
        )


def produced(step: AnyStep, value: Any) -> Produced:
    """Gives what a value body returned as items: the elements of a list, or the one value."""
    if value is None or not step.options.keep:
        return Produced((), value)
    if isinstance(value, list) and value:
        encode = step.codec_of_item.encode
        return Produced([Item(step.name, i, encode(one, _element(step, i))) for i, one in enumerate(value)], value)
    kept = step.codec_of_whole.encode(value, lambda: f"what step {step.name!r} returned")
    return Produced((Item(step.name, WHOLE, kept),), value)


def over(step: AnyStep, places: Sequence[int], answer: Any) -> Produced:
    """Gives what a body over items returned as items, at the positions of their sources."""
    if answer is None and step.options.size:
        return Produced((), answer)
    answers = answer if step.options.size else [answer]
    if not isinstance(answers, (list, tuple)) or len(answers) != len(places):
        got = f"{len(answers)}" if isinstance(answers, (list, tuple)) else f"a {type(answers).__name__}"
        raise WrongLength(
            f"step {step.name!r} was given {len(places)} items and answered {got}; it returns a list with one result "
            "for each item, in their order, or None when only its effect matters"
        )
    if not step.options.keep:
        return Produced((), answer)
    encode = step.codec_of_item.encode
    return Produced(
        [Item(step.name, place, encode(one, _result(step, place))) for place, one in zip(places, answers, strict=True)],
        answer,
    )


def _element(step: AnyStep, place: int) -> Callable[[], str]:
    return lambda: f"what step {step.name!r} returned, element {place},"


def _result(step: AnyStep, place: int) -> Callable[[], str]:
    return lambda: f"the result of step {step.name!r} for item {place}"
