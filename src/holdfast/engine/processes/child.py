"""The child: runs bodies for a worker, one call at a time, until the worker closes the channel or it has to exit."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from holdfast.core import forked_copy
from holdfast.core.codec import Kept
from holdfast.core.document import Document
from holdfast.core.errors import BodyError
from holdfast.core.forked_copy import end_forked_copy
from holdfast.core.model import WHOLE, Decision
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.engine.body_calls import BodyCaller
from holdfast.engine.executor_requests import Call, Produced, Pulled, PullStream, RunValue, RunVerify, RunWindow
from holdfast.engine.processes.messages import (
    AskDecision,
    AskExtent,
    AskItems,
    CallResult,
    ChannelClosed,
    ChildDocument,
    DecisionReply,
    ErrorResult,
    ExtentReply,
    ItemsReply,
    MessageChannel,
    Question,
    Rows,
    RunCall,
    StreamResult,
    ValueResult,
    VerifyResult,
)
from holdfast.engine.processes.part_sender import PartSender, encoded_rows, rows_of_stream
from holdfast.engine.processes.remote_errors import RemoteError, decode_error, encode_error
from holdfast.engine.processes.resource_limits import (
    can_limit_memory,
    flush_output,
    limited_memory,
    memory_limit,
    peak_memory,
)

if TYPE_CHECKING:
    import asyncio

MAX_CALLS = 500
"""A child exits after this many calls, so that memory leaks of libraries do not add up."""
MAX_GROWTH = 256 * 1024 * 1024
"""A child exits when its memory has grown by this many bytes."""
CLEANUP_SECONDS = 5
"""Maximum number of seconds for the clean-up code of a stream that did not reach its end."""

_calls: dict[str, msgspec.json.Decoder[Any]] = {
    kind.__name__: msgspec.json.Decoder(kind) for kind in (RunValue, PullStream, RunWindow, RunVerify)
}
_document = msgspec.json.Decoder(ChildDocument)
_decision = msgspec.json.Decoder(Decision)
_json = msgspec.json.Encoder().encode


def preload(pipeline: Pipeline) -> None:
    """Import what only some pipelines need before the fork, so that no child has to."""
    if any(step.is_async and step.options.runs_in == "process" for step in pipeline.steps):
        import_module("asyncio")


class RemoteReader:
    """Read what earlier steps kept by asking the worker, which has the store."""

    def __init__(self, channel: MessageChannel) -> None:
        self._channel = channel
        self._pid = os.getpid()
        self._lock = threading.Lock()  # a body may read from its own threads
        self._known: dict[tuple[str, int, int], Rows] = {}

    def add(self, step: str, start: int, stop: int, rows: Rows) -> None:
        """Add items that the worker has read beforehand."""
        self._known[step, start, stop] = rows

    def next_position(self, step: str) -> int:
        reply = self._ask(AskExtent(step))
        assert isinstance(reply, ExtentReply)
        return reply.extent

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:
        known = self._known.get((step, start, stop))
        if known is not None:
            return known
        reply = self._ask(AskItems(step, start, stop))
        assert isinstance(reply, ItemsReply)
        return reply.rows

    def decision(self, step: str) -> Decision | None:
        reply = self._ask(AskDecision(step))
        assert isinstance(reply, DecisionReply)
        return None if reply.decision is None else _decision.decode(reply.decision)

    def _ask(self, question: Question) -> ItemsReply | ExtentReply | DecisionReply:
        if os.getpid() != self._pid:
            raise BodyError(
                "a document can only be read in the process in which its body was called; read it there, and pass the "
                "values to the processes that the body starts"
            )
        with self._lock:
            self._channel.send(question)
            reply = self._channel.receive()
        if isinstance(reply, ErrorResult):
            raise decode_error(reply.error)
        assert isinstance(reply, (ItemsReply, ExtentReply, DecisionReply))
        return reply


class Child:
    """A process that runs bodies: its open stream, its event loop for async bodies, and its age."""

    def __init__(self, channel: MessageChannel, pipeline: Pipeline, stopping: Callable[[], bool]) -> None:
        self.channel = channel
        self.pipeline = pipeline
        self.stopping = stopping
        self.open: BodyCaller | None = None
        self.memory_limit: int | None = None
        self.loop: asyncio.Runner | None = None
        self.parts: PartSender | None = None
        self.calls = 0
        self.first_memory = peak_memory()
        self.must_exit = False

    def run(self) -> None:
        """Run calls until the worker closes the channel, or this child is old."""
        last = False
        while not last:
            try:
                message = self.channel.receive()
            except ChannelClosed:
                break
            assert isinstance(message, RunCall)
            result = self.run_call(message)
            flush_output()
            with suppress(ChannelClosed):
                self.channel.send(result)
            last = result.last
        self._close_stream()

    def run_call(self, message: RunCall) -> CallResult:
        """Run one call. Return its result or its error."""
        call: Call = _calls[message.kind].decode(message.call)
        step = self.pipeline[call.step]
        forks, raised = forked_copy.count, None
        try:
            if message.in_parts and self.parts is None:
                self.parts = PartSender(self.channel)  # before the memory is limited: a thread needs some
            bodies = self._body_caller(message, call, step)
            sending = self.parts.sending(bodies, call, step) if message.in_parts and self.parts else nullcontext()
            with limited_memory(self.memory_limit), sending:
                value = self._run(bodies, call, step)
            self.open = bodies if bodies.stream is not None else None
            result = self._result(step, value)
        except BaseException as error:  # noqa: BLE001 - user code: the worker gets any error, even that of sys.exit()
            self.open = None
            self.must_exit = self.must_exit or not issubclass(type(error), Exception)
            result, raised = ErrorResult(self._encode_error(step, error)), error
        if forked_copy.count != forks:  # only the original may reply
            end_forked_copy(f"the body of step {step.name!r}", raised)
        self.calls += 1
        return replace(result, last=self._is_old())

    def _body_caller(self, message: RunCall, call: Call, step: AnyStep) -> BodyCaller:
        if self.open is not None and isinstance(call, PullStream):
            return self.open
        info = _document.decode(message.document)
        reader = RemoteReader(self.channel)
        if isinstance(call, RunWindow):
            reader.add(step.options.over or "", *call.span, message.items)
        document = Document(
            pipeline=self.pipeline.name,
            batch=info.batch,
            key=info.key,
            payload=info.payload,
            fingerprint=info.fingerprint,
            generation=info.generation,
            step=info.step,
            id=info.id,
            attempt=info.attempt,
            resumed=info.resumed,
            reader=reader,
        )
        allowed = step.options.memory
        self.memory_limit = memory_limit(allowed) if allowed is not None and can_limit_memory() else None
        return BodyCaller(self.pipeline, document, self.stopping)

    def _run(self, bodies: BodyCaller, call: Call, step: AnyStep) -> Any:
        if not step.is_async or isinstance(call, RunVerify):
            return bodies.run(call)
        if self.loop is None:
            import asyncio

            self.loop = asyncio.Runner()  # one for all calls, so that a client made in one works in the next
        return self.loop.run(bodies.run_async(call))

    def _result(self, step: AnyStep, value: Any) -> CallResult:
        match value:
            case Produced():
                return ValueResult(_rows(step, value), last=False)
            case Pulled(_, _, cursor, position, exhausted, error, own, total):
                remote = None if error is None else self._encode_error(step, error)
                rows = rows_of_stream(step, value)
                return StreamResult(
                    rows, _json(cursor), position, exhausted, remote, last=False, own_cursor=own, total=total
                )
            case _:
                return VerifyResult(bool(value), last=False)

    def _encode_error(self, step: AnyStep, error: BaseException) -> RemoteError:
        remote = encode_error(error)
        if issubclass(type(error), MemoryError) and self.memory_limit is not None:
            self.must_exit = True
            message = f"step {step.name!r} wanted more than the {step.options.memory:,} bytes that its memory= allows"
            remote = replace(remote, failure=replace(remote.failure, message=message))
        return remote

    def _is_old(self) -> bool:
        if self.open is not None:
            return False
        return self.must_exit or self.calls >= MAX_CALLS or peak_memory() - self.first_memory > MAX_GROWTH

    def _close_stream(self) -> None:
        """Run the clean-up code of a stream that did not reach its end. An alarm ends this process if it hangs."""
        bodies, self.open = self.open, None
        if bodies is None:
            return
        signal.alarm(CLEANUP_SECONDS)
        stream: Any = bodies.stream
        with suppress(Exception):  # user code: this process exits next, so no error of it matters
            if self.loop is not None and hasattr(stream, "aclose"):
                self.loop.run(_close(stream))
        bodies.close()
        flush_output()


async def _close(stream: AsyncGenerator[Any, None]) -> None:
    await stream.aclose()


def _rows(step: AnyStep, produced: Produced) -> Rows:
    """Return the values of a body that returned, as they are kept. Values for the effect alone are encoded too."""
    if produced.items or produced.value is None or step.effect_body is None:
        return [(item.position, item.value) for item in produced.items]
    what = f"what step {step.name!r} returned to its effect"
    value = produced.value
    if step.kind == "over" and not step.options.size:
        return encoded_rows(step, [value], what)
    if step.kind == "over" or (isinstance(value, list) and value):
        return encoded_rows(step, value, what)
    return [(WHOLE, step.codec_of_whole.encode(value, lambda: what))]
