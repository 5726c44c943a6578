"""What a body is told about earlier tries: `doc.attempt` and `doc.resumed`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

import holdfast
from holdfast.core.codec import decode_json, encode_json
from holdfast.engine.debug_run import debug_document
from tests.support.pipeline_harness import SOON, PipelineHarness

Where = Literal["thread", "process"]
Told = tuple[int, bool]
"""What a body was told: `doc.attempt` and `doc.resumed`."""


class Calls:
    """The calls of a body, in a file, because bodies also run in child processes."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, doc: holdfast.Document) -> int:
        """Write down what a body was told. Return how many calls there were."""
        with self._file.open("a") as file:
            file.write(encode_json([doc.attempt, doc.resumed]) + "\n")
        return len(self.told)

    @property
    def told(self) -> list[Told]:
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return [(attempt, resumed) for attempt, resumed in map(decode_json, lines)]


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path / "calls")


@pytest.mark.parametrize("where", ["thread", "process"])
def test_an_error_is_one_attempt_more_and_the_next_step_begins_at_one(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, calls: Calls, where: Where
) -> None:
    @pipeline.step(retry=SOON, runs_in=where)
    def first(doc: holdfast.Document) -> None:
        if calls.add(doc) < 3:
            raise OSError("not yet")

    @pipeline.step(runs_in=where)
    def second(doc: holdfast.Document) -> None:
        calls.add(doc)

    harness.submit("a")
    assert harness.drain().done == 1
    assert calls.told == [(1, False), (2, True), (3, True), (1, False)]


@pytest.mark.parametrize("where", ["thread", "process"])
def test_errors_are_counted_since_the_last_item_that_was_committed(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, calls: Calls, where: Where
) -> None:
    @pipeline.step(retry=SOON, commit_every=1, runs_in=where)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        times = calls.add(doc)
        if times == 2:
            raise OSError("at the same place again")
        if cursor == 0:
            yield 0
            raise OSError("after an item")
        yield 1

    harness.submit("a")
    assert harness.drain().done == 1
    assert calls.told == [(1, False), (2, True), (3, True)]


@pytest.mark.parametrize(
    "signal",
    [
        holdfast.RetryLater("throttled", after=0.001),
        holdfast.Pause("wait", until=datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_what_is_no_error_is_no_attempt(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, calls: Calls, signal: Exception
) -> None:
    @pipeline.step
    def ask(doc: holdfast.Document) -> None:
        if calls.add(doc) == 1:
            raise signal

    harness.submit("a")
    harness.drain()
    harness.store.wake(harness.store.declare(pipeline.shape()), who="holdfast")
    harness.drain()
    assert calls.told == [(1, False), (1, True)]


def test_a_crash_is_no_attempt(pipeline: holdfast.Pipeline, harness: PipelineHarness, calls: Calls) -> None:
    @pipeline.step(runs_in="process", retry=SOON)
    def parse(doc: holdfast.Document) -> None:
        if calls.add(doc) == 1:
            os.abort()

    harness.submit("a")
    assert harness.drain().done == 1
    assert calls.told == [(1, False), (1, True)]


def test_a_lost_worker_is_no_attempt(pipeline: holdfast.Pipeline, harness: PipelineHarness, calls: Calls) -> None:
    @pipeline.step(retry=SOON)
    def parse(doc: holdfast.Document) -> None:
        calls.add(doc)

    harness.submit("a")
    store, plan = harness.store, harness.store.declare(pipeline.shape())
    lost = store.register_worker(name="lost", host="elsewhere", pid=1, born="", lease=timedelta(microseconds=1))
    assert len(store.claim(plan, lost, limit=1)) == 1
    assert harness.drain().done == 1
    assert calls.told == [(1, True)]


@pytest.mark.parametrize("reason", ["SIGINT", "SIGTERM"])
def test_a_stopped_worker_is_no_attempt(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, calls: Calls, reason: str
) -> None:
    budget = holdfast.Budget()

    @pipeline.step(commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        if calls.add(doc) == 1:
            budget.stop(reason)
            yield 0

    @pipeline.step
    def count(doc: holdfast.Document) -> None:
        calls.add(doc)

    harness.submit("a")
    harness.drain(budget=budget)
    assert harness.drain().done == 1
    assert calls.told == [(1, False), (1, True), (1, False)]


def test_the_step_after_a_gate_is_not_resumed(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, calls: Calls
) -> None:
    @pipeline.step
    def draft(doc: holdfast.Document) -> None:
        calls.add(doc)

    pipeline.gate("review")

    @pipeline.step
    def publish(doc: holdfast.Document) -> None:
        calls.add(doc)

    harness.submit("a")
    assert harness.drain().paused == 1
    harness.store.resume(
        harness.store.declare(pipeline.shape()), [harness.document().id], who="ada", reason="reads well"
    )
    assert harness.drain().done == 1
    assert calls.told == [(1, False), (1, False)]


def change(harness: PipelineHarness) -> None:
    holdfast.submit(harness.pipeline, harness.store, batch="b", documents=[("a", {"name": "changed"})])


def rewind(harness: PipelineHarness) -> None:
    plan = harness.store.declare(harness.pipeline.shape())
    harness.store.rewind_to(plan, [harness.document().id], to="pages", who="ada", reason="again")


@pytest.mark.parametrize("begin_again", [change, rewind])
def test_a_new_generation_is_not_resumed(
    pipeline: holdfast.Pipeline,
    harness: PipelineHarness,
    calls: Calls,
    begin_again: Callable[[PipelineHarness], None],
) -> None:
    @pipeline.step(retry=SOON, commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        calls.add(doc)
        yield 0
        raise holdfast.Reject("no more")

    harness.submit("a")
    assert harness.drain().dead == 1
    begin_again(harness)
    assert harness.drain().dead == 1
    assert calls.told == [(1, False), (1, False)]


def test_a_step_that_begins_again_because_its_cursor_expired_is_not_resumed(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, calls: Calls
) -> None:
    @pipeline.step(retry=SOON, commit_every=1, cursor_expires=timedelta(microseconds=1))
    def fetch(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        times = calls.add(doc)
        yield 0
        if times == 1:
            raise OSError("gone")

    harness.submit("a")
    assert harness.drain().done == 1
    assert calls.told == [(1, False), (1, False)]
    assert harness.verbs() == ["fail", "rewind"]


def test_a_document_that_is_debugged_says_so_too(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, calls: Calls
) -> None:
    @pipeline.step(retry=SOON)
    def parse(doc: holdfast.Document) -> None:
        if calls.add(doc) == 1:
            raise OSError("not yet")

    harness.submit("a")
    for _ in range(2):
        debug_document(pipeline, harness.store, harness.document().id, who="ann")
    assert harness.document().state == "done"
    assert calls.told == [(1, False), (2, True)]
