"""Debug runs: one document in the calling thread, committed as by a worker."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from bdb import BdbQuit
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from types import TracebackType
from typing import Any

import pytest

import holdfast
from holdfast.core.model import DocumentStatus
from holdfast.engine.debug_run import debug_document
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import PipelineHarness


def alone(harness: PipelineHarness, key: str = "a", **more: Any) -> DocumentStatus:
    harness.store.declare(harness.pipeline.shape())
    return debug_document(harness.pipeline, harness.store, harness.document(key).id, who="ann", **more)


def three_shapes(pipeline: holdfast.Pipeline, where: list[Any]) -> None:
    @pipeline.step(commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 4):
            where.append(threading.current_thread())
            yield number

    @pipeline.step(runs_in="process")
    def pid(doc: holdfast.Document) -> int:
        return os.getpid()

    @pipeline.step(over=pages, size=2, parallel=2)
    async def double(doc: holdfast.Document, numbers: list[int]) -> list[int]:
        await asyncio.sleep(0)
        where.append(threading.current_thread())
        return [2 * number for number in numbers]

    @pipeline.step
    async def late(doc: holdfast.Document, cursor: int = 0) -> AsyncIterator[int]:
        for number in range(cursor, 3):
            await asyncio.sleep(0)
            where.append(threading.current_thread())
            yield number

    @pipeline.step(over=pages, retry=holdfast.Retry(attempts=1), failure_rate=0.5)
    def picky(doc: holdfast.Document, number: int) -> int:
        if number == 1:
            raise ValueError("one")
        return number


def test_all_shapes_of_bodies_run_in_the_calling_thread(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    where: list[Any] = []
    three_shapes(pipeline, where)
    harness.submit("a", "b")
    assert alone(harness).state == "done"
    assert set(where) == {threading.current_thread()}
    assert harness.kept("pid") == [os.getpid()]
    assert harness.document("b").state == "waiting"


def test_it_keeps_what_a_worker_keeps(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    three_shapes(pipeline, [])
    harness.submit("a", "b")
    alone(harness)
    harness.drain()
    for step in ("pages", "double", "late", "picky"):
        assert harness.kept(step, "a") == harness.kept(step, "b")
    asides = [[(s, one.position) for s, one in harness.store.failed_items(harness.document(key).id)] for key in "ab"]
    assert asides[0] == asides[1] == [("picky", 1)]


def test_effects_are_committed_with_the_checkpoint(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    step = pipeline.step(name="write")(lambda doc: doc.key)

    @step.effect
    def note(tx: holdfast.Tx, doc: holdfast.Document, value: str) -> None:
        tx.execute("insert into notes values (?)", (value,))

    with harness.store.transaction() as tx:
        tx.execute("create table notes (text)")
    harness.submit("a")
    alone(harness)
    with harness.store.transaction() as tx:
        assert tx.execute("select text from notes").fetchall() == [("a",)]


def test_a_breakpoint_stops_in_the_body(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: list[tuple[str, str, threading.Thread]] = []

    def hook() -> None:
        frame = sys._getframe(1)
        stops.append((frame.f_code.co_name, frame.f_locals["secret"], threading.current_thread()))

    @pipeline.step
    def body(doc: holdfast.Document) -> int:
        secret = doc.key
        breakpoint()  # noqa: T100
        return len(secret)

    monkeypatch.setattr(sys, "breakpointhook", hook)
    harness.submit("a")
    assert alone(harness).state == "done"
    assert stops == [("body", "a", threading.current_thread())]


def _names(trace: TracebackType | None) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(trace)]


@pytest.mark.parametrize("shape", ["value", "stream", "async"])
def test_the_traceback_is_the_bodys_own(pipeline: holdfast.Pipeline, harness: PipelineHarness, shape: str) -> None:
    def deep() -> None:
        raise ValueError("not a page")

    def value(doc: holdfast.Document) -> None:
        deep()

    def stream(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield 1
        deep()

    async def coroutine(doc: holdfast.Document) -> None:
        deep()

    bodies = {"value": value, "stream": stream, "async": coroutine}
    pipeline.step(name="body", retry=holdfast.Retry(attempts=1))(bodies[shape])
    harness.submit("a")
    seen: list[list[str]] = []
    here = alone(harness, on_error=lambda error, trace: seen.append(_names(trace)))
    assert here.state == "dead"
    assert here.reason == "ValueError: not a page"
    assert seen == [[bodies[shape].__name__, "deep"]]
    assert harness.kept("body") == ([1] if shape == "stream" else [])


def test_what_a_body_says_by_raising_is_no_error(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def busy(doc: holdfast.Document) -> None:
        raise holdfast.RetryLater("busy", after=60)

    harness.submit("a")
    seen: list[BaseException] = []
    here = alone(harness, on_error=lambda error, trace: seen.append(error))
    assert (here.state, here.attempts, seen) == ("waiting", 0, [])
    assert alone(harness).state == "waiting", "it is taken though it is not due"


@pytest.mark.parametrize("quits", [BdbQuit, KeyboardInterrupt])
@pytest.mark.parametrize("shape", ["value", "stream"])
def test_leaving_the_debugger_gives_the_document_back_and_costs_nothing(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, quits: type[BaseException], shape: str
) -> None:
    def value(doc: holdfast.Document) -> None:
        raise quits

    def stream(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield 1
        raise quits

    pipeline.step(name="body", commit_every=1)(stream) if shape == "stream" else pipeline.step(name="body")(value)
    harness.submit("a")
    if quits is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            alone(harness)
        here = harness.document()
    else:
        here = alone(harness)
    assert (here.state, here.attempts, here.crashes, here.holder) == ("waiting", 0, 0, "")
    assert harness.verbs() == ["release"]


def test_a_gate_parks_it(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    pipeline.gate("review", within=timedelta(days=3), otherwise="reject")
    harness.submit("a")
    here = alone(harness)
    assert (here.state, here.checkpoint.step) == ("paused", "review")
    assert here.due_at is not None, "nobody has for ever to decide"


def test_work_that_is_gone_is_done_anew(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    calls: list[str] = []
    pipeline.step(name="one")(lambda doc: calls.append("one")).verify(lambda doc: calls.count("one") > 1)

    @pipeline.step
    def two(doc: holdfast.Document) -> None:
        calls.append("two")
        if calls.count("two") == 1:
            raise holdfast.RetryLater("busy", after=0.001)

    harness.submit("a")
    alone(harness)
    assert alone(harness).state == "done"
    assert calls == ["one", "two", "one", "two"]
    assert harness.document().checkpoint.generation == 1


def test_one_that_was_cancelled_meanwhile_is_lost_and_nothing_is_written(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, store: Store
) -> None:
    @pipeline.step
    def slow(doc: holdfast.Document) -> int:
        cancel(store, harness.document().id)
        return 1

    harness.submit("a")
    with pytest.raises(holdfast.LeaseLost, match="taken over, changed or cancelled"):
        alone(harness)
    assert harness.document().state == "cancelled"
    assert harness.kept("slow") == []


def cancel(store: Store, document_id: int) -> None:
    store.cancel([document_id], who="bob", reason="no")


def test_only_a_document_that_waits_is_taken(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="one")(lambda doc: 1)
    harness.submit("a")
    alone(harness)
    with pytest.raises(holdfast.HoldfastError, match="'a' is done: rewind it"):
        alone(harness)


def test_a_full_step_is_not_entered(pipeline: holdfast.Pipeline, harness: PipelineHarness, store: Store) -> None:
    pipeline.step(name="one", limit=1)(lambda doc: 1)
    harness.submit("b", "a")
    plan = store.declare(pipeline.shape())
    other = store.register_worker(name="other", host="there", pid=1, born="x", lease=timedelta(seconds=60))
    claims = store.claim(plan, other, limit=1)
    assert store.admit(plan, "one", claims, limit=1) == [True]
    with pytest.raises(holdfast.HoldfastError, match="step 'one' is full"):
        alone(harness)
    assert (harness.document().state, harness.document().attempts) == ("waiting", 0)


def test_a_document_of_a_worker_that_is_gone_is_taken_over(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, store: Store
) -> None:
    from holdfast.process_identity import this_host

    pipeline.step(name="one")(lambda doc: 1)
    harness.submit("a")
    plan = store.declare(pipeline.shape())
    dead = store.register_worker(name="dead", host=this_host(), pid=2**22 + 1, born="x", lease=timedelta(seconds=60))
    store.claim(plan, dead, limit=1)
    assert alone(harness).state == "done"
