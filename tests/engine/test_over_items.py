"""Steps over items: windows finish in any order, and items that fail are set aside."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

import holdfast
from holdfast.core.step import At
from holdfast.observe.events import Event, Warned
from tests.support.pipeline_harness import SOON, PipelineHarness


def numbers(pipeline: holdfast.Pipeline, count: int) -> holdfast.Step[..., list[int], list[int], int]:
    @pipeline.step
    def source(doc: holdfast.Document) -> list[int]:
        return list(range(count))

    return source  # type: ignore[return-value]


def test_windows_cover_every_item_once(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    source = numbers(pipeline, 10)
    windows: list[list[int]] = []

    @pipeline.step(over=source, size=4)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        windows.append(batch)
        return [number * 2 for number in batch]

    harness.submit("a")
    harness.drain()
    assert windows == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert harness.kept("double") == [number * 2 for number in range(10)]


def test_the_last_window_is_committed_with_the_end_of_its_step(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    source = numbers(pipeline, 10)
    wrote: list[int] = []

    @pipeline.step(over=source, size=4)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        return [number * 2 for number in batch]

    @double.effect
    def write(tx: holdfast.Tx, doc: holdfast.Document, doubled: list[int]) -> None:
        wrote.extend(doubled)

    harness.submit("a")
    assert harness.drain().moves == 1 + 3  # the source, and one for each window
    assert wrote == harness.kept("double") == [number * 2 for number in range(10)]


def test_without_a_size_the_body_gets_one_item(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    source = numbers(pipeline, 3)

    @pipeline.step(over=source)
    def double(doc: holdfast.Document, number: int) -> int:
        return number * 2

    harness.submit("a")
    harness.drain()
    assert harness.kept("double") == [0, 2, 4]


def test_a_single_bad_item_is_set_aside_while_the_rest_goes_on(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    source = numbers(pipeline, 20)

    @pipeline.step(over=source, size=8, retry=SOON)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        if 13 in batch:
            raise ValueError("thirteen")
        return [number * 2 for number in batch]

    harness.submit("a")
    assert harness.drain().done == 1
    assert harness.kept("double") == [number * 2 for number in range(20) if number != 13]
    ((step, aside),) = harness.store.failed_items(harness.document().id)
    assert (step, aside.position, aside.tries, aside.error.message) == ("double", 13, 3, "thirteen")


def test_items_set_aside_are_tried_again_at_the_end(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    source = numbers(pipeline, 20)
    order: list[int] = []

    @pipeline.step(over=source, retry=SOON)
    def double(doc: holdfast.Document, number: int) -> int:
        order.append(number)
        if number == 3 and order.count(3) == 1:
            raise OSError("hiccup")
        return number * 2

    harness.submit("a")
    assert harness.drain().done == 1
    assert order[-1] == 3
    assert order.count(3) == 2
    assert len(harness.kept("double")) == 20
    assert harness.store.failed_items(harness.document().id) == []


def test_too_many_bad_items_stop_the_step(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    source = numbers(pipeline, 100)
    calls: list[int] = []

    @pipeline.step(over=source, retry=holdfast.Retry(attempts=1))
    def double(doc: holdfast.Document, number: int) -> int:
        calls.append(number)
        raise RuntimeError("it does not work")

    harness.submit("a")
    assert harness.drain().dead == 1
    assert len(calls) == 11
    assert "11 of 100 items failed, more than the 10%" in harness.document().reason


def test_bad_items_do_not_buy_attempts(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    """Setting items aside is no progress: a document whose items all fail becomes a dead letter after its attempts."""
    source = numbers(pipeline, 10)

    @pipeline.step(over=source, retry=SOON)
    def double(doc: holdfast.Document, number: int) -> int:
        raise RuntimeError("it does not work")

    harness.submit("a")
    assert harness.drain().dead == 1
    assert harness.verbs() == ["fail", "fail", "fail"]


def test_a_rejected_item_is_not_tried_again(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    source = numbers(pipeline, 20)
    calls: list[int] = []

    @pipeline.step(over=source, retry=SOON)
    def double(doc: holdfast.Document, number: int) -> int:
        calls.append(number)
        if number == 5:
            raise holdfast.Reject("no such thing")
        return number

    harness.submit("a")
    assert harness.drain().done == 1
    assert calls.count(5) == 1


def test_windows_that_finish_out_of_order_resume_correctly(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    """The first window waits until the others are done; then the document is deferred, with a gap in its cursor."""
    source = numbers(pipeline, 12)
    through = threading.Semaphore(0)
    first = {"tries": 0}
    calls: list[list[int]] = []

    @pipeline.step(over=source, size=3, parallel=4, retry=SOON)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        calls.append(batch)
        if batch[0] == 0:
            first["tries"] += 1
            if first["tries"] == 1:
                for _ in range(3):
                    assert through.acquire(timeout=10)
                raise holdfast.RetryLater("throttled", after=0.001)
        through.release()
        return [number * 2 for number in batch]

    harness.submit("a")
    assert harness.drain(threads=4).done == 1
    assert sorted(calls) == sorted([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [0, 1, 2]])
    assert harness.kept("double") == [number * 2 for number in range(12)]


def test_at_most_so_many_windows_run_at_once(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    source = numbers(pipeline, 30)
    lock, running, most = threading.Lock(), [0], [0]
    meeting = threading.Barrier(3, timeout=5)

    @pipeline.step(over=source, size=1, parallel=3)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        meeting.wait()
        with lock:
            running[0] -= 1
        return batch

    harness.submit("a")
    assert harness.drain(threads=6).done == 1
    assert most[0] == 3


def test_a_wrong_number_of_answers_is_told(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    source = numbers(pipeline, 4)

    @pipeline.step(over=source, size=2)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        return [1, 2, 3]

    harness.submit("a")
    assert harness.drain().dead == 1
    assert "returned 3" in harness.document().reason


def test_over_nothing_is_done_at_once(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    source = numbers(pipeline, 0)

    @pipeline.step(over=source, size=2)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        raise AssertionError("there is nothing to do")

    harness.submit("a")
    assert harness.drain().done == 1


def test_over_one_value_is_refused(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def source(doc: holdfast.Document) -> dict[str, int]:
        return {"not": 1}

    @pipeline.step(over=source, size=2)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        return batch

    harness.submit("a")
    assert harness.drain().dead == 1
    assert "kept one value, not a list" in harness.document().reason


def test_a_window_that_asked_for_later_is_not_forgotten_beside_one_that_failed(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    source = numbers(pipeline, 30)
    tries: list[int] = []
    together = threading.Barrier(2, timeout=5)

    @pipeline.step(over=source, parallel=2, retry=SOON)
    def double(doc: holdfast.Document, number: int) -> int:
        if number in (10, 11) and tries.count(number) == 0:
            tries.append(number)
            together.wait()
            if number == 10:
                raise holdfast.RetryLater("throttled", after=0.001)
            raise holdfast.Reject("never")
        return number

    harness.submit("a")
    assert harness.drain(threads=2).done == 1
    assert harness.kept("double") == [number for number in range(30) if number != 11]


def test_a_hole_has_no_effect(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    source = numbers(pipeline, 20)
    seen: list[int] = []

    @pipeline.step(over=source, retry=SOON)
    def first(doc: holdfast.Document, number: int) -> int:
        if number == 7:
            raise holdfast.Reject("a hole")
        return number

    @pipeline.step(over=first)
    def second(doc: holdfast.Document, number: int) -> int:
        return number

    @second.effect
    def write(tx: holdfast.Tx, doc: holdfast.Document, number: int) -> None:
        seen.append(number + 0)

    harness.submit("a")
    assert harness.drain().done == 1
    assert seen == [number for number in range(20) if number != 7]


def test_failed_windows_do_not_buy_attempts_after_a_resume(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    source = numbers(pipeline, 40)

    @pipeline.step(over=source, size=4, retry=SOON)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        raise RuntimeError("it does not work")

    harness.submit("a")
    assert harness.drain().dead == 1
    assert harness.verbs() == ["fail", "fail", "fail"]


def test_a_wait_that_a_service_names_stops_the_walk(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    source = numbers(pipeline, 64)
    calls: list[int] = []

    class Throttled(Exception):
        retry_after = 7200

    @pipeline.step(over=source, size=8, retry=SOON)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        calls.append(batch[0])
        budget.stop("it was called")
        raise Throttled("429")

    budget = holdfast.Budget()
    harness.submit("a")
    harness.drain(budget=budget)
    assert calls == [0]


def test_a_cursor_of_another_kind_of_step_parks_its_document_alone(harness: PipelineHarness) -> None:
    streams = holdfast.Pipeline("p")
    budget = holdfast.Budget()
    numbers(streams, 3)

    @streams.step(name="walk", commit_every=1)
    def stream(doc: holdfast.Document, cursor: str | None = None) -> Iterator[At[int]]:
        yield At("token", 1)
        budget.stop("a deploy")
        yield At("another", 2)

    holdfast.submit(streams, harness.store, batch="b", documents=[("a", None)])
    holdfast.drain(streams, harness.store, budget=budget)

    walks = holdfast.Pipeline("p")
    walks.step(name="walk", over=numbers(walks, 3))(lambda doc, number: number)
    assert holdfast.drain(walks, harness.store).paused == 1
    assert "is not a position in step 'walk'" in harness.document().reason


@pytest.mark.parametrize("stop_after", range(1, 8))
def test_an_interrupted_walk_does_no_item_twice(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, stop_after: int
) -> None:
    source = numbers(pipeline, 8)
    budget = holdfast.Budget()
    calls: list[int] = []

    @pipeline.step(over=source)
    def double(doc: holdfast.Document, number: int) -> int:
        calls.append(number)
        if len(calls) == stop_after:
            budget.stop("enough")
        return number

    harness.submit("a")
    harness.drain(budget=budget)
    assert harness.drain(budget=timedelta(seconds=20)).done == 1
    assert calls == list(range(8))
    assert harness.document().attempts == 0


def warnings_of(pipeline: holdfast.Pipeline, harness: PipelineHarness, *, bad: int, rate: float) -> list[str]:
    """Process a document of 40 items, of which some are bad. Return the warnings."""
    source = numbers(pipeline, 40)

    @pipeline.step(over=source, retry=holdfast.Retry(attempts=1), failure_rate=rate)
    def double(doc: holdfast.Document, number: int) -> int:
        if number < bad:
            raise ValueError(number)
        return number * 2

    harness.submit("a")
    events: list[Event] = []
    harness.drain(listeners=[events.append])
    return [event.warning.sentence for event in events if isinstance(event, Warned)]


@pytest.mark.parametrize(("bad", "rate", "warned"), [(2, 0.1, 0), (3, 0.1, 1), (4, 0.1, 1), (4, 0.5, 0), (9, 0.5, 1)])
def test_many_items_that_were_set_aside_are_said_once_before_the_step_stops(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, bad: int, rate: float, warned: int
) -> None:
    assert len(warnings_of(pipeline, harness, bad=bad, rate=rate)) == warned
    assert harness.document().state == "done"


def test_a_warning_says_how_many_items_may_still_be_set_aside(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    (warning,) = warnings_of(pipeline, harness, bad=3, rate=0.1)
    assert warning == "3 of 40 items of double were set aside. It stops above 4"
