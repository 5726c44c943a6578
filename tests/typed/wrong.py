"""Checked by a strict type checker, not run: each marked line must be an error."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast
from holdfast import Document, Pipeline, Tx

papers = Pipeline("papers")


@papers.step
def extract(doc: Document, cursor: int = 0) -> Iterator[int]:
    yield cursor


def look(doc: Document) -> None:
    texts: list[str] = doc.output(extract)  # wrong: arg-type
    extract(1)  # wrong: arg-type
    doc.output("extract")  # wrong: arg-type
    print(texts)


@papers.step(size=3)  # wrong: call-overload
def lost(doc: Document) -> None: ...


@papers.step
def text(doc: Document) -> str:
    return doc.key


@papers.step(over=extract)
def square(doc: Document, number: int) -> int:
    return number * number


@papers.step(over=extract, size=4)
def cube(doc: Document, numbers: list[int]) -> list[int]:
    return [number**3 for number in numbers]


@extract.effect  # wrong: arg-type
def store_stream(tx: Tx, doc: Document, numbers: list[str]) -> None: ...


@text.effect  # wrong: arg-type
def store_value(tx: Tx, doc: Document, value: int) -> None: ...


@square.effect  # wrong: arg-type
def store_item(tx: Tx, doc: Document, numbers: list[int]) -> None: ...


@cube.effect  # wrong: arg-type
def store_window(tx: Tx, doc: Document, number: int) -> None: ...


@cube.rows("cube")  # wrong: arg-type
def rows_of_window(doc: Document, numbers: list[str]) -> list[dict[str, object]]:
    return []


@papers.step(over=extract, size=4)  # wrong: arg-type
def wrong_window(doc: Document, numbers: list[str]) -> list[str]:
    return numbers


@papers.step(over=extract)  # wrong: arg-type
def wrong_item(doc: Document, numbers: list[int]) -> int:
    return 1


@papers.step(over=extract, commit_every=3)  # wrong: call-overload
def windows_are_committed_as_they_end(doc: Document, number: int) -> int:
    return number


def run() -> None:
    with holdfast.open("memory://") as store:
        holdfast.drain(papers, store, thread=2)  # wrong: call-overload
        holdfast.work(papers, store, lease=30)  # wrong: arg-type
