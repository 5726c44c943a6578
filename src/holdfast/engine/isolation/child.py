"""The child: runs bodies for a worker, one call at a time, until it is told or has to leave."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from holdfast.core.codec import Kept
from holdfast.core.document import Document
from holdfast.core.errors import BodyError
from holdfast.core.model import WHOLE, Decision
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.engine.bodies import Desk
from holdfast.engine.calls import AskVerify, Call, Produced, Pulled, PullStream, RunValue, RunWindow
from holdfast.engine.isolation.limits import can_limit_memory, ceiling_above, flush_output, held_to, peak_memory
from holdfast.engine.isolation.stories import Told, retold, tell
from holdfast.engine.isolation.talk import (
    Answer,
    AskDecision,
    AskExtent,
    AskItems,
    Card,
    Decided,
    Failed,
    Found,
    Gave,
    Hangup,
    Measured,
    Question,
    Rows,
    Talk,
    Task,
    Verified,
    Yielded,
)

if TYPE_CHECKING:
    import asyncio

CALLS = 500
"""After so many calls a child leaves, so that what libraries leak does not add up."""
GROWTH = 256 * 1024 * 1024
"""Or when it has grown by so many bytes."""
TIDYING = 5
"""Seconds that a stream which is left in the middle may take to clean up."""

_calls: dict[str, msgspec.json.Decoder[Any]] = {
    kind.__name__: msgspec.json.Decoder(kind) for kind in (RunValue, PullStream, RunWindow, AskVerify)
}
_card = msgspec.json.Decoder(Card)
_decision = msgspec.json.Decoder(Decision)
_json = msgspec.json.Encoder().encode


def warm(pipeline: Pipeline) -> None:
    """Imports what only some pipelines need, so that their children are born with it."""
    if any(step.is_async and step.options.runs_in == "process" for step in pipeline.steps):
        import_module("asyncio")


class AskingReader:
    """Reads what earlier steps kept by asking the worker, which has the store."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._owner = os.getpid()
        self._lock = threading.Lock()  # a body may read from threads of its own
        self._given: dict[tuple[str, int, int], Rows] = {}

    def give(self, step: str, start: int, stop: int, rows: Rows) -> None:
        """Takes what the worker read beforehand."""
        self._given[step, start, stop] = rows

    def extent(self, step: str) -> int:
        measured = self._ask(AskExtent(step))
        assert isinstance(measured, Measured)
        return measured.extent

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:
        given = self._given.get((step, start, stop))
        if given is not None:
            return given
        found = self._ask(AskItems(step, start, stop))
        assert isinstance(found, Found)
        return found.rows

    def decision(self, step: str) -> Decision | None:
        decided = self._ask(AskDecision(step))
        assert isinstance(decided, Decided)
        return None if decided.decision is None else _decision.decode(decided.decision)

    def _ask(self, question: Question) -> Found | Measured | Decided:
        if os.getpid() != self._owner:
            raise BodyError("the document is read in the process that its body was called in; pass on what you read")
        with self._lock:
            self._talk.say(question)
            reply = self._talk.hear()
        if isinstance(reply, Failed):
            raise retold(reply.told)
        assert isinstance(reply, (Found, Measured, Decided))
        return reply


