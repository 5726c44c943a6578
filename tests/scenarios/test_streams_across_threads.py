"""What a stream keeps between turns. Each commit ends a turn, and the next turn may run in another thread."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from decimal import Decimal, localcontext
from typing import Any

import pytest

import holdfast
from holdfast.engine.body_calls import BodyCaller
from holdfast.engine.executor_requests import Pulled, PullStream
from tests.support.pipeline_harness import NoReader, PipelineHarness

Doc = holdfast.Document

FOR_WHOM: ContextVar[str] = ContextVar("FOR_WHOM", default="nobody")


@pytest.fixture
def threads() -> Iterator[tuple[ThreadPoolExecutor, ...]]:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        yield one, two


@pytest.fixture
def take_turns(
    pipeline: holdfast.Pipeline, threads: tuple[ThreadPoolExecutor, ...]
) -> Callable[[Callable[..., Any]], list[Any]]:
    """A function that runs three turns of a stream in two threads, as the runners of a worker may do."""

    def turns(body: Callable[..., Any]) -> list[Any]:
        step = pipeline.step(commit_every=1)(body)
        caller = BodyCaller(pipeline, Doc(pipeline="p", batch="b", key="a", reader=NoReader()), stopping=lambda: False)
        values: list[Any] = []
        for turn in range(3):
            pull = PullStream(step.name, turn or None, turn)
            pulled: Pulled = threads[turn % 2].submit(caller.run, pull).result()
            values += [item.value for item in pulled.items] if pulled.error is None else [pulled.error]
        return values

    return turns


TakeTurns = Callable[[Callable[..., Any]], list[Any]]


def test_the_turns_of_a_stream_may_run_in_different_threads(take_turns: TakeTurns) -> None:
    def body(doc: Doc, cursor: int = 0) -> Iterator[bool]:
        first = threading.get_ident()
        while True:
            yield threading.get_ident() == first

    assert take_turns(body) == ["true", "false", "true"]


def test_a_stream_keeps_its_context_variables_between_turns(take_turns: TakeTurns) -> None:
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


def test_a_connection_bound_to_one_thread_fails_with_its_own_error(take_turns: TakeTurns) -> None:
    def body(doc: Doc, cursor: int = 0) -> Iterator[int]:
        db = sqlite3.connect(":memory:")
        for number in range(3):
            yield db.execute("select ?", (number,)).fetchone()[0]

    first, second, *_ = take_turns(body)
    assert first == "0"
    assert "can only be used in that same thread" in str(second)


def test_context_variables_of_a_stream_do_not_leak_to_others(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step(commit_every=1)
    def pages(doc: Doc, cursor: int = 0) -> Iterator[str]:
        yield FOR_WHOM.get()
        FOR_WHOM.set(doc.key)
        yield FOR_WHOM.get()
        yield FOR_WHOM.get()

    harness.submit("a", "b", "c")
    assert harness.drain(threads=1).done == 3
    assert [harness.kept("pages", key) for key in "abc"] == [["nobody", key, key] for key in "abc"]


def test_a_stream_that_is_stopped_early_cleans_up_in_its_context(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
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
    harness.submit("a")
    harness.drain(budget=budget)
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
    pipeline: holdfast.Pipeline, harness: PipelineHarness, body: Any, runs_in: Any
) -> None:
    pipeline.step(name="pages", commit_every=1, runs_in=runs_in)(body)
    harness.submit("a")
    assert harness.drain().done == 1
    idents, whom = zip(*harness.kept("pages"), strict=True)
    assert len(set(idents)) == 1
    assert whom == ("a",) * 9
