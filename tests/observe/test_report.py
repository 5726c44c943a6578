"""The report of a worker counts what it did."""

from __future__ import annotations

from collections import Counter

import holdfast
from tests.support.pipeline_harness import SOON, PipelineHarness


def test_an_item_that_is_set_aside_is_counted_once_however_often_it_fails(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    tries: Counter[int] = Counter()

    @pipeline.step
    def pages(doc: holdfast.Document) -> list[int]:
        return list(range(30))

    @pipeline.step(over=pages, retry=holdfast.Retry(attempts=3, base=SOON.base, ceiling=SOON.base))
    def judge(doc: holdfast.Document, page: int) -> int:
        tries[page] += 1
        if page == 7 or (page == 20 and tries[page] < 2):
            raise OSError("no answer")
        return page

    harness.submit("a")
    report = harness.drain()
    assert (report.done, report.set_aside) == (1, 1), "page 20 was done later"
    assert (tries[7], tries[20]) == (3, 2)
    assert "1 items set aside" in str(report)


def test_items_that_were_set_aside_are_added_up_over_documents(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step
    def pages(doc: holdfast.Document) -> list[int]:
        return list(range(20))

    @pipeline.step(over=pages, retry=holdfast.Retry(attempts=1))
    def judge(doc: holdfast.Document, page: int) -> int:
        if page in ((3, 4) if doc.key == "a" else (9,)):
            raise OSError("no answer")
        return page

    harness.submit("a", "b", "c")
    report = harness.drain()
    assert (report.done, report.set_aside) == (3, 4)
    assert (report + report).set_aside == 8
