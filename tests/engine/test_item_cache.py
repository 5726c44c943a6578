"""Items that were just committed are not read from the store; all others are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.core.model import WHOLE, Item
from holdfast.engine.item_cache import MAX_DOCUMENT_SIZE, CacheBudget, ItemCache
from tests.support.pipeline_harness import SOON, PipelineHarness


@pytest.fixture
def reads(harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The positions that were read from the store."""
    read, extent, asked = harness.store.read, harness.store.next_position, list[tuple[Any, ...]]()

    def reading(*place: int) -> Any:
        asked.append(place)
        return read(*place)

    def measuring(*place: int) -> Any:
        asked.append(place)
        return extent(*place)

    monkeypatch.setattr(harness.store, "read", reading)
    monkeypatch.setattr(harness.store, "next_position", measuring)
    return asked


def test_the_next_steps_are_given_what_was_kept_without_reading(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, reads: list[tuple[Any, ...]]
) -> None:
    @pipeline.step(commit_every=2)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield from range(cursor, 5)

    @pipeline.step
    def title(doc: holdfast.Document) -> str:
        return "a title"

    @pipeline.step(over=pages, size=3)
    def doubled(doc: holdfast.Document, some: list[int]) -> list[int]:
        return [2 * one for one in some]

    @pipeline.step
    def all_of_it(doc: holdfast.Document) -> list[Any]:
        return [doc.output(pages), list(doc.each(pages, start=3)), doc.output(title), doc.output(doubled)]

    harness.submit("a")
    assert harness.drain().done == 1
    assert harness.kept("all_of_it") == [[0, 1, 2, 3, 4], [3, 4], "a title", [0, 2, 4, 6, 8]]
    assert reads == []


def test_what_was_kept_before_a_document_was_taken_up_is_read(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, reads: list[tuple[Any, ...]]
) -> None:
    failing = [True]

    @pipeline.step(commit_every=1, retry=SOON)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 4):
            if number == 2 and failing:
                failing.clear()
                raise OSError("the disk hiccups")
            yield number

    @pipeline.step
    def total(doc: holdfast.Document) -> int:
        return sum(doc.output(pages))

    harness.submit("a")
    assert harness.drain().done == 1
    assert harness.kept("total") == [6]
    assert reads


def test_a_window_that_was_kept_before_the_document_was_taken_up_again_is_not_forgotten(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    later_one_is_kept = threading.Event()

    @pipeline.step
    def pages(doc: holdfast.Document) -> list[int]:
        return [0, 1]

    @pipeline.step(over=pages, parallel=2)
    def doubled(doc: holdfast.Document, page: int) -> int:
        if page == 0 and not later_one_is_kept.is_set():
            assert later_one_is_kept.wait(30)
            raise holdfast.RetryLater(after=timedelta(milliseconds=1))
        return 2 * page

    @doubled.effect
    def keep(tx: Any, doc: holdfast.Document, double: int) -> None:
        later_one_is_kept.set()

    @pipeline.step
    def all_of_it(doc: holdfast.Document) -> list[int]:
        return [sum(doc.output(doubled)), len(doc.output(doubled))]

    harness.submit("a")
    assert harness.drain(threads=2).done == 1
    assert harness.kept("all_of_it") == [2, 2]


def test_after_a_rewind_nothing_is_believed(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    made: list[int] = []
    good = [False, True]

    @pipeline.step
    def number(doc: holdfast.Document) -> int:
        made.append(len(made))
        return made[-1]

    @number.verify
    def is_good(doc: holdfast.Document) -> bool:
        return doc.output(number) > 0

    @pipeline.step(retry=SOON)
    def after(doc: holdfast.Document) -> int:
        if not good.pop():
            raise OSError("the first time, so that it is taken up in the middle")
        return doc.output(number)

    good.insert(0, True)
    harness.submit("a")
    harness.drain()
    assert harness.kept("after") == [made[-1]]


class TestFresh:
    def items(self, *places: int, size: int = 1) -> list[Item]:
        return [Item("s", place, "x" * size) for place in places]

    def test_what_has_a_gap_is_not_remembered(self) -> None:
        cache = ItemCache(CacheBudget())
        cache.add(self.items(0, 1))
        assert cache.next_position("s") == 2
        cache.add(self.items(3))
        assert cache.next_position("s") is None
        cache.add(self.items(0))
        assert cache.read("s", 0, 9) is None

    def test_what_is_too_large_is_not_remembered(self) -> None:
        cache = ItemCache(CacheBudget())
        cache.add(self.items(0, size=MAX_DOCUMENT_SIZE + 1))
        assert cache.next_position("s") is None

    def test_room_is_given_back(self) -> None:
        room = CacheBudget(10)
        one, other = ItemCache(room), ItemCache(room)
        one.add(self.items(0, size=8))
        other.add(self.items(0, size=8))
        assert (one.next_position("s"), other.next_position("s")) == (1, None)
        one.release()
        assert room.left == 10

    def test_one_value_is_no_item(self) -> None:
        cache = ItemCache(CacheBudget())
        cache.add([Item("s", WHOLE, "v")])
        assert cache.read("s", WHOLE, WHOLE + 1) == [(WHOLE, "v")]
        assert cache.read("s", 0, 10) == []
        assert cache.next_position("s") == 0
