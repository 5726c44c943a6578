"""The nursery: the worker's side of isolation. Which child does which call, and what its answer means.

Children are taken from a pool and go back to it. One with an open stream belongs to its document until the stream
ends: it is lodged at the document's desk, and leaves when the desk is closed or forgotten.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.core.errors import BodyCrashed, DefinitionError, RetryLater
from holdfast.core.model import Failure
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.engine.bodies import Desk
from holdfast.engine.calls import Call, MeasureExtent, PullStream
from holdfast.engine.isolation.cradle import Born, Cradle, Gone
from holdfast.engine.isolation.limits import can_limit_memory
from holdfast.engine.isolation.talk import (
    Answer,
    AskDecision,
    AskExtent,
    AskItems,
    Failed,
    Garbled,
    Gave,
    Hangup,
    Message,
    Question,
    Task,
    Verified,
    Yielded,
)
from holdfast.engine.isolation.translation import reply_to, result_of, task_of

BEDS = 64
"""So many streams stay open at once. Further ones begin again at their cursor when their turn comes."""
GLANCE = 0.05
"""Seconds between looks whether a stream has to stop at its next item."""


class Nursery:
    """Runs bodies in children, each in one that nobody else uses meanwhile."""

    def __init__(self, pipeline: Pipeline) -> None:
        _refuse_without_fork(pipeline)
        self._pipeline = pipeline
        self._stop = mmap.mmap(-1, 1)  # one byte that the children see too
        self._cradle = Cradle(pipeline, self._is_stopping)
        self._replacing = threading.Lock()
        self._closed = False
        self._idle: deque[Born] = deque()
        self._lodgers: dict[Born, None] = {}
        self._turns: dict[int, _Turn] = {}  # by the identity of their calls
        self._lock = threading.Lock()

    def run(self, desk: Desk, call: Call) -> Any:
        """Does a call as `desk.run` would, in a child."""
        if isinstance(call, MeasureExtent):
            return desk.run(call)
        step = desk.pipeline[call.step]
        task = task_of(desk, call, step)
        with self._turn(call) as turn:
            child = self._child_for(desk, call)
            answer = self._work(turn, child, desk, step, task)
            self._put_back(turn, child, desk, answer)
        return result_of(step, answer)

    def end(self, call: Call) -> bool:
        """Kills the child that works on this call. Answers whether there was one; the call raises."""
        with self._lock:
            turn = self._turns.get(id(call))
            if turn is not None:
                self._end(turn)
        return turn is not None

    def _end(self, turn: _Turn) -> None:
        turn.ended = True
        if turn.child is not None:
            turn.child.end()

    def close(self) -> None:
        """Ends all children: idle ones leave, open streams tidy up, the rest is killed."""
        with self._replacing:
            self._closed = True
        with self._lock:
            for turn in self._turns.values():
                self._end(turn)
        while self._idle:
            self._idle.pop().dismiss()
        while self._lodgers:
            self._lodgers.popitem()[0].dismiss()
        self._cradle.close()

    # a call

    def _work(self, turn: _Turn, child: Born, desk: Desk, step: AnyStep, task: Task) -> Answer:
        try:
            with self._lock:
                turn.child = child
            if turn.ended:  # while we were looking for a child
                child.end()
            child.talk.say(task)
            while True:
                self._await(child, desk)
                message = child.talk.hear()
                if isinstance(message, (Gave, Yielded, Verified, Failed)):
                    return message
                child.talk.say(reply_to(desk, _question(message)))
        except Garbled as nonsense:
            child.end()
            child.dismiss()
            raise BodyCrashed(
                f"step {step.name!r} of {desk.document.key!r}: its process went mad; {nonsense}"
            ) from None
        except Hangup:
            crash = self._crash(child, desk, step)
            child.dismiss()
            raise crash from None
        except BaseException:
            child.end()  # nobody listens to it any more
            child.dismiss()
            raise

    def _await(self, child: Born, desk: Desk) -> None:
        while not child.talk.wait(GLANCE):
            if desk.lost:
                child.end()  # somebody else has the document: nobody waits for what this one makes of it
                raise Hangup
            if desk.stopping():
                self._stop[0] = 1

    def _is_stopping(self) -> bool:
        return self._stop[0] != 0

    def _crash(self, child: Born, desk: Desk, step: AnyStep) -> BodyCrashed:
        crash = BodyCrashed(f"step {step.name!r} of {desk.document.key!r}: its process {_how(child.fate())}")
        crash.story = Failure("BodyCrashed", str(crash), child.last_words())  # type: ignore[attr-defined]
        return crash

    @contextmanager
    def _turn(self, call: Call) -> Iterator[_Turn]:
        turn = _Turn()
        with self._lock:
            self._turns[id(call)] = turn
        try:
            yield turn
        finally:
            with self._lock:
                del self._turns[id(call)]

    # children

    def _child_for(self, desk: Desk, call: Call) -> Born:
        if isinstance(call, PullStream) and isinstance(desk.stream, Lodging):
            lodging, desk.stream = desk.stream, None
            if lodging.give_up():
                return lodging.child
        while (child := self._rested()) is not None:
            if not child.is_gone():
                return child
            child.dismiss()
        return self._bear()

    def _rested(self) -> Born | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _bear(self) -> Born:
        cradle = self._cradle
        try:
            return cradle.bear()
        except Gone:
            self._replace(cradle)
        except OSError as error:
            raise RetryLater(f"no process could be started for it: {error}") from error
        return self._cradle.bear()

    def _replace(self, gone: Cradle) -> None:
        """Forks again, now with threads about: still better than a worker that can do nothing more."""
        with self._replacing:
            if self._closed:
                raise RetryLater("the worker has stopped")
            if self._cradle is gone:
                gone.close()
                self._cradle = Cradle(self._pipeline, self._is_stopping)

    def _put_back(self, turn: _Turn, child: Born, desk: Desk, answer: Answer) -> None:
        with self._lock:
            turn.child = None
        if turn.ended or answer.last:
            child.dismiss()
        elif isinstance(answer, Yielded) and not answer.exhausted and answer.error is None:
            self._lodge(child, desk)
        else:
            self._idle.append(child)

    def _lodge(self, child: Born, desk: Desk) -> None:
        if len(self._lodgers) >= BEDS:
            # documents take turns, so the one that has just been here is the one that comes back last
            self._lodgers.popitem()[0].dismiss()
        self._lodgers[child] = None
        desk.stream = Lodging(child, self._lodgers)


def _question(message: Message) -> Question:
    if isinstance(message, (AskItems, AskExtent, AskDecision)):
        return message
    raise Garbled(f"a child does not say {type(message).__name__}")


class _Turn:
    """One call that a child does for a desk."""

    __slots__ = ("child", "ended")

    def __init__(self) -> None:
        self.child: Born | None = None
        self.ended = False


class Lodging:
    """What a desk holds of a stream that is open in a child. Closed or forgotten, it lets the child leave.

    It takes no lock, for it may be forgotten at any moment and by any thread: a dict gives each child up only once.
    """

    __slots__ = ("_lodgers", "child")

    def __init__(self, child: Born, lodgers: dict[Born, None]) -> None:
        self.child = child
        self._lodgers = lodgers

    def give_up(self) -> bool:
        """Ends the lodging. Answers whether the child still was here."""
        return self._lodgers.pop(self.child, self) is not self

    def close(self) -> None:
        """Lets the child tidy up and leave."""
        if self.give_up():
            self.child.dismiss()

    __del__ = close


def _refuse_without_fork(pipeline: Pipeline) -> None:
    isolated = [step.name for step in pipeline.steps if step.options.runs_in == "process"]
    if not hasattr(os, "fork"):
        raise DefinitionError(
            f'{pipeline.name!r} has steps with runs_in="process" ({", ".join(isolated)}), which needs fork(), and this '
            'system has none; use runs_in="thread" here, or run the worker on Linux, macOS or WSL'
        )
    limited = [step.name for step in pipeline.steps if step.options.memory is not None]
    if limited and not can_limit_memory():
        warnings.warn(f"this system cannot hold {', '.join(limited)} to memory=; only Linux can", stacklevel=3)


def _how(fate: int | None) -> str:
    if fate is None:
        return "died together with the process that had started it"
    if fate >= 0:
        return f"left with exit code {fate} before the body had come to its end"
    try:
        name = signal.Signals(-fate).name
    except ValueError:
        name = f"signal {-fate}"
    hint = ", as the system does when memory runs out; memory= sets a limit before that" if name == "SIGKILL" else ""
    return f"was killed by {name} ({signal.strsignal(-fate) or 'a real-time signal'}){hint}"
