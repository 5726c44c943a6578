"""Checked by a strict type checker, not run: the type of `doc.output` for every kind of body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
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


@embed.rows("vector")
def vector_rows(doc: Document, vectors: list[list[float]]) -> list[dict[str, object]]:
    return [{"size": len(vector)} for vector in vectors]


@extract.effect
def store_pages(tx: Tx, doc: Document, pages: list[Page]) -> None:
    tx.executemany("insert into pages values (?)", [(page["text"],) for page in pages])


@search.effect
def store_names(tx: Tx, doc: Document, names: Sequence[str]) -> None: ...


@count.effect
def store_count(tx: Tx, doc: Document, number: int) -> None: ...


@title.effect
def store_title(tx: Tx, doc: Document, text: str | None) -> None: ...


@score.effect
def store_score(tx: Tx, doc: Document, number: float) -> None: ...


@score.rows("score")
def score_rows(doc: Document, number: float) -> list[dict[str, object]]:
    return [{"score": number}]


@papers.step(over=extract, size=10)
def forget(doc: Document, pages: list[Page]) -> None: ...


@forget.effect
def store_nothing(tx: Tx, doc: Document, value: None) -> None: ...


@papers.step(over=score, parallel=2)
async def rank(doc: Document, number: float, best: float = 1.0) -> str:
    return str(number / best)


@papers.step
def untyped(doc):  # type: ignore[no-untyped-def]
    return doc.key


@untyped.effect
def store_anything(tx: Tx, doc: Document, value: dict[str, int]) -> None: ...


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
    assert_type(doc.output(rank), list[str])
    assert_type(score(doc, "text"), float)
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


def results(store: holdfast.Store) -> None:
    where = (store, papers, "march", "a.pdf")
    assert_type(holdfast.output(*where, extract), list[Page])
    assert_type(holdfast.output(*where, count), int)
    assert_type(holdfast.output(*where, score), list[float])
    assert_type(holdfast.iter_output(*where, extract), Iterator[Page])
    assert_type(holdfast.drain(papers, store), holdfast.Report)
    assert_type(holdfast.drain(papers, store, key="a.pdf"), holdfast.DocumentResult)
