"""Run the calls that the executor requests: bodies, extents and verifies. The only module that calls user code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import suppress
from contextvars import Context
from time import monotonic
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct, ValidationError

from holdfast.core.document import UNREADABLE, Document, damaged_item
from holdfast.core.errors import BodyError, WrongLength
from holdfast.core.model import WHOLE, Item
from holdfast.core.pipeline import Pipeline
from holdfast.core.step import AnyStep
from holdfast.core.stream_transactions import CURRENT_STREAM
from holdfast.engine.executor_requests import (
    NOTHING_THERE,
    Call,
    CountKept,
    MeasureExtent,
    Produced,
    Pulled,
    PullStream,
    RunValue,
    RunWindow,
)
from holdfast.engine.stream_collector import Collector, TimedCollector, commits_by_time


@runtime_checkable
class Closable(Protocol):
    """A stream that can be closed before its end: a generator, or a stream that is open in a child process."""

    def close(self) -> None:
        """Run the stream's clean-up code."""


class BodyCaller(Struct, eq=False):
    """Call the bodies of one document, and keep the stream that is open for it.

    The thread that runs a call uses `stream` and `context`, and sets `collector`; a document has at most one PullStream
    call at a time. Any thread may read `collector` and `lost`. The scheduler sets `lost`, under its lock.
    """

    pipeline: Pipeline
    document: Document
    stopping: Callable[[], bool]
    stream: Generator[Any, None, None] | AsyncGenerator[Any, None] | Closable | None = None
    context: Context | None = None
    lost: bool = False  # the claim is lost, or a move was refused, so a running stream stops at its next item
    collector: TimedCollector | None = None
    part_at: float = 0.0
    """When a part of what a stream yielded was taken last. A timeout of a running call is counted from there."""

    def run(self, call: Call) -> Any:
        """Run a call whose body is a plain function."""
        step = self.pipeline[call.step]
        if isinstance(call, RunValue):
            return produced(step, step.body(self.document))
        if isinstance(call, PullStream):
            return self.context_of_stream().run(self._pull, step, call)
        if isinstance(call, RunWindow):
            positions, values = self.window(step, call.span)
            return produced_over(step, positions, step.body(self.document, values)) if positions else NOTHING_THERE
        if isinstance(call, MeasureExtent):
            return self._measure(step)
        if isinstance(call, CountKept):
            reader: Any = self.document.reader  # of a worker: no child is asked to count
            return reader.count_kept()
        assert step.verify_body is not None
        return bool(step.verify_body(self.document))

    async def run_async(self, call: Call) -> Any:
        """Run a call whose body is async."""
        step = self.pipeline[call.step]
        match call:
            case RunValue():
                return produced(step, await step.body(self.document))
            case PullStream():
                return await self._pull_async(step, call)
            case RunWindow(span=span):
                positions, values = self.window(step, span)
                return (
                    produced_over(step, positions, await step.body(self.document, values))
                    if positions
                    else NOTHING_THERE
                )
            case _:
                raise AssertionError(f"{call} is not a call of an async body")

    def window(self, step: AnyStep, span: tuple[int, int]) -> tuple[list[int], Any]:
        """Return the positions of a window's items, and the value that the body gets."""
        source = self.pipeline[step.options.over or ""]
        kept = self.document.reader.read(source.name, *span)
        values = []
        for position, value in kept:
            try:
                values.append(source.codec_of_item.decode(value))
            except ValidationError:
                raise
            except UNREADABLE as error:
                raise damaged_item(self.document, source.name, position, error) from error
        positions = [position for position, _ in kept]
        return positions, values if step.options.size or not values else values[0]

    def _measure(self, step: AnyStep) -> int:
        reader = self.document.reader
        extent = reader.next_position(step.name)
        whole = () if extent else reader.read(step.name, WHOLE, WHOLE + 1)
        if whole and whole[0][1] != "[]":  # an empty list is kept as one value, to distinguish it from no result
            raise BodyError(f"step {step.name!r} kept one value, not a list, so there are no items to process")
        return extent

    def context_of_stream(self) -> Context:
        """Return the context variables of the stream. They stay the same whichever thread pulls next."""
        if self.stream is None or self.context is None:
            self.context = Context()
        return self.context

    def take_part(self, call: Call, hand_over: Callable[[Pulled], object]) -> None:
        """Hand over what a running stream has yielded, if it is time to commit that. Any thread may call this."""
        collector = self.collector
        if collector is not None and collector.call is call and not self.lost and collector.take_part(hand_over):
            self.part_at = monotonic()

    def _collector(self, step: AnyStep, call: PullStream) -> Collector:
        if not commits_by_time(step):
            return Collector(step, call, self)
        self.collector = TimedCollector(step, call, self)
        return self.collector

    def _pull(self, step: AnyStep, call: PullStream) -> Pulled:
        collector = self._collector(step, call)
        if self.stream is None:
            self.stream = _open_stream(step, self.document, call.cursor)
        stream: Any = self.stream
        CURRENT_STREAM.set(collector)
        try:
            for yielded in stream:
                if collector.take(yielded):
                    if collector.may_go_on:
                        return collector.pulled()
                    break
        except Exception as error:  # noqa: BLE001 - user code; the items before the error are committed first
            self.stream = None
            return collector.pulled(error=error)
        self.stream = None
        in_transaction = collector.transactions > 0  # closing the stream ends the transaction
        with suppress(Exception):  # user code: an error in clean-up code changes nothing
            stream.close()
        if in_transaction:
            raise _yields_in_transaction(step)
        return collector.pulled(exhausted=True)

    async def _pull_async(self, step: AnyStep, call: PullStream) -> Pulled:
        collector = self._collector(step, call)
        if self.stream is None:
            self.stream = _open_stream(step, self.document, call.cursor)
        stream: Any = self.stream
        CURRENT_STREAM.set(collector)
        try:
            async for yielded in stream:
                if collector.take(yielded):
                    if collector.may_go_on:
                        return collector.pulled()
                    break
        except Exception as error:  # noqa: BLE001 - user code, as above
            self.stream = None
            return collector.pulled(error=error)
        self.stream = None
        in_transaction = collector.transactions > 0  # closing the stream ends the transaction
        with suppress(Exception):  # user code, as above
            await stream.aclose()
        if in_transaction:
            raise _yields_in_transaction(step)
        return collector.pulled(exhausted=True)

    def close(self) -> None:
        """Close a stream that has not ended, so that its clean-up code runs."""
        stream, self.stream = self.stream, None
        if stream is not None and isinstance(stream, Closable):
            with suppress(BaseException):  # an error in clean-up code changes nothing: its items are committed
                (self.context or Context()).run(stream.close)


