"""The store keeps how long bodies take, by step, so that the next run can estimate its time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from time import sleep
from typing import Any

import pytest

import holdfast
from holdfast.core.model import Checkpoint
from holdfast.core.moves import Move
from holdfast.engine.budget import Budget
from holdfast.engine.claimed_document import ClaimedDocument
from holdfast.engine.executor_requests import Returned, RunValue
from holdfast.engine.step_timings import StepTimings
from holdfast.observe.events import Committed, Event, StepsTimed
from tests.support.pipeline_harness import SOON, PipelineHarness


def test_a_drain_leaves_the_pace_of_its_steps_behind(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def quick(doc: holdfast.Document) -> None:
        return None

    @pipeline.step
    def slow(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 3):
            sleep(0.01)
            yield number

    harness.submit("a", "b")
    harness.drain()
    paces = harness.store.step_times("p")
    assert [paces[step][0] for step in ("quick", "slow")] == [2, 2]
    assert paces["slow"][1] >= 0.06 > paces["quick"][1]


def test_bodies_on_the_loop_and_in_windows_are_timed_too(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def numbers(doc: holdfast.Document) -> list[int]:
        return [1, 2, 3, 4]

    @pipeline.step(over=numbers, size=2)
    async def wait(doc: holdfast.Document, some: list[int]) -> list[int]:
        await asyncio.sleep(0.02)
        return some

    harness.submit("a")
    harness.drain()
    documents, seconds = harness.store.step_times("p")["wait"]
    assert documents == 1
    assert 0.04 <= seconds < 1.0


def test_the_time_of_a_body_that_fails_is_spent_as_well(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(retry=holdfast.Retry(attempts=1))
    def fail(doc: holdfast.Document) -> None:
        sleep(0.02)
        raise ValueError("no")

    harness.submit("a")
    harness.drain()
    documents, seconds = harness.store.step_times("p")["fail"]
    assert documents == 0
    assert seconds >= 0.02


def test_verifying_is_not_the_work_of_a_step(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    tried: list[str] = []

    @pipeline.step
    def keep(doc: holdfast.Document) -> int:
        return 1

    @keep.verify
    def kept(doc: holdfast.Document) -> bool:
        sleep(0.1)
        return True

    @pipeline.step(retry=SOON)
    def fail_once(doc: holdfast.Document) -> None:
        tried.append(doc.key)
        if len(tried) == 1:
            raise ValueError("no")

    harness.submit("a")
    assert harness.drain().done == 1
    assert harness.store.step_times("p")["keep"][1] < 0.1


def test_two_runs_add_up(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="work")(lambda doc: None)
    for key in ("a", "b"):
        harness.submit(key)
        harness.drain()
    assert harness.store.step_times("p")["work"][0] == 2


def test_listeners_hear_what_is_written_down(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    said: list[Event] = []
    pipeline.step(name="work")(lambda doc: None)
    harness.submit(*"abc")
    harness.drain(listeners=[said.append])
    timed = [event for event in said if isinstance(event, StepsTimed)]
    assert sum(event.times["work"][0] for event in timed) == 3
    assert sum(event.times["work"][1] for event in timed) == pytest.approx(harness.store.step_times("p")["work"][1])


def test_a_worker_writes_step_times_while_it_runs(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engine.scheduler.MAINTENANCE_INTERVAL", 0.0)
    seen: list[int] = []

    @pipeline.step
    def first(doc: holdfast.Document) -> None:
        return None

    @pipeline.step
    def look(doc: holdfast.Document) -> None:
        for _ in range(200):
            if harness.store.step_times("p"):
                seen.append(harness.store.step_times("p")["first"][0])
                return
            sleep(0.01)

    harness.submit("a")
    harness.drain()
    assert seen == [1]


def test_events_say_who_speaks_and_of_which_pipeline(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    said: list[Event] = []
    pipeline.step(name="work")(lambda doc: None)
    harness.submit("a")
    harness.drain(listeners=[said.append], name="ann", budget=timedelta(seconds=30))
    (committed,) = [event for event in said if isinstance(event, Committed)]
    assert (committed.pipeline, committed.worker) == ("p", "ann")


def test_time_is_counted_with_the_document_it_was_spent_on() -> None:
    timings = StepTimings()
    documents = [claimed_document() for _ in range(8)]
    timings.add_results([(document, Returned(RunValue("read"), None), 0.0, 10.0) for document in documents])
    assert timings.take() == {}
    timings.add_commit(documents[0], past("read"))
    assert timings.take() == {"read": (1, 10.0)}
    for document in documents[1:4]:
        timings.close(document)
    assert timings.take() == {"read": (0, 30.0)}, "what failed, or was given back, was spent as well"
    timings.close(documents[0])
    assert timings.take() == {}, "and nothing twice"


def claimed_document() -> ClaimedDocument:
    nothing: Any = None  # only the identity of the document matters here
    return ClaimedDocument(claim=nothing, reader=nothing, bodies=nothing, executor=nothing)


def past(step: str) -> Move:
    here = Checkpoint(0, step, None, 0)
    return Move(None, here, Checkpoint(0, None, None, 1), "done")  # type: ignore[arg-type]  # whose it is is known


def test_what_was_spent_on_a_document_that_was_given_back_is_counted(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    budget = Budget()

    @pipeline.step
    def read(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 2):
            sleep(0.02)
            budget.stop("enough")
            yield number

    harness.submit("a")
    harness.drain(budget=budget)
    assert harness.document().state == "waiting"
    documents, seconds = harness.store.step_times("p")["read"]
    assert (documents, seconds >= 0.02) == (0, True)
    harness.drain()
    documents, seconds = harness.store.step_times("p")["read"]
    assert (documents, 0.04 <= seconds < 0.2) == (1, True)
