"""A stream that yields inside a transaction of the store is refused: the worker and other documents go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

import holdfast
from holdfast.stores.protocol import Store

SHAPES = ["thread", "async", "process"]


@pytest.fixture
def store(any_store: Store) -> Store:
    with any_store.transaction() as tx:
        tx.execute("create table word (word text)")
        tx.execute("insert into word values ('a'), ('b'), ('c')")
    return any_store


def _pipeline(store: Store, block: str, shape: str) -> holdfast.Pipeline:
    """Return a pipeline whose stream yields inside a block, for documents with a payload. It reads words with it."""
    pipeline = holdfast.Pipeline("words")

    def words(doc: holdfast.Document, cursor: int = 0) -> Iterator[str]:
        with holdfast.open(store.url) if shape == "process" else nullcontext(store) as own:
            with getattr(own, block)() as tx:
                rows = [row[0] for row in tx.execute("select word from word order by word").fetchall()]
            if not doc.payload:
                yield from rows[cursor:]
                return
            with getattr(own, block)() as tx:
                if block == "transaction":
                    tx.execute("insert into word values ('not kept')")
                for (word,) in tx.execute("select word from word order by word").fetchall()[cursor:]:
                    yield word

    async def words_async(doc: holdfast.Document, cursor: int = 0) -> Any:
        for word in words(doc, cursor):
            yield word

    body = words_async if shape == "async" else words
    pipeline.step(name="words", runs_in="process" if shape == "process" else "thread")(body)
    return pipeline


@pytest.mark.parametrize("block", ["reading", "transaction"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_stream_that_yields_inside_a_transaction_fails_with_its_step(store: Store, block: str, shape: str) -> None:
    if shape == "process" and store.url == "memory://":
        pytest.skip("a memory store belongs to one process")
    pipeline = _pipeline(store, block, shape)
    documents = [("good 1", None), ("bad", {"yields": "inside"}), ("good 2", None)]
    holdfast.submit(pipeline, store, batch="b", documents=documents)
    report = holdfast.drain(pipeline, store, threads=2)
    assert (report.done, report.dead) == (2, 1)
    bad = store.document("words", "b", "bad")
    assert bad.state == "dead"
    assert bad.error == "BodyError"
    assert "step 'words' yields inside" in bad.reason
    assert [*store.items(bad.id)] == []
    with store.reading() as tx:
        assert [row[0] for row in tx.execute("select word from word order by word").fetchall()] == ["a", "b", "c"]
    assert [value for _, _, value in store.items(store.document("words", "b", "good 2").id)] == ['"a"', '"b"', '"c"']


def test_a_thread_of_the_body_may_have_a_transaction_while_the_stream_yields(store: Store) -> None:
    import asyncio

    pipeline = holdfast.Pipeline("words")

    def read_in_a_thread(begun: Any, goes_on: Any) -> list[str]:
        with store.reading() as tx:
            begun.set()
            assert goes_on.wait(60)
            return [row[0] for row in tx.execute("select word from word order by word").fetchall()]

    @pipeline.step(commit_every=1)
    async def words(doc: holdfast.Document, cursor: int = 0) -> Any:
        import threading

        begun, goes_on = threading.Event(), threading.Event()
        reading = asyncio.create_task(asyncio.to_thread(read_in_a_thread, begun, goes_on))
        await asyncio.to_thread(begun.wait, 60)
        yield "first"
        goes_on.set()
        for word in await reading:
            yield word

    if store.url == "memory://":
        pytest.skip("a memory store has one lock for all threads")
    holdfast.submit(pipeline, store, batch="b", documents=[("one", None)])
    assert holdfast.drain(pipeline, store).done == 1
