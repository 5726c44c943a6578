"""Streams with a time in `commit_every`: what they yielded is committed while the body computes its next item."""

from __future__ import annotations

import asyncio
import mmap
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import sleep
from typing import Any, Literal, cast

import pytest

import holdfast
from holdfast.core.step import CommitEvery
from holdfast.engine.debug_run import debug_document
from holdfast.stores.sqlite import SqliteStore
from tests.support.pipeline_harness import SOON, PipelineHarness
from tests.support.polling import wait_for

Doc = holdfast.Document
MOMENT = timedelta(milliseconds=20)
FOREVER = timedelta(hours=1)


class Gate:
    """Something that a body waits for, in a thread, in the event loop or in a child process."""

    def __init__(self) -> None:
        self._flags = mmap.mmap(-1, 2)  # children see it too

    def open(self) -> None:
        self._flags[0] = 1

    @property
    def is_reached(self) -> bool:
        return self._flags[1] != 0

    def wait(self) -> None:
        self._flags[1] = 1
        while not self._flags[0]:
            sleep(0.001)

    async def wait_async(self) -> None:
        self._flags[1] = 1
        while not self._flags[0]:
            await asyncio.sleep(0.001)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def watcher(harness: PipelineHarness) -> Iterator[PipelineHarness]:
    """The same pipeline and database, with connections of its own: a worker with children closes those of its store."""
    store = SqliteStore(cast("SqliteStore", harness.store).url)
    yield PipelineHarness(store, harness.pipeline)
    store.close()


Where = Literal["thread", "process", "loop", "loop of a process"]
WHERE: tuple[Where, ...] = ("thread", "process", "loop", "loop of a process")


def silent_stream(
    pipeline: holdfast.Pipeline,
    gate: Gate,
    *,
    where: Where = "thread",
    every: CommitEvery = MOMENT,
    **options: Any,
) -> holdfast.Step[Any, Any, Any, Any]:
    """Add a stream that yields three items and then nothing until the gate opens. Then it yields a fourth."""

    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 3)
        gate.wait()
        yield 3

    async def pages_async(doc: Doc, cursor: int = 0) -> AsyncIterator[int]:
        for number in range(cursor, 3):
            yield number
        await gate.wait_async()
        yield 3

    runs_in: Literal["thread", "process"] = "process" if "process" in where else "thread"
    body: Any = pages_async if "loop" in where else pages
    step: Any = pipeline.step(name="pages", commit_every=every, runs_in=runs_in, **options)(body)
    return step


@contextmanager
def draining(harness: PipelineHarness, gate: Gate, **options: Any) -> Iterator[list[holdfast.Report]]:
    """Drain in another thread. At the end of the block it has ended, and its report is in the list."""
    reports: list[holdfast.Report] = []
    worker = threading.Thread(target=lambda: reports.append(harness.drain(**options)))
    worker.start()
    try:
        yield reports
    except BaseException:
        gate.open()  # the worker must not outlive a test that failed
        raise
    finally:
        worker.join(60)
    assert reports


@pytest.mark.parametrize("every", [MOMENT, (100, MOMENT)], ids=["time", "both"])
@pytest.mark.parametrize("where", WHERE)
def test_items_are_kept_while_the_body_computes_the_next_one(
    pipeline: holdfast.Pipeline,
    harness: PipelineHarness,
    watcher: PipelineHarness,
    gate: Gate,
    where: Where,
    every: CommitEvery,
) -> None:
    silent_stream(pipeline, gate, where=where, every=every)
    harness.submit("a")
    with draining(harness, gate) as reports:
        wait_for(lambda: watcher.kept("pages") == [0, 1, 2])
        assert watcher.document().checkpoint.cursor == 3
        gate.open()
    assert reports[0].done == 1
    assert harness.kept("pages") == [0, 1, 2, 3]


@pytest.mark.parametrize("where", ["thread", "process"])
def test_the_number_counts_if_it_comes_first(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watcher: PipelineHarness, gate: Gate, where: Where
) -> None:
    silent_stream(pipeline, gate, where=where, every=(2, FOREVER))
    harness.submit("a")
    with draining(harness, gate):
        wait_for(lambda: gate.is_reached)
        assert watcher.kept("pages") == [0, 1]
        gate.open()
    assert harness.kept("pages") == [0, 1, 2, 3]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("keep", [True, False])
