"""A stream says how many items it will yield in all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.core.reasons import FEWER_THAN_TOTAL, MORE_THAN_TOTAL
from holdfast.observe.events import Event, Warned
from holdfast.stores.protocol import Store

Body = Callable[..., Any]
PIPELINE_OPTIONS: dict[str, dict[str, Any]] = {
    "thread": {},
    "timed": {"commit_every": timedelta(milliseconds=1)},
    "process": {"runs_in": "process"},
    "timed process": {"runs_in": "process", "commit_every": timedelta(milliseconds=1)},
}


def three(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
    yield holdfast.total(3)
    yield from range(cursor, 3)


async def three_async(doc: holdfast.Document, cursor: int = 0) -> AsyncIterator[int]:
    yield holdfast.total(3)
    for number in range(cursor, 3):
        yield number


def run(store: Store, body: Body, **options: Any) -> tuple[holdfast.DocumentStatus, list[Warned]]:
    """Run one document through a step. Return it, and the warnings about it."""
    pipeline = holdfast.Pipeline("p")
    pipeline.step(**options)(body)
    holdfast.submit(pipeline, store, batch="b", documents=[("a", None)])
    events: list[Event] = []
    holdfast.drain(pipeline, store, threads=1, listeners=[events.append])
    return store.document("p", "b", "a"), [event for event in events if isinstance(event, Warned)]


def totals(store: Store, document: holdfast.DocumentStatus) -> list[tuple[int, int | None]]:
    return [(output.items, output.total) for output in store.outputs(document.id)]


@pytest.mark.parametrize("where", PIPELINE_OPTIONS)
def test_a_total_is_kept_and_is_no_item(store: Store, where: str) -> None:
    document, warnings = run(store, three, **PIPELINE_OPTIONS[where])
    assert (document.state, totals(store, document), warnings) == ("done", [(3, 3)], [])


@pytest.mark.parametrize("runs_in", ["thread", "process"])
def test_an_async_stream_may_have_a_total(store: Store, runs_in: Any) -> None:
    document, warnings = run(store, three_async, runs_in=runs_in)
    assert (totals(store, document), warnings) == ([(3, 3)], [])


@pytest.mark.parametrize("commit_every", [1, 2, 100])
def test_more_items_than_the_total_are_said_once_and_kept(any_store: Store, commit_every: int) -> None:
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield holdfast.total(3)
        yield from range(cursor, 8)

    document, warnings = run(any_store, pages, commit_every=commit_every)
    assert (document.state, totals(any_store, document)) == ("done", [(8, 3)])
    assert [event.warning.code for event in warnings] == [MORE_THAN_TOTAL]
    assert "pages yielded 8 items, and said that there are 3: look" in str(holdfast.explain(any_store, document))


def test_an_end_with_fewer_items_than_the_total_is_said(any_store: Store) -> None:
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield holdfast.total(5)
        yield from range(cursor, 3)

    document, warnings = run(any_store, pages)
    assert (document.state, totals(any_store, document)) == ("done", [(3, 5)])
    assert [event.warning.code for event in warnings] == [FEWER_THAN_TOTAL]
    assert holdfast.explain(any_store, document).facts["totals"] == {"pages": {"items": 3, "total": 5}}


def test_the_newest_total_counts(store: Store) -> None:
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield holdfast.total(2)
        yield 0
        yield holdfast.total(3)
        yield from range(1, 3)

    document, warnings = run(store, pages, commit_every=1)
    assert (totals(store, document), warnings) == ([(3, 3)], [])


def test_a_stream_that_goes_on_keeps_its_total_and_need_not_say_it_again(store: Store) -> None:
    pipeline = holdfast.Pipeline("p")
    seen: list[holdfast.DocumentStatus] = []

    @pipeline.step(commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        if cursor == 0:
            yield holdfast.total(4)
            yield from range(2)
            raise holdfast.RetryLater("the service is busy", after=timedelta(0))
        seen.append(store.document("p", "b", "a"))
        yield from range(cursor, 3)

    holdfast.submit(pipeline, store, batch="b", documents=[("a", None)])
    events: list[Event] = []
    for _ in range(3):
        holdfast.drain(pipeline, store, threads=1, listeners=[events.append])
    document = store.document("p", "b", "a")
    assert [one.items_total for one in seen] == [4]
    assert totals(store, document) == [(3, 4)]
    assert [event.warning.code for event in events if isinstance(event, Warned)] == [FEWER_THAN_TOTAL]


def test_a_stream_with_its_own_cursors_counts_what_it_kept(store: Store) -> None:
    def pages(doc: holdfast.Document, cursor: str | None = None) -> Iterator[Any]:
        yield holdfast.total(2)
        yield holdfast.At({"page": 1}, "one")
        yield holdfast.At({"page": 2})
        yield holdfast.At({"page": 3}, "two")

    document, warnings = run(store, pages, commit_every=1)
    assert (totals(store, document), warnings) == ([(2, 2)], [])


@pytest.mark.parametrize("wrong", [-1, 1.5, "3", None, True, 2**60])
def test_a_total_that_is_no_number_of_items_is_refused(store: Store, wrong: Any) -> None:
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield holdfast.total(wrong)
        yield 1

    document, _ = run(store, pages, retry=holdfast.Retry(attempts=1))
    assert document.state == "dead"
    assert "a total is a number of items, from 0" in document.reason


def test_a_document_inside_a_stream_has_its_total(any_store: Store) -> None:
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        yield holdfast.total(120)
        yield from range(6)
        raise holdfast.Pause("who may read the rest?")

    document, warnings = run(any_store, pages, commit_every=1)
    assert (document.state, document.items_total, totals(any_store, document)) == ("paused", 120, [(6, 120)])
    assert warnings == []