def _open_stream(step: AnyStep, document: Document, cursor: Any) -> Any:
    return step.body(document) if cursor is None else step.body(document, cursor=cursor)


def _yields_in_transaction(step: AnyStep) -> BodyError:
    return BodyError(
        f"step {step.name!r} yields inside `with store.transaction()` or `with store.reading()`: nobody else could "
        "write until the stream goes on. Read the rows into a list first, or in slices, and yield outside of the "
        "block. The transaction was rolled back"
    )


def produced(step: AnyStep, value: Any) -> Produced:
    """Return the result of a value body as items: the elements of a list, or one value."""
    if value is None or not step.options.keep:
        return Produced((), value)
    if isinstance(value, list) and value:
        encode = step.codec_of_item.encode
        return Produced([Item(step.name, i, encode(one, _element(step, i))) for i, one in enumerate(value)], value)
    kept = step.codec_of_whole.encode(value, lambda: f"what step {step.name!r} returned")
    return Produced((Item(step.name, WHOLE, kept),), value)


def produced_over(step: AnyStep, positions: Sequence[int], result: Any) -> Produced:
    """Return the result of a body over items as items, at the positions of their source items."""
    if result is None and step.options.size:
        return Produced((), result)
    results = result if step.options.size else [result]
    if not isinstance(results, (list, tuple)) or len(results) != len(positions):
        got = f"{len(results)}" if isinstance(results, (list, tuple)) else f"a {type(results).__name__}"
        raise WrongLength(
            f"step {step.name!r} was given {len(positions)} items and returned {got}. Return a list with one result "
            "for each item, in their order, or None when only its effect matters"
        )
    if not step.options.keep:
        return Produced((), result)
    encode = step.codec_of_item.encode
    return Produced(
        [
            Item(step.name, position, encode(one, _result(step, position)))
            for position, one in zip(positions, results, strict=True)
        ],
        result,
    )


def _element(step: AnyStep, position: int) -> Callable[[], str]:
    return lambda: f"what step {step.name!r} returned, element {position},"


def _result(step: AnyStep, position: int) -> Callable[[], str]:
    return lambda: f"the result of step {step.name!r} for item {position}"