def test_an_effect_gets_each_item_once(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, gate: Gate, where: Where, keep: bool
) -> None:
    written: list[int] = []
    step = silent_stream(pipeline, gate, where=where, keep=keep)
    step.effect(lambda tx, doc, values: written.extend(values))
    harness.submit("a")
    with draining(harness, gate) as reports:
        wait_for(lambda: written == [0, 1, 2])
        gate.open()
    assert reports[0].done == 1
    assert written == [0, 1, 2, 3]


@pytest.mark.parametrize("where", WHERE)
def test_a_worker_that_stops_commits_what_a_silent_stream_has_yielded(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watcher: PipelineHarness, gate: Gate, where: Where
) -> None:
    silent_stream(pipeline, gate, where=where, every=FOREVER)
    harness.submit("a")
    budget = holdfast.Budget()
    with draining(harness, gate, budget=budget, grace=timedelta(seconds=30)):
        wait_for(lambda: gate.is_reached)
        assert watcher.kept("pages") == []
        budget.stop("SIGINT")
        wait_for(lambda: watcher.kept("pages") == [0, 1, 2])
        gate.open()
    here = harness.document()
    assert (here.state, here.checkpoint.cursor, here.attempts) == ("waiting", 4, 0)
    assert harness.drain().done == 1


def test_a_worker_that_stops_does_not_wait_longer_than_its_grace_for_a_silent_stream(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watcher: PipelineHarness, gate: Gate
) -> None:
    silent_stream(pipeline, gate)
    harness.submit("a")
    budget = holdfast.Budget()
    with draining(harness, gate, budget=budget, grace=timedelta(0)):
        wait_for(lambda: watcher.kept("pages") == [0, 1, 2])
        budget.stop("SIGTERM")
    here = harness.document()
    assert (here.state, here.checkpoint.cursor, here.interruptions) == ("waiting", 3, 0)
    gate.open()
    assert harness.drain().done == 1
    assert harness.kept("pages") == [0, 1, 2, 3]


@pytest.mark.parametrize("where", WHERE)
def test_a_document_that_was_taken_away_keeps_nothing_more(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watcher: PipelineHarness, gate: Gate, where: Where
) -> None:
    silent_stream(pipeline, gate, where=where, every=(100, timedelta(seconds=0.2)))
    harness.submit("a")
    with draining(harness, gate):
        wait_for(lambda: gate.is_reached)
        watcher.store.cancel([watcher.document().id], who="ada", reason="not wanted")
        gate.open()
    here = harness.document()
    assert (here.state, len(harness.kept("pages"))) == ("cancelled", here.checkpoint.cursor or 0)
    assert here.checkpoint.cursor in (None, 3)


@pytest.mark.parametrize("where", ["thread", "loop"])
def test_a_body_does_not_begin_again_before_it_has_ended(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watcher: PipelineHarness, gate: Gate, where: Where
) -> None:
    story: list[str] = []

    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        story.append(f"{doc.key} begins")
        try:
            yield 0
            if doc.key == "a":
                gate.wait()
            yield 1
        finally:
            story.append(f"{doc.key} ends")

    async def pages_async(doc: Doc, cursor: int = 0) -> AsyncIterator[int]:
        story.append(f"{doc.key} begins")
        try:
            yield 0
            if doc.key == "a":
                await gate.wait_async()
            yield 1
        finally:
            story.append(f"{doc.key} ends")

    step: Any = pipeline.step(name="pages", commit_every=MOMENT, retry=SOON)(pages_async if where == "loop" else pages)

    @step.effect
    def write(tx: holdfast.Tx, doc: Doc, values: list[int]) -> None:
        if doc.key == "a" and "a is refused" not in story:
            story.append("a is refused")
            raise OSError("the effect fails once")

    harness.submit("a")
    with draining(harness, gate) as reports:
        wait_for(lambda: "a is refused" in story)
        watcher.submit("b")
        wait_for(lambda: watcher.document("b").state == "done")  # by then, a would have been claimed again
        assert watcher.document("a").state == "running"
        gate.open()
    assert reports[0].done == 2
    assert story == ["a begins", "a is refused", "b begins", "b ends", "a ends", "a begins", "a ends"]
    assert harness.kept("pages") == [0, 1]
    assert harness.verbs() == ["fail"]


