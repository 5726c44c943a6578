"""What happens to a document after an error."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.errors import BodyLost, StoreGone
from holdfast.core.model import Checkpoint, Claim
from holdfast.core.moves import Release
from holdfast.core.reasons import DEFERRED_TOO_LONG, LOST_TOO_OFTEN
from holdfast.core.step import AnyStep
from holdfast.engine.failure_policy import SHORTEST, Tried, decide_outcome
from tests.support.pipeline_harness import PipelineHarness

CLAIM = Claim(1, 1, "b", "a", None, "", Checkpoint(0, "call", None, 0), 1, 0, timedelta(0))


def step_with(**options: Any) -> AnyStep:
    """Return a step with a retry policy."""
    pipeline = holdfast.Pipeline("p")

    @pipeline.step(retry=holdfast.Retry(**{"jitter": 0.0} | options))
    def call(doc: holdfast.Document) -> None: ...

    return call


def put_off(error: BaseException, *, times: int, age: timedelta = timedelta(0), **options: Any) -> Release:
    """Return what happens when a body puts a document off that was put off so often before."""
    return decide_outcome(step_with(**options), error, Tried(CLAIM, "ann", 1, 0, times, age))


def test_a_body_that_gives_no_wait_is_asked_less_and_less_often() -> None:
    waits = [put_off(holdfast.RetryLater("busy"), times=times).delay.total_seconds() for times in range(12)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_only_the_first_wait_may_be_very_short() -> None:
    at_once = holdfast.RetryLater("busy", after=0)
    assert put_off(at_once, times=0).delay == timedelta(0)
    assert put_off(at_once, times=1).delay == SHORTEST
    assert put_off(holdfast.RetryLater("busy", after=7), times=50).delay == timedelta(seconds=7)


def test_an_error_of_the_store_is_a_deferral_too() -> None:
    release = put_off(StoreGone("no answer"), times=3)
    assert (release.state, release.verb, release.costs, release.delay.total_seconds()) == (
        "waiting",
        "defer",
        "deferral",
        8,
    )


@pytest.mark.parametrize(
    ("times", "age", "state"),
    [(5, timedelta(0), "waiting"), (10_000, timedelta(days=6.9), "waiting"), (1, timedelta(days=7.1), "paused")],
)
def test_a_document_is_put_off_for_a_week_at_most(times: int, age: timedelta, state: str) -> None:
    release = put_off(holdfast.RetryLater("busy"), times=times, age=age)
    assert (release.state, release.costs) == (state, "deferral")
    assert release.code == (DEFERRED_TOO_LONG if state == "paused" else "")


def test_the_number_of_deferrals_can_be_limited() -> None:
    assert put_off(holdfast.RetryLater("busy"), times=2, deferrals=3).state == "waiting"
    parked = put_off(holdfast.RetryLater("the queue is full"), times=3, deferrals=3)
    assert (parked.state, parked.verb, parked.code) == ("paused", "pause", DEFERRED_TOO_LONG)
    assert "the queue is full" in parked.reason


def test_the_limits_can_be_switched_off() -> None:
    release = put_off(holdfast.RetryLater("busy"), times=10**6, age=timedelta(days=999), deferred_for=None)
    assert release.state == "waiting"


@pytest.mark.parametrize("options", [{"deferrals": 0}, {"deferred_for": timedelta(0)}])
def test_a_limit_that_allows_nothing_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(holdfast.DefinitionError):
        holdfast.Retry(**options)


def test_a_body_that_is_always_busy_is_parked_and_goes_on_when_a_person_resumes_it(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    busy = True

    @pipeline.step(retry=holdfast.Retry(deferrals=2))
    def call(doc: holdfast.Document) -> str:
        if busy:
            raise holdfast.RetryLater("busy", after=0.001)
        return "done"

    harness.submit("a")
    harness.drain()
    parked = harness.document()
    assert (parked.state, parked.code, parked.deferrals, parked.attempts) == ("paused", DEFERRED_TOO_LONG, 3, 0)
    lines = harness.store.journal(parked.id)
    assert [(line.verb, line.times) for line in lines] == [("defer", 2), ("pause", 1)]
    busy = False
    plan = harness.store.declare(pipeline.shape())
    harness.store.resume(plan, [parked.id], who="ann", reason="it is back")
    harness.drain()
    assert harness.document().state == "done"


def test_a_move_starts_the_count_again(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    calls: list[int] = []

    @pipeline.step(retry=holdfast.Retry(deferrals=1), commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Any:
        for page in range(cursor, 5):
            calls.append(page)
            if calls.count(page) == 1:
                raise holdfast.RetryLater("busy", after=0.001)
            yield page

    harness.submit("a")
    harness.drain()
    assert harness.document().state == "done"
    assert harness.kept("pages") == [0, 1, 2, 3, 4]
    assert [(line.verb, line.times) for line in harness.store.journal(harness.document().id)] == [("defer", 5)]


def lose(before: int, *, attempts: int = 1, crashes: int = 0, **options: Any) -> Release:
    """Return what happens when the process of a body is killed from outside, after so many losses before."""
    error = BodyLost("step 'call' of 'a': its process was killed by SIGKILL")
    return decide_outcome(step_with(**options), error, Tried(CLAIM, "ann", attempts, crashes, losses=before))


def test_a_body_whose_process_is_killed_from_outside_costs_no_attempt_and_no_crash() -> None:
    release = lose(0)
    assert (release.state, release.verb, release.costs, release.delay) == ("waiting", "fail", "loss", timedelta(0))


def test_a_body_whose_process_is_killed_again_and_again_waits_longer_each_time() -> None:
    assert [lose(losses).delay.total_seconds() for losses in range(5)] == [0, 1, 2, 4, 8]
    assert lose(0, attempts=3).delay.total_seconds() == 2  # two attempts failed before


def test_a_body_whose_process_is_killed_too_often_is_a_dead_letter_that_says_so() -> None:
    assert lose(23).state == "waiting"
    release = lose(24)
    assert (release.state, release.code, release.costs) == ("dead", LOST_TOO_OFTEN, "loss")
    assert release.failure is not None
    assert release.failure.message.endswith("SIGKILL, for 25 times since the document last moved")
    assert lose(6, losses=7).state == "dead"


def test_a_window_whose_process_is_killed_from_outside_sets_no_item_aside(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, tmp_path: Path
) -> None:
    @pipeline.step
    def numbers(doc: holdfast.Document) -> list[int]:
        return [1, 2, 3, 4]

    @pipeline.step(over=numbers, size=2, runs_in="process")
    def double(doc: holdfast.Document, some: list[int]) -> list[int]:
        if not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [2 * number for number in some]

    harness.submit("a")
    report = harness.drain()
    assert (report.done, report.dead) == (1, 0)
    document = harness.store.document("p", "b", "a")
    lost = [entry.detail["costs"] for entry in harness.store.journal(document.id)]
    assert lost == ["loss"]
    assert [output.aside for output in harness.store.outputs(document.id)] == [0, 0]
