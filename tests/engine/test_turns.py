"""What a stream can hold on to from one turn to the next. Each commit ends a turn, and any thread takes the next."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from decimal import Decimal, localcontext
from typing import Any

import pytest

import holdfast
from holdfast.engine.bodies import Desk
from holdfast.engine.calls import Pulled, PullStream
from tests.engine.conftest import Bench

Doc = holdfast.Document

FOR_WHOM: ContextVar[str] = ContextVar("FOR_WHOM", default="nobody")


class NoReader:
    def extent(self, step: str) -> int:
        raise AssertionError("nothing is read here")

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, str]]:
        raise AssertionError("nothing is read here")

    def decision(self, step: str) -> holdfast.Decision | None:
        raise AssertionError("nothing is read here")


@pytest.fixture
def threads() -> Iterator[tuple[ThreadPoolExecutor, ...]]:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        yield one, two


@pytest.fixture
def take_turns(
    pipeline: holdfast.Pipeline, threads: tuple[ThreadPoolExecutor, ...]
) -> Callable[[Callable[..., Any]], list[Any]]:
    """Runs the three turns of a stream on two threads, as the runners of a worker may do."""

    def turns(body: Callable[..., Any]) -> list[Any]:
        step = pipeline.step(commit_every=1)(body)
        desk = Desk(pipeline, Doc(pipeline="p", batch="b", key="a", reader=NoReader()), stopping=lambda: False)
        said: list[Any] = []
        for turn in range(3):
            pull = PullStream(step.name, turn or None, turn)
            pulled: Pulled = threads[turn % 2].submit(desk.run, pull).result()
            said += [item.value for item in pulled.items] if pulled.error is None else [pulled.error]
        return said

    return turns


TakeTurns = Callable[[Callable[..., Any]], list[Any]]


def test_any_thread_takes_the_next_turn(take_turns: TakeTurns) -> None:
    def body(doc: Doc, cursor: int = 0) -> Iterator[bool]:
        first = threading.get_ident()
        while True:
            yield threading.get_ident() == first

    assert take_turns(body) == ["true", "false", "true"]


def test_a_stream_keeps_its_context_variables_over_its_turns(take_turns: TakeTurns) -> None:
    def body(doc: Doc, cursor: int = 0) -> Iterator[str]:
        yield FOR_WHOM.get()
        FOR_WHOM.set("ann")
        yield FOR_WHOM.get()
        yield FOR_WHOM.get()

    assert take_turns(body) == ['"nobody"', '"ann"', '"ann"']


def test_a_block_that_sets_and_resets_a_context_variable_may_yield(take_turns: TakeTurns) -> None:
    def body(doc: Doc, cursor: int = 0) -> Iterator[str]:
        with localcontext(prec=3):
            token = FOR_WHOM.set("ann")
            yield str(Decimal(1) / 3)
            FOR_WHOM.reset(token)
            yield str(Decimal(1) / 3)
        yield str(Decimal(1) / 8192)

    assert take_turns(body) == ['"0.333"', '"0.333"', '"0.0001220703125"']


def test_a_connection_that_any_thread_may_use_stays_open(take_turns: TakeTurns) -> None:
    def body(doc: Doc, cursor: int = 0) -> Iterator[int]:
        db = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            for number in range(3):
                yield db.execute("select ?", (number,)).fetchone()[0]
        finally:
            db.close()

    assert take_turns(body) == ["0", "1", "2"]


def test_a_connection_that_is_one_threads_own_fails_with_its_own_words(take_turns: TakeTurns) -> None:
    def body(doc: Doc, cursor: int = 0) -> Iterator[int]:
        db = sqlite3.connect(":memory:")
        for number in range(3):
            yield db.execute("select ?", (number,)).fetchone()[0]

    first, second, *_ = take_turns(body)
    assert first == "0"
    assert "can only be used in that same thread" in str(second)


def test_what_a_stream_sets_is_its_own(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step(commit_every=1)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[str]:
        yield FOR_WHOM.get()
        FOR_WHOM.set(doc.key)
        yield FOR_WHOM.get()
        yield FOR_WHOM.get()

    bench.submit("a", "b", "c")
    assert bench.drain(threads=1).done == 3
    assert [bench.kept("pages", key) for key in "abc"] == [["nobody", key, key] for key in "abc"]


def test_a_stream_that_is_left_in_the_middle_cleans_up_in_its_context(
    pipeline: holdfast.Pipeline, bench: Bench
) -> None:
    left: list[str] = []

    @pipeline.step(commit_every=1)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[int]:
        FOR_WHOM.set(doc.key)
        try:
            yield 1
            budget.stop("enough")
            yield 2
            yield 3
        finally:
            left.append(FOR_WHOM.get())

    budget = holdfast.Budget()
    bench.submit("a")
    bench.drain(budget=budget)
    assert left == ["a"]


def one_by_one(doc: Doc, cursor: int = 0) -> Iterator[list[object]]:
    FOR_WHOM.set(doc.key)
    for _ in range(cursor, 9):
        yield [threading.get_ident(), FOR_WHOM.get()]


async def one_by_one_async(doc: Doc, cursor: int = 0) -> AsyncIterator[list[object]]:
    FOR_WHOM.set(doc.key)
    for _ in range(cursor, 9):
        yield [threading.get_ident(), FOR_WHOM.get()]


@pytest.mark.parametrize(
    ("body", "runs_in"), [(one_by_one_async, "thread"), (one_by_one, "process"), (one_by_one_async, "process")]
)
def test_async_streams_and_streams_in_a_process_have_one_thread_for_all_turns(
    pipeline: holdfast.Pipeline, bench: Bench, body: Any, runs_in: Any
) -> None:
    pipeline.step(name="pages", commit_every=1, runs_in=runs_in)(body)
    bench.submit("a")
    assert bench.drain().done == 1
    idents, whom = zip(*bench.kept("pages"), strict=True)
    assert len(set(idents)) == 1
    assert whom == ("a",) * 9