def test_a_child_whose_part_was_refused_is_ended(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, gate: Gate
) -> None:
    refused: list[int] = []
    step = silent_stream(pipeline, gate, where="process", retry=SOON)

    @step.effect
    def write(tx: holdfast.Tx, doc: Doc, values: list[int]) -> None:
        refused.append(len(values))
        raise holdfast.Reject("never")

    harness.submit("a")
    assert harness.drain().dead == 1
    assert "Reject: never" in harness.document().reason
    assert harness.document().crashes == harness.document().losses == 0
    assert refused in ([3], [3, 3])  # what is refused together with a claim is tried again alone


def test_an_error_after_a_part_is_an_error_after_progress(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watcher: PipelineHarness
) -> None:
    began: list[int] = []

    @pipeline.step(commit_every=MOMENT, retry=holdfast.Retry(attempts=2, base=timedelta(milliseconds=1)))
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        began.append(cursor)
        if len(began) < 4:
            yield cursor
            wait_for(lambda: watcher.document().checkpoint.cursor == cursor + 1)
            raise OSError("after it was kept")

    harness.submit("a")
    assert harness.drain().done == 1
    assert began == [0, 1, 2, 3]


@pytest.mark.parametrize("where", ["thread", "process"])
def test_a_stream_may_end_with_at_none_after_a_part(
    pipeline: holdfast.Pipeline,
    harness: PipelineHarness,
    watcher: PipelineHarness,
    gate: Gate,
    where: Literal["thread", "process"],
) -> None:
    @pipeline.step(commit_every=MOMENT, runs_in=where)
    def fetch(doc: Doc, cursor: str | None = None) -> Iterator[holdfast.At[str]]:
        yield holdfast.At("p2", "one")
        gate.wait()
        yield holdfast.At(None, "two")

    harness.submit("a")
    with draining(harness, gate) as reports:
        wait_for(lambda: watcher.kept("fetch") == ["one"])
        gate.open()
    assert reports[0].done == 1
    assert harness.kept("fetch") == ["one", "two"]


def test_a_value_for_the_effect_that_cannot_be_kept_fails_its_document(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, gate: Gate
) -> None:
    @pipeline.step(commit_every=MOMENT, runs_in="process", keep=False)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[object]:
        yield {1}
        gate.wait()
        yield 1

    written: list[object] = []
    pages.effect(lambda tx, doc, values: written.append(values))
    harness.submit("a")
    with draining(harness, gate) as reports:
        wait_for(lambda: gate.is_reached)
        gate.open()
    assert reports[0].dead == 1
    assert "CannotKeep" in harness.document().reason
    assert not written


def test_a_stream_under_a_memory_limit_is_committed_by_time_too(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, watcher: PipelineHarness, gate: Gate
) -> None:
    silent_stream(pipeline, gate, where="process", memory=64 * 1024 * 1024)
    harness.submit("a")
    with draining(harness, gate) as reports:
        wait_for(lambda: watcher.kept("pages") == [0, 1, 2])
        gate.open()
    assert reports[0].done == 1


@pytest.mark.parametrize("where", ["thread", "process"])
def test_many_quick_items_are_kept_in_order(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, where: Literal["thread", "process"]
) -> None:
    """Parts are taken at any moment, also while the body yields."""

    @pipeline.step(commit_every=timedelta(milliseconds=1), runs_in=where)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 2000):
            if number % 50 == 0:
                sleep(0.005)
            yield number

    harness.submit("a", "b", "c")
    assert harness.drain().done == 3
    for key in ("a", "b", "c"):
        assert harness.kept("pages", key) == list(range(2000))


def test_a_debugged_stream_is_committed_at_its_next_item(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(commit_every=timedelta(microseconds=1))
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 3):
            sleep(0.001)
            yield number

    harness.submit("a")
    debug_document(pipeline, harness.store, harness.document().id, who="ann")
    assert harness.document().state == "done"
    assert harness.kept("pages") == [0, 1, 2]
