"""The process pool, in the worker: decides which child runs which call, and what its result means.

Children come from the pool and return to it. A child with an open stream belongs to its document until the stream ends:
the document's BodyCaller has it as its `stream`, and it exits when that is closed or garbage-collected.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.core.errors import BodyCrashed, BodyLost, DefinitionError, RetryLater
from holdfast.core.model import Failure
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.engine.body_calls import BodyCaller
from holdfast.engine.crash_evidence import OWN_SIGNALS, OomWatch
from holdfast.engine.executor_requests import Call, CountKept, MeasureExtent, Pulled, PullStream
from holdfast.engine.processes.call_codec import decode_part, decode_result, encode_call, reply_to
from holdfast.engine.processes.fork_server import WAS_ALIVE
from holdfast.engine.processes.fork_server_client import ChildHandle, ForkServerClient, ForkServerGone
from holdfast.engine.processes.messages import (
    AskDecision,
    AskExtent,
    AskItems,
    CallResult,
    ChannelClosed,
    ErrorResult,
    InvalidMessage,
    Message,
    Question,
    RunCall,
    StreamPart,
    StreamResult,
    ValueResult,
    VerifyResult,
)
from holdfast.engine.processes.resource_limits import can_limit_memory
from holdfast.engine.stream_collector import commits_by_time

MAX_OPEN_STREAMS = 64
"""Maximum number of streams that stay open at the same time. Others start again at their cursor when they go on."""
OUT_OF_MEMORY = "was killed by the system, because memory ran out; memory= sets a limit before that"
CHECK_INTERVAL = 0.05
"""Seconds between two checks whether a stream has to stop at its next item."""


class ProcessPool:
    """Run bodies in children. A child runs one call at a time."""

    def __init__(self, pipeline: Pipeline, oom: OomWatch | None = None) -> None:
        _refuse_without_fork(pipeline)
        self._pipeline = pipeline
        self._oom = oom or OomWatch()
        self._stop = mmap.mmap(-1, 1)  # one byte that the children see too
        self._fork_server = ForkServerClient(pipeline, self._is_stopping)
        self._replacing = threading.Lock()
        self._closed = False
        self._idle: deque[ChildHandle] = deque()
        self._streaming: dict[ChildHandle, None] = {}  # children with an open stream; a dict is an ordered set
        self._calls: dict[int, _PoolCall] = {}  # by the identity of the call
        self._lock = threading.Lock()

    def run(self, bodies: BodyCaller, call: Call, *, on_part: Callable[[Pulled], None] | None = None) -> Any:
        """Run a call in a child. Return or raise what `bodies.run` would.

        `on_part` gets what a stream with a time in `commit_every` has yielded, while its body computes the next item.
        """
        if isinstance(call, (MeasureExtent, CountKept)):
            return bodies.run(call)
        step = bodies.pipeline[call.step]
        in_parts = on_part is not None and isinstance(call, PullStream) and commits_by_time(step)
        message = encode_call(bodies, call, step, in_parts=in_parts)
        with self._registered(call) as running:
            running.on_part = on_part if in_parts else None
            child = self._child_for(bodies, call)
            result = self._run_in(child, running, bodies, step, message)
            self._put_back(running, child, bodies, result)
        return decode_result(step, result)

    def kill(self, call: Call) -> bool:
        """Kill the child that runs this call, so that the call raises. Return True if there was one."""
        with self._lock:
            running = self._calls.get(id(call))
            if running is not None:
                self._kill(running)
        return running is not None

    def _kill(self, running: _PoolCall) -> None:
        running.killed = True
        if running.child is not None:
            running.child.kill()

    def close(self) -> None:
        """End all children: idle ones exit, open streams run their clean-up code, busy ones are killed."""
        with self._replacing:
            self._closed = True
        with self._lock:
            for running in self._calls.values():
                self._kill(running)
        while self._idle:
            self._idle.pop().close()
        while self._streaming:
            self._streaming.popitem()[0].close()
        self._fork_server.close()

    # a call

    def _run_in(
        self, child: ChildHandle, running: _PoolCall, bodies: BodyCaller, step: AnyStep, message: RunCall
    ) -> CallResult:
        try:
            with self._lock:
                running.child = child
            if running.killed:  # before the call had a child
                child.kill()
            child.channel.send(message)
            while True:
                self._wait(child, bodies)
                received = child.channel.receive()
                if isinstance(received, (ValueResult, StreamResult, VerifyResult, ErrorResult)):
                    return received
                if isinstance(received, StreamPart) and running.on_part is not None:
                    running.on_part(decode_part(step, received))
                else:
                    child.channel.send(reply_to(bodies, _question(received)))
        except InvalidMessage as error:
            child.kill()
            child.close()
            raise BodyCrashed(
                f"step {step.name!r} of {bodies.document.key!r}: its process sent an invalid message; {error}"
            ) from None
        except ChannelClosed:
            end = self._end_of(child, bodies, step)
            child.close()
            raise end from None
        except BaseException:  # re-raised; the child must not wait for a reply
            child.kill()
            child.close()
            raise

    def _wait(self, child: ChildHandle, bodies: BodyCaller) -> None:
        while not child.channel.wait(CHECK_INTERVAL):
            if bodies.lost:
                child.kill()  # another worker has the document, so the result is of no use
                raise ChannelClosed
            if bodies.stopping():
                self._stop[0] = 1

    def _is_stopping(self) -> bool:
        return self._stop[0] != 0

    def _end_of(self, child: ChildHandle, bodies: BodyCaller, step: AnyStep) -> BodyCrashed | BodyLost:
        """Return what the end of a child means: a crash of the body, or a kill from outside."""
        exit_code = child.exit_code()
        out_of_memory = exit_code in (-signal.SIGKILL, None) and self._oom.killed_recently()
        is_crash = out_of_memory or (exit_code is not None and (exit_code >= 0 or -exit_code in OWN_SIGNALS))
        kind = BodyCrashed if is_crash else BodyLost
        ended = OUT_OF_MEMORY if out_of_memory else _describe_exit(exit_code)
        error = kind(f"step {step.name!r} of {bodies.document.key!r}: its process {ended}")
        error.remote_failure = Failure(kind.__name__, str(error), child.crash_traceback())  # type: ignore[union-attr]
        return error

    @contextmanager
    def _registered(self, call: Call) -> Iterator[_PoolCall]:
        running = _PoolCall()
        with self._lock:
            self._calls[id(call)] = running
        try:
            yield running
        finally:
            with self._lock:
                del self._calls[id(call)]

    # children

    def _child_for(self, bodies: BodyCaller, call: Call) -> ChildHandle:
        if isinstance(call, PullStream) and isinstance(bodies.stream, OpenStream):
            stream, bodies.stream = bodies.stream, None
            if stream.detach():
                return stream.child
        while (child := self._idle_child()) is not None:
            if not child.has_exited():
                return child
            child.close()
        return self._fork()

    def _idle_child(self) -> ChildHandle | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _fork(self) -> ChildHandle:
        server = self._fork_server
        try:
            return server.fork()
        except ForkServerGone:
            self._replace(server)
        except OSError as error:
            raise RetryLater(f"no process could be started for it: {error}") from error
        return self._fork_server.fork()

    def _replace(self, gone: ForkServerClient) -> None:
        """Fork a new fork server. The worker has threads now, which is a risk, but without it no body could run."""
        with self._replacing:
            if self._closed:
                raise RetryLater("the worker has stopped")
            if self._fork_server is gone:
                gone.close()
                self._fork_server = ForkServerClient(self._pipeline, self._is_stopping)

    def _put_back(self, running: _PoolCall, child: ChildHandle, bodies: BodyCaller, result: CallResult) -> None:
        with self._lock:
            running.child = None
        if running.killed or result.last:
            child.close()
        elif isinstance(result, StreamResult) and not result.exhausted and result.error is None:
            self._keep_open(child, bodies)
        else:
            self._idle.append(child)

    def _keep_open(self, child: ChildHandle, bodies: BodyCaller) -> None:
        if len(self._streaming) >= MAX_OPEN_STREAMS:
            # documents go on in turn, so the one that has just run goes on last
            self._streaming.popitem()[0].close()
        self._streaming[child] = None
        bodies.stream = OpenStream(child, self._streaming)


def _question(message: Message) -> Question:
    if isinstance(message, (AskItems, AskExtent, AskDecision)):
        return message
    raise InvalidMessage(f"a child must not send {type(message).__name__}")


class _PoolCall:
    """A call that a child runs, or will run. Used under the lock of the pool."""

    __slots__ = ("child", "killed", "on_part")

    def __init__(self) -> None:
        self.child: ChildHandle | None = None
        self.killed = False
        self.on_part: Callable[[Pulled], None] | None = None  # used only by the thread that runs the call


class OpenStream:
    """A stream that is open in a child. When it is closed or garbage-collected, the child exits.

    It uses no lock, because any thread may garbage-collect it at any moment: a dict removes each child only once.
    """

    __slots__ = ("_streaming", "child")

    def __init__(self, child: ChildHandle, streaming: dict[ChildHandle, None]) -> None:
        self.child = child
        self._streaming = streaming

    def detach(self) -> bool:
        """Take the child away from this stream. Return True if the stream still had it."""
        return self._streaming.pop(self.child, self) is not self

    def close(self) -> None:
        """Have the child run the stream's clean-up code and exit."""
        if self.detach():
            self.child.close()

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
        warnings.warn(
            f"memory= of {', '.join(limited)} has no effect here: only Linux can limit the memory of a process",
            stacklevel=3,
        )


def _describe_exit(exit_code: int | None) -> str:
    if exit_code == WAS_ALIVE:
        return "closed its connection to the worker before the body was finished"
    if exit_code is None:
        return "died together with the fork server that had started it"
    if exit_code >= 0:
        return f"ended with exit code {exit_code} before the body was finished"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    outside = "" if -exit_code in OWN_SIGNALS else ", from outside: nothing says that the body caused it"
    return f"was killed by {name} ({signal.strsignal(-exit_code) or 'a real-time signal'}){outside}"