class Child:
    """A process that runs bodies: the stream that is open in it, its loop for async bodies, and its age."""

    def __init__(self, talk: Talk, pipeline: Pipeline, stopping: Callable[[], bool]) -> None:
        self.talk = talk
        self.pipeline = pipeline
        self.stopping = stopping
        self.open: Desk | None = None
        self.ceiling: int | None = None
        self.loop: asyncio.Runner | None = None
        self.calls = 0
        self.small = peak_memory()
        self.doubtful = False

    def live(self) -> None:
        """Does what the worker asks until it hangs up, or until this child is old."""
        me = os.getpid()
        last = False
        while not last:
            try:
                task = self.talk.hear()
            except Hangup:
                break
            assert isinstance(task, Task)
            answer = self.do(task)
            if os.getpid() != me:
                os._exit(0)  # a copy that the body forked and forgot: only one of us may answer
            flush_output()
            with suppress(Hangup):
                self.talk.say(answer)
            last = answer.last
        self._leave()

    def do(self, task: Task) -> Answer:
        """Does one call, whatever comes of it."""
        call: Call = _calls[task.verb].decode(task.call)
        step = self.pipeline[call.step]
        try:
            desk = self._desk_for(task, call, step)
            with held_to(self.ceiling):
                result = self._run(desk, call, step)
            self.open = desk if desk.stream is not None else None
            answer = self._answer(step, result)
        except BaseException as error:  # noqa: BLE001 - whatever a body does, also sys.exit(), is told to the worker
            self.open = None
            self.doubtful = self.doubtful or not isinstance(error, Exception)
            answer = Failed(self._told(step, error))
        self.calls += 1
        return replace(answer, last=self._is_old())

    def _desk_for(self, task: Task, call: Call, step: AnyStep) -> Desk:
        if self.open is not None and isinstance(call, PullStream):
            return self.open
        card = _card.decode(task.card)
        reader = AskingReader(self.talk)
        if isinstance(call, RunWindow):
            reader.give(step.options.over or "", *call.span, task.given)
        document = Document(
            pipeline=self.pipeline.name,
            batch=card.batch,
            key=card.key,
            payload=card.payload,
            fingerprint=card.fingerprint,
            generation=card.generation,
            step=card.step,
            reader=reader,
        )
        allowed = step.options.memory
        self.ceiling = ceiling_above(allowed) if allowed is not None and can_limit_memory() else None
        return Desk(self.pipeline, document, self.stopping)

    def _run(self, desk: Desk, call: Call, step: AnyStep) -> Any:
        if not step.is_async or isinstance(call, AskVerify):
            return desk.run(call)
        if self.loop is None:
            import asyncio

            self.loop = asyncio.Runner()  # one for all calls, so that a client made in one works in the next
        return self.loop.run(desk.run_async(call))

    def _answer(self, step: AnyStep, result: Any) -> Answer:
        match result:
            case Produced():
                return Gave(_rows(step, result), last=False)
            case Pulled(cursor=cursor, position=position, exhausted=exhausted, error=error):
                told = None if error is None else self._told(step, error)
                return Yielded(_rows_of_stream(step, result), _json(cursor), position, exhausted, told, last=False)
            case _:
                return Verified(bool(result), last=False)

    def _told(self, step: AnyStep, error: BaseException) -> Told:
        told = tell(error)
        if isinstance(error, MemoryError) and self.ceiling is not None:
            self.doubtful = True
            message = f"step {step.name!r} wanted more than the {step.options.memory:,} bytes that its memory= allows"
            told = replace(told, story=replace(told.story, message=message))
        return told

    def _is_old(self) -> bool:
        if self.open is not None:
            return False
        return self.doubtful or self.calls >= CALLS or peak_memory() - self.small > GROWTH

    def _leave(self) -> None:
        """Lets a stream that was left in the middle clean up, but not for ever."""
        desk, self.open = self.open, None
        if desk is None:
            return
        signal.alarm(TIDYING)
        stream: Any = desk.stream
        with suppress(Exception):
            if self.loop is not None and hasattr(stream, "aclose"):
                self.loop.run(_close(stream))
        desk.close()
        flush_output()


async def _close(stream: AsyncGenerator[Any, None]) -> None:
    await stream.aclose()


def _rows(step: AnyStep, produced: Produced) -> Rows:
    """Gives the values of a body that returned as they are kept. What only the effect needs is put the same way."""
    if produced.items or produced.value is None or step.effect_body is None:
        return [(item.position, item.value) for item in produced.items]
    what = f"what step {step.name!r} returned to its effect"
    value = produced.value
    if step.kind == "over" and not step.options.size:
        return _encoded(step, [value], what)
    if step.kind == "over" or (isinstance(value, list) and value):
        return _encoded(step, value, what)
    return [(WHOLE, step.codec_of_whole.encode(value, lambda: what))]


def _rows_of_stream(step: AnyStep, pulled: Pulled) -> Rows:
    if step.options.keep or not pulled.values:
        return [(item.position, item.value) for item in pulled.items]
    return _encoded(step, pulled.values, f"what step {step.name!r} yielded to its effect")


def _encoded(step: AnyStep, values: Sequence[Any], what: str) -> Rows:
    def told(place: int) -> Callable[[], str]:
        return lambda: f"{what}, element {place},"

    encode = step.codec_of_item.encode
    return [(place, encode(value, told(place))) for place, value in enumerate(values)]
