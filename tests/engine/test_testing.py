"""What holdfast.testing gives to those who test their own steps."""

from __future__ import annotations

from collections.abc import Iterator

import holdfast
from holdfast.testing import document

papers = holdfast.Pipeline("papers")


@papers.step
def extract(doc: holdfast.Document, cursor: int = 0) -> Iterator[dict[str, str]]:
    yield {"text": doc.payload["text"][cursor:]}


@papers.step
def title(doc: holdfast.Document) -> str:
    return doc.output(extract)[0]["text"].title()


@papers.step
def pair(doc: holdfast.Document) -> list[str]:
    return [doc.output(title), *(page["text"] for page in doc.each(extract))]


def test_a_step_is_tested_by_calling_it() -> None:
    assert list(extract(document(payload={"text": "moby dick"}))) == [{"text": "moby dick"}]


def test_earlier_outputs_are_given() -> None:
    doc = document(outputs={extract: [{"text": "a"}, {"text": "b"}], title: "A"})
    assert pair(doc) == ["A", "a", "b"]
