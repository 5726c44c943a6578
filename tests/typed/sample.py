"""Read by a strict type checker, not run: what `doc.output` gives for every shape of body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import TypedDict, assert_type

import holdfast
from holdfast import At, Document, Pipeline, Tx

papers = Pipeline("papers")


class Page(TypedDict):
    number: int
    text: str


@papers.step
def extract(doc: Document, cursor: int = 0) -> Iterator[Page]:
    yield {"number": cursor, "text": ""}


@papers.step(commit_every=10)
async def fetch(doc: Document, cursor: int = 0) -> AsyncIterator[bytes]:
    yield b""


@papers.step
def search(doc: Document, cursor: dict[str, str] | None = None) -> Iterator[At[str]]:
    yield At({"after": "a"}, "a")


@papers.step
def count(doc: Document) -> int:
    return len(doc.output(extract))


@papers.step
async def title(doc: Document) -> str | None:
    return None


@papers.step(version=2, retry=holdfast.Retry(attempts=5))
def chunk(doc: Document) -> list[str]:
    return [page["text"] for page in doc.output(extract)]


@papers.step(over=chunk, size=64, parallel=3)
async def embed(doc: Document, chunks: list[str]) -> list[list[float]]:
    return [[0.0] for _ in chunks]


@papers.step(over=chunk)
def score(doc: Document, text: str) -> float:
    return 0.0


@embed.effect
def store(tx: Tx, doc: Document, vectors: list[list[float]]) -> None:
    tx.executemany("insert into vectors values (?)", vectors)


@embed.verify
def stored(doc: Document) -> bool:
    return True


def look(doc: Document) -> None:
    assert_type(doc.output(extract), list[Page])
    assert_type(doc.output(fetch), list[bytes])
    assert_type(doc.output(search), list[str])
    assert_type(doc.output(count), int)
    assert_type(doc.output(title), str | None)
    assert_type(doc.output(chunk), list[str])
    assert_type(doc.output(embed), list[list[float]])
    assert_type(doc.output(score), list[float])
    assert_type(list(doc.each(extract)), list[Page])
    assert_type(list(doc.each(chunk)), list[str])
    assert_type(count(doc), int)
    assert_type(next(extract(doc)), Page)


@papers.closing
def tally(doc: holdfast.Document) -> int:
    return len(doc.key)


@papers.closing(version=2)
def notify(doc: holdfast.Document) -> str:
    assert_type(doc.output(tally), int)
    return doc.key


def close() -> None:
    with holdfast.open("memory://") as store:
        report = holdfast.close(papers, store, batch="march", who="ann", reason="all in", tolerate=0.05)
        assert_type(report, holdfast.BatchReport)


def run() -> None:
    with holdfast.open("memory://") as store:
        holdfast.drain(papers, store, batch="march", threads=2, concurrency=10, listeners=[print])
        report = holdfast.work(
            papers, store, budget=timedelta(hours=1), lease=timedelta(minutes=1), grace=timedelta(0), name="ann"
        )
        assert_type(report, holdfast.Report)
