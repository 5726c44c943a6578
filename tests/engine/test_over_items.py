"""Steps over items: windows, out of order, with bad items set aside."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

import holdfast
from tests.engine.conftest import SOON, Bench


def numbers(pipeline: holdfast.Pipeline, count: int) -> holdfast.Step[..., list[int], list[int], int]:
    @pipeline.step
    def source(doc: holdfast.Document) -> list[int]:
        return list(range(count))

    return source  # type: ignore[return-value]


def test_windows_cover_every_item_once(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    source = numbers(pipeline, 10)
    windows: list[list[int]] = []

    @pipeline.step(over=source, size=4)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        windows.append(batch)
        return [number * 2 for number in batch]

    bench.submit("a")
    bench.drain()
    assert windows == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert bench.kept("double") == [number * 2 for number in range(10)]


def test_without_a_size_the_body_gets_one_item(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    source = numbers(pipeline, 3)

    @pipeline.step(over=source)
    def double(doc: holdfast.Document, number: int) -> int:
        return number * 2

    bench.submit("a")
    bench.drain()
    assert bench.kept("double") == [0, 2, 4]


def test_a_single_bad_item_is_set_aside_while_the_rest_goes_on(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    source = numbers(pipeline, 20)

    @pipeline.step(over=source, size=8, retry=SOON)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        if 13 in batch:
            raise ValueError("thirteen")
        return [number * 2 for number in batch]

    bench.submit("a")
    assert bench.drain().done == 1
    assert bench.kept("double") == [number * 2 for number in range(20) if number != 13]
    ((step, aside),) = bench.store.asides(bench.standing().id)
    assert (step, aside.position, aside.tries, aside.error.message) == ("double", 13, 3, "thirteen")


def test_items_set_aside_are_tried_again_at_the_end(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    source = numbers(pipeline, 20)
    order: list[int] = []

    @pipeline.step(over=source, retry=SOON)
    def double(doc: holdfast.Document, number: int) -> int:
        order.append(number)
        if number == 3 and order.count(3) == 1:
            raise OSError("hiccup")
        return number * 2

    bench.submit("a")
    assert bench.drain().done == 1
    assert order[-1] == 3
    assert order.count(3) == 2
    assert len(bench.kept("double")) == 20
    assert bench.store.asides(bench.standing().id) == []


def test_too_many_bad_items_stop_the_step(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    source = numbers(pipeline, 100)
    calls: list[int] = []

    @pipeline.step(over=source, retry=holdfast.Retry(attempts=1))
    def double(doc: holdfast.Document, number: int) -> int:
        calls.append(number)
        raise ConnectionError("the service is down")

    bench.submit("a")
    assert bench.drain().dead == 1
    assert len(calls) == 11
    assert "11 of 100 items failed, more than the 10%" in bench.standing().reason


def test_bad_items_do_not_buy_attempts(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    """Setting items aside is no progress: a document whose items are all bad is given up after its attempts."""
    source = numbers(pipeline, 10)

    @pipeline.step(over=source, retry=SOON)
    def double(doc: holdfast.Document, number: int) -> int:
        raise ConnectionError("the service is down")

    bench.submit("a")
    assert bench.drain().dead == 1
    assert bench.verbs() == ["fail", "fail", "fail"]


def test_a_rejected_item_is_not_tried_again(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    source = numbers(pipeline, 20)
    calls: list[int] = []

    @pipeline.step(over=source, retry=SOON)
    def double(doc: holdfast.Document, number: int) -> int:
        calls.append(number)
        if number == 5:
            raise holdfast.Reject("no such thing")
        return number

    bench.submit("a")
    assert bench.drain().done == 1
    assert calls.count(5) == 1


def test_windows_that_finish_out_of_order_resume_correctly(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    """The first window waits until the others are through; then the document is put off, with a gap behind it."""
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

    bench.submit("a")
    assert bench.drain(threads=4).done == 1
    assert sorted(calls) == sorted([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11], [0, 1, 2]])
    assert bench.kept("double") == [number * 2 for number in range(12)]


def test_at_most_so_many_windows_run_at_once(pipeline: holdfast.Pipeline, bench: Bench) -> None:
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

    bench.submit("a")
    assert bench.drain(threads=6).done == 1
    assert most[0] == 3


def test_a_wrong_number_of_answers_is_told(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    source = numbers(pipeline, 4)

    @pipeline.step(over=source, size=2)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        return [1, 2, 3]

    bench.submit("a")
    assert bench.drain().dead == 1
    assert "answered 3" in bench.standing().reason


def test_over_nothing_is_done_at_once(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    source = numbers(pipeline, 0)

    @pipeline.step(over=source, size=2)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        raise AssertionError("there is nothing to do")

    bench.submit("a")
    assert bench.drain().done == 1


def test_over_one_value_is_refused(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def source(doc: holdfast.Document) -> dict[str, int]:
        return {"not": 1}

    @pipeline.step(over=source, size=2)
    def double(doc: holdfast.Document, batch: list[int]) -> list[int]:
        return batch

    bench.submit("a")
    assert bench.drain().dead == 1
    assert "kept one value, not a list" in bench.standing().reason


@pytest.mark.parametrize("stop_after", range(1, 8))
def test_an_interrupted_walk_does_no_item_twice(pipeline: holdfast.Pipeline, bench: Bench, stop_after: int) -> None:
    source = numbers(pipeline, 8)
    budget = holdfast.Budget()
    calls: list[int] = []

    @pipeline.step(over=source)
    def double(doc: holdfast.Document, number: int) -> int:
        calls.append(number)
        if len(calls) == stop_after:
            budget.stop("enough")
        return number

    bench.submit("a")
    bench.drain(budget=budget)
    assert bench.drain(budget=timedelta(seconds=20)).done == 1
    assert calls == list(range(8))
    assert bench.standing().attempts == 0
