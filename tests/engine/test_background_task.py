"""A background task of a worker: it runs at once and in intervals, and it stops nothing."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

import holdfast
from holdfast.engine.background_task import TaskContext, TaskStopped
from holdfast.observe.events import Event, TaskFailed
from tests.support.pipeline_harness import PipelineHarness
from tests.support.polling import wait_for

QUICK = timedelta(milliseconds=1)


class CountingTask:
    """Counts its runs. The first ones fail."""

    every = QUICK

    def __init__(self, *, failures: int = 0) -> None:
        self.runs = 0
        self._failures = failures

    def run(self, context: TaskContext) -> None:
        self.runs += 1
        if self.runs <= self._failures:
            raise ValueError("a mistake")


def work_until(harness: PipelineHarness, task: CountingTask, *, runs: int) -> list[Event]:
    """Let a worker work until its task has run a number of times. Return the events."""
    events: list[Event] = []
    budget = holdfast.Budget()

    def stop() -> None:
        wait_for(lambda: task.runs >= runs)
        budget.stop("enough")

    stopper = threading.Thread(target=stop)
    stopper.start()
    holdfast.work(harness.pipeline, harness.store, budget=budget, maintenance=task, listeners=[events.append])
    stopper.join()
    return events


@pytest.fixture
def harness(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> PipelineHarness:
    pipeline.step(name="read")(lambda doc: None)
    return harness


def test_a_task_runs_in_intervals_until_the_worker_ends(harness: PipelineHarness) -> None:
    task = CountingTask()
    work_until(harness, task, runs=3)
    after = task.runs
    harness.submit("a")
    harness.drain()
    assert task.runs == after
    assert "holdfast-task" not in {thread.name for thread in threading.enumerate()}


def test_a_task_that_fails_is_reported_and_tried_again(harness: PipelineHarness) -> None:
    harness.submit("a")
    events = work_until(harness, CountingTask(failures=2), runs=4)
    failed = [event for event in events if isinstance(event, TaskFailed)]
    assert [(event.task, event.reason, event.pipeline) for event in failed] == [
        ("CountingTask", "ValueError: a mistake", "p")
    ] * 2
    assert harness.document("a").state == "done"


def test_a_long_task_ends_with_its_worker(harness: PipelineHarness) -> None:
    stopped = threading.Event()

    class LongTask(CountingTask):
        def run(self, context: TaskContext) -> None:
            self.runs += 1
            try:
                while True:
                    context.pause(0.001)
            except TaskStopped:
                stopped.set()
                raise

    work_until(harness, LongTask(), runs=1)
    assert stopped.wait(30)


def test_a_drain_runs_its_task_too(harness: PipelineHarness) -> None:
    task = CountingTask()

    @harness.pipeline.step
    def wait(doc: holdfast.Document) -> None:
        wait_for(lambda: task.runs)

    harness.submit("a")
    harness.drain(maintenance=task)
    assert task.runs
