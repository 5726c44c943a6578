"""Documents for unit tests of steps."""

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


def test_a_step_can_be_called_with_a_document() -> None:
    assert list(extract(document(payload={"text": "moby dick"}))) == [{"text": "moby dick"}]


def test_a_body_reads_the_given_outputs_of_earlier_steps() -> None:
    doc = document(outputs={extract: [{"text": "a"}, {"text": "b"}], title: "A"})
    assert pair(doc) == ["A", "a", "b"]
