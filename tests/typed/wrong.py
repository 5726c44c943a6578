"""Read by a strict type checker, not run: each marked line has to be an error."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast
from holdfast import Document, Pipeline

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


def run() -> None:
    with holdfast.open("memory://") as store:
        holdfast.drain(papers, store, thread=2)  # wrong: call-arg
        holdfast.work(papers, store, lease=30)  # wrong: arg-type
