"""Work on one named document: a caller learns where it is afterwards, and who else holds it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

import holdfast
from holdfast.core.reasons import CIRCUIT_OPEN
from holdfast.engine.api import submit
from tests.support.pipeline_harness import SOON, PipelineHarness

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def store(any_store: holdfast.Store) -> holdfast.Store:
    return any_store


def drain(harness: PipelineHarness, key: str = "a", **how: object) -> holdfast.DocumentResult:
    return holdfast.drain(harness.pipeline, harness.store, key=key, **{"threads": 2, **how})  # type: ignore[no-any-return, call-overload]


def held_by_bob(harness: PipelineHarness, *, lease: timedelta = HOUR) -> None:
    """Let a worker of another machine claim a document."""
    plan = harness.store.declare(harness.pipeline.shape())
    bob = harness.store.register_worker(name="bob", host="elsewhere", pid=1, born="today", lease=lease)
    assert harness.store.claim(plan, bob, limit=1)


def test_only_the_named_document_is_worked_on(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="one")(lambda doc: doc.key)
    pipeline.step(name="two")(lambda doc: doc.key)
    harness.submit("a", "b", "c")
    result = drain(harness, "b")
    assert (result.state, result.worked, result.wait, result.report.done) == ("done", True, None, 1)
    assert [harness.document(key).state for key in "abc"] == ["waiting", "done", "waiting"]


def test_a_document_that_is_done_already_is_not_worked_on(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    pipeline.step(name="one")(lambda doc: doc.key)
    harness.submit("a")
    drain(harness)
    again = drain(harness)
    assert (again.state, again.worked) == ("done", False)
    assert str(again) == "a is done already"


def test_a_document_that_another_worker_holds_is_said_to_be_held(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    pipeline.step(name="one")(lambda doc: doc.key)
    harness.submit("a")
    held_by_bob(harness)
    with pytest.raises(holdfast.HeldByAnother, match="'a' of batch 'b' is held by the worker 'bob'") as held:
        drain(harness)
    assert held.value.worker == "bob"
    assert held.value.since == harness.document().claimed_at
    assert timedelta(minutes=50) < held.value.lease_left <= HOUR
    assert harness.document().holder == "bob"


def test_a_document_whose_worker_is_gone_is_taken_over(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="one")(lambda doc: doc.key)
    harness.submit("a")
    held_by_bob(harness, lease=timedelta(milliseconds=1))
    result = drain(harness)
    assert (result.state, result.report.reclaimed) == ("done", 1)


def test_of_two_calls_at_the_same_time_one_works_and_the_other_is_told(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    begun, told = threading.Event(), threading.Event()

    @pipeline.step
    def one(doc: holdfast.Document) -> None:
        begun.set()
        assert told.wait(30)

    harness.submit("a")
    results: list[holdfast.DocumentResult] = []
    first = threading.Thread(target=lambda: results.append(drain(harness, name="first")))
    first.start()
    assert begun.wait(30)
    try:
        with pytest.raises(holdfast.HeldByAnother) as held:
            drain(harness, name="second")
    finally:
        told.set()
        first.join()
    assert held.value.worker == "first"
    assert [result.state for result in results] == ["done"]


def test_a_document_that_failed_is_tried_again_until_it_is_dead(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(retry=SOON)
    def one(doc: holdfast.Document) -> None:
        raise ValueError(f"attempt {doc.attempt}")

    harness.submit("a", "b")
    result = drain(harness)
    assert (result.state, result.worked, result.reason) == ("dead", True, "ValueError: attempt 3")
    again = drain(harness)
    assert (again.state, again.worked, again.reason) == ("dead", False, "ValueError: attempt 3")
    assert harness.document("b").attempts == 0


def test_a_document_that_waits_longer_than_the_budget_is_not_waited_for(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step
    def one(doc: holdfast.Document) -> None:
        raise holdfast.RetryLater("throttled", after=HOUR)

    harness.submit("a")
    result = drain(harness, budget=timedelta(minutes=10))
    assert (result.state, result.worked, result.reason) == ("waiting", True, "throttled")
    assert result.wait is not None
    assert timedelta(minutes=50) < result.wait <= HOUR
    again = drain(harness, budget=timedelta(minutes=10))
    assert (again.state, again.worked) == ("waiting", False)
    assert str(again).startswith("a is waiting, due in ")


def test_a_paused_document_is_said_to_be_paused(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="one")(lambda doc: doc.key)
    pipeline.gate("review")
    harness.submit("a")
    for worked in (True, False):
        result = drain(harness)
        assert (result.state, result.worked) == ("paused", worked)
        assert "review" in result.reason


def test_a_cancelled_document_is_said_to_be_cancelled(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="one")(lambda doc: doc.key)
    harness.submit("a")
    harness.store.cancel([harness.document().id], who="ann", reason="not needed")
    result = drain(harness)
    assert (result.state, result.worked, result.reason) == ("cancelled", False, "not needed")


def test_a_budget_that_is_over_leaves_the_document_waiting(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    budget = holdfast.Budget()

    @pipeline.step
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 1000):
            if number == 3:
                budget.stop("enough")
            yield number

    harness.submit("a")
    result = drain(harness, budget=budget)
    assert (result.state, result.report.stopped_by, result.wait) == ("waiting", "enough", timedelta(0))
    assert drain(harness).state == "done"


def test_a_service_that_is_away_is_tried_with_the_named_document(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    away = True

    @pipeline.step(circuit=holdfast.Circuit(failures=1, probe=SECOND))
    def one(doc: holdfast.Document) -> None:
        if away:
            raise ConnectionRefusedError("away")

    harness.submit("a", "b")
    result = drain(harness)
    assert (result.state, harness.document().code) == ("waiting", CIRCUIT_OPEN)
    assert "paused for all documents" in result.reason
    assert result.wait is not None
    away = False
    plan = harness.store.declare(pipeline.shape())
    harness.store.hasten_probes(plan)
    assert drain(harness, budget=timedelta(seconds=60)).state in ("done", "waiting")
    assert harness.document("b").attempts == 0, "only the named document is tried"


def test_the_batch_may_be_left_out_if_only_one_has_the_key(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    pipeline.step(name="one")(lambda doc: doc.key)
    harness.submit("a", "c")
    submit(pipeline, harness.store, batch="d", documents=[("a", None)])
    with pytest.raises(holdfast.UnknownDocument, match="2 batches of pipeline 'p' have the document 'a': b, d"):
        drain(harness)
    assert drain(harness, batch="d").document.batch == "d"
    assert drain(harness, "c").state == "done"
    assert harness.document("a").state == "waiting"


def test_unknown_names_are_named(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    pipeline.step(name="one")(lambda doc: doc.key)
    harness.submit("a")
    with pytest.raises(holdfast.UnknownDocument, match="no batch of pipeline 'p' has a document 'z'"):
        drain(harness, "z")
    with pytest.raises(holdfast.UnknownDocument, match="batch 'b' of pipeline 'p' has no document 'z'"):
        drain(harness, "z", batch="b")
    with pytest.raises(holdfast.UnknownBatch, match="no batch 'c'"):
        drain(harness, "a", batch="c")
    with pytest.raises(holdfast.DefinitionError, match="leave out processes="):
        drain(harness, "a", processes=2)
