"""When what a stream yielded is committed: by number, by time, or by both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.core.step import CommitEvery
from holdfast.engine import stream_collector
from holdfast.engine.executor_requests import Pulled, PullStream
from holdfast.engine.stream_collector import TimedCollector

SECOND = timedelta(seconds=1)


class Watch:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Signals:
    """What tells a stream to stop."""

    def __init__(self) -> None:
        self.lost = False
        self.is_stopping = False

    def stopping(self) -> bool:
        return self.is_stopping


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(stream_collector, "monotonic", watch)
    return watch


@pytest.fixture
def signals() -> Signals:
    return Signals()


Collect = Callable[[CommitEvery], TimedCollector]


@pytest.fixture
def collect(pipeline: holdfast.Pipeline, watch: Watch, signals: Signals) -> Collect:
    def collector(every: CommitEvery) -> TimedCollector:
        @pipeline.step(commit_every=every)
        def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[Any]:
            yield cursor

        return TimedCollector(pages, PullStream("pages", None, 0), signals)

    return collector


def part_of(collector: TimedCollector) -> Any:
    """Take a part. Return its values, its cursor and the next position; None if it is not time."""
    parts: list[Pulled] = []
    assert collector.take_part(parts.append) == bool(parts)
    return next((([item.value for item in part.items], part.cursor, part.position) for part in parts), None)


def test_a_part_can_be_taken_when_the_time_is_over(collect: Collect, watch: Watch) -> None:
    collector = collect(SECOND)
    assert not collector.take("a")
    assert not collector.take("b")
    watch.now += 0.9
    assert part_of(collector) is None
    watch.now += 0.1
    assert part_of(collector) == (['"a"', '"b"'], 2, 2)
    assert part_of(collector) is None


def test_nothing_is_taken_of_a_stream_that_has_yielded_nothing(collect: Collect, watch: Watch) -> None:
    collector = collect(SECOND)
    watch.now += 60
    assert part_of(collector) is None


def test_after_a_part_the_time_begins_again_and_the_rest_is_the_result(collect: Collect, watch: Watch) -> None:
    collector = collect(SECOND)
    collector.take("a")
    watch.now += 1
    part_of(collector)
    watch.now += 0.9
    assert not collector.take("b")
    watch.now += 0.1
    assert collector.take("c")
    rest = collector.pulled()
    assert ([item.position for item in rest.items], rest.cursor, rest.position) == ([1, 2], 3, 3)


def test_a_cursor_without_a_value_is_a_part_too(collect: Collect, watch: Watch) -> None:
    collector = collect(SECOND)
    collector.take(holdfast.At("p2"))
    watch.now += 1
    assert part_of(collector) == ([], "p2", 0)


def test_no_part_is_taken_when_the_call_is_over(collect: Collect, watch: Watch) -> None:
    collector = collect((2, SECOND))
    collector.take("a")
    assert collector.take("b")
    watch.now += 1
    assert part_of(collector) is None
    assert len(collector.pulled().items) == 2
    assert part_of(collector) is None


def test_no_part_is_taken_of_a_stream_with_an_error(collect: Collect, watch: Watch) -> None:
    collector = collect(SECOND)
    collector.take("a")
    error = OSError("gone")
    assert collector.pulled(error=error).error is error
    watch.now += 1
    assert part_of(collector) is None


def test_nothing_is_taken_while_the_stream_has_a_transaction_open(collect: Collect, watch: Watch) -> None:
    collector = collect(SECOND)
    collector.take("a")
    collector.transaction_opened()
    watch.now += 1
    assert part_of(collector) is None
    collector.transaction_closed()
    assert part_of(collector) == (['"a"'], 1, 1)


def test_an_item_that_was_yielded_inside_a_transaction_is_never_part_of_anything(
    collect: Collect, watch: Watch
) -> None:
    collector = collect(SECOND)
    collector.transaction_opened()
    assert collector.take("a")
    collector.transaction_closed()  # the stream is closed, and its transaction rolled back
    watch.now += 1
    assert part_of(collector) is None


def test_all_limits_are_those_of_the_call_with_its_parts(
    collect: Collect, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_collector, "MAX_BYTES", 12)
    collector = collect(SECOND)
    assert not collector.take("aaaa")
    watch.now += 1
    part_of(collector)
    assert collector.take("bbbb")


@pytest.mark.parametrize(("every", "number"), [((3, SECOND), 3), ((1, SECOND), 1)])
def test_a_number_counts_if_it_comes_before_the_time(collect: Collect, every: CommitEvery, number: int) -> None:
    collector = collect(every)
    assert [collector.take(item) for item in range(number)] == [False] * (number - 1) + [True]


def test_the_time_counts_if_it_comes_before_the_number(collect: Collect, watch: Watch) -> None:
    collector = collect((500, SECOND))
    collector.take("a")
    watch.now += 1
    assert part_of(collector) == (['"a"'], 1, 1)


def test_a_stop_makes_it_time(collect: Collect, signals: Signals) -> None:
    collector = collect(timedelta(hours=1))
    collector.take("a")
    signals.is_stopping = True
    assert part_of(collector) == (['"a"'], 1, 1)


def test_what_could_not_be_handed_over_was_not_taken(collect: Collect, watch: Watch) -> None:
    collector = collect(SECOND)
    collector.take("a")
    watch.now += 1

    def fail(part: Pulled) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        collector.take_part(fail)
    assert part_of(collector) == (['"a"'], 1, 1)


def test_a_stream_that_is_just_yielding_is_not_waited_for(collect: Collect, watch: Watch) -> None:
    collector = collect(SECOND)
    collector.take("a")
    watch.now += 1
    with collector._lock:
        assert part_of(collector) is None
    assert part_of(collector) is not None
