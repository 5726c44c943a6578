"""Items that were set aside are listed over all documents and tried again, and later steps follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.core.reasons import ITEMS_REDRIVEN
from holdfast.ops.cleanup import Retention, cleanup


@pytest.fixture
def store(any_store: holdfast.Store) -> holdfast.Store:
    with any_store.transaction() as tx:
        tx.execute("create table reading (document_id bigint, page integer)")
        tx.execute("create table total (document_id bigint, pages integer)")
    return any_store


class Papers:
    """Steps: pages (a stream), read (over pages, rows of a table), review (a gate, if asked for) and count."""

    def __init__(self, store: holdfast.Store, *, gate: bool = False, size: int | None = None, **options: Any) -> None:
        self.store = store
        self.bad: set[int] = set()
        self.calls: Counter[tuple[str, int]] = Counter()
        self.pipeline = holdfast.Pipeline("papers")
        options = {"failure_rate": 1.0, "retry": holdfast.Retry(attempts=1), **options}

        @self.pipeline.step
        def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
            yield from range(cursor, doc.payload)

        def read_one(doc: holdfast.Document, page: int) -> str:
            self.calls[doc.key, page] += 1
            if page in self.bad:
                raise ValueError(f"page {page} cannot be read")
            return f"text {page}"

        def read_window(doc: holdfast.Document, window: list[int]) -> list[str]:
            return [read_one(doc, page) for page in window]

        self.read = self.pipeline.step(over=pages, size=size, name="read", **options)(read_window if size else read_one)
        rows = (lambda doc, texts: [{"page": int(text[5:])} for text in texts]) if size else _row
        self.read.rows("reading")(rows)
        if gate:
            self.pipeline.gate("review")

        @self.pipeline.step
        def count(doc: holdfast.Document) -> int:
            self.calls[doc.key, -1] += 1
            return sum(1 for _ in doc.each(self.read)) if self.read.options.keep else -1

        count.rows("total")(lambda doc, number: [{"pages": number}])
        self.count = count

    def run(self, **payloads: int) -> holdfast.Report:
        holdfast.submit(self.pipeline, self.store, batch="b", documents=[*payloads.items()])
        return self.drain()

    def drain(self) -> holdfast.Report:
        self.calls.clear()
        return holdfast.drain(self.pipeline, self.store, threads=2)

    def items(self, **which: Any) -> list[str]:
        return [item.id for item in holdfast.set_aside_items(self.store, "papers", **which)]

    def redrive(self, **which: Any) -> list[str]:
        items = holdfast.set_aside_items(self.store, "papers", **which)
        return [
            one.id
            for one in holdfast.redrive_items(self.store, "papers", items, who="ann", reason="the service is back")
        ]

    def output(self, step: str, key: str = "a") -> Any:
        return holdfast.output(self.store, "papers", "b", key, step)

    def tables(self, key: str = "a") -> tuple[list[int], list[int]]:
        number = self.store.document("papers", "b", key).id
        with self.store.transaction() as tx:
            pages = tx.execute(f"select page from reading where document_id = {number} order by page").fetchall()
            totals = tx.execute(f"select pages from total where document_id = {number}").fetchall()
        return [page for (page,) in pages], [total for (total,) in totals]

    def state(self, key: str = "a") -> str:
        return self.store.document("papers", "b", key).state


def _row(doc: holdfast.Document, text: str) -> list[dict[str, int]]:
    return [{"page": int(text[5:])}]


@pytest.fixture
def papers(store: holdfast.Store) -> Papers:
    papers = Papers(store)
    papers.bad = {3, 7}
    return papers


def test_items_of_all_documents_are_listed_with_their_errors(papers: Papers) -> None:
    papers.run(a=10, c=5)
    items = list(holdfast.set_aside_items(papers.store, papers.pipeline))
    assert [item.id for item in items] == ["b/a/read[3]", "b/a/read[7]", "b/c/read[3]"]
    assert {item.state for item in items} == {"done"}
    assert [str(item.error) for item in items] == [f"ValueError: page {page} cannot be read" for page in (3, 7, 3)]
    assert [item.tries for item in items] == [1, 1, 1]


def test_items_are_selected_by_batch_key_step_class_and_text(papers: Papers) -> None:
    papers.run(a=10, c=5)
    assert papers.items(key="c") == papers.items(key="?", batch="b", text="PAGE 3")[1:] == ["b/c/read[3]"]
    assert papers.items(text="page 7") == papers.items(key="a*", text="page 7") == ["b/a/read[7]"]
    assert len(papers.items(step="read", error="ValueError")) == 3
    assert papers.items(step="count") == papers.items(error="OSError") == papers.items(batch="c") == []
    assert papers.items(text="100%") == papers.items(text="page_3") == []


def test_only_the_items_that_are_redriven_run_again_and_later_steps_follow(papers: Papers) -> None:
    papers.run(a=10)
    assert (papers.output("count"), papers.tables()) == (8, ([0, 1, 2, 4, 5, 6, 8, 9], [8]))
    papers.bad = set()
    assert papers.redrive(text="page 3") == ["b/a/read[3]"]
    assert papers.drain().done == 1
    assert papers.calls == {("a", 3): 1, ("a", -1): 1}
    assert papers.output("read") == [f"text {page}" for page in (0, 1, 2, 3, 4, 5, 6, 8, 9)]
    assert (papers.output("count"), papers.tables()) == (9, ([0, 1, 2, 3, 4, 5, 6, 8, 9], [9]))
    assert papers.items() == ["b/a/read[7]"]


def test_each_redrive_is_in_the_journal_with_who_why_and_the_items(papers: Papers) -> None:
    papers.run(a=10)
    papers.redrive()
    line = papers.store.journal(papers.store.document("papers", "b", "a").id)[-1]
    assert (line.verb, line.who, line.step, line.code) == ("rewind", "ann", "read", ITEMS_REDRIVEN)
    assert (line.detail["reason"], line.detail["items"]) == ("the service is back", [3, 7])
    assert (line.detail["was"], line.detail["state"]) == ("done", "waiting")


def test_a_redrive_that_is_repeated_changes_nothing(papers: Papers) -> None:
    papers.run(a=10)
    items = list(holdfast.set_aside_items(papers.store, "papers"))
    again = {"who": "ann", "reason": "again"}
    assert holdfast.redrive_items(papers.store, "papers", items, **again) == items
    before = papers.store.document("papers", "b", "a")
    assert holdfast.redrive_items(papers.store, "papers", items, **again) == []
    assert papers.store.document("papers", "b", "a") == before
    papers.bad = set()
    papers.drain()
    assert holdfast.redrive_items(papers.store, papers.pipeline, items, **again) == []
    assert (papers.state(), papers.calls["a", 3]) == ("done", 1)


def test_an_item_that_fails_again_is_set_aside_again(papers: Papers) -> None:
    papers.run(a=10)
    for _ in range(2):
        assert papers.redrive() == ["b/a/read[3]", "b/a/read[7]"]
        assert papers.drain().done == 1
        assert papers.calls == {("a", 3): 1, ("a", 7): 1, ("a", -1): 1}
        assert papers.items() == ["b/a/read[3]", "b/a/read[7]"]
        assert (papers.output("count"), papers.tables()) == (8, ([0, 1, 2, 4, 5, 6, 8, 9], [8]))


def test_readers_see_the_earlier_output_until_the_new_one_is_complete(papers: Papers) -> None:
    papers.run(a=10)
    papers.bad = set()
    papers.redrive()
    assert (papers.output("count"), len(papers.output("read"))) == (8, 8)
    papers.drain()
    assert (papers.output("count"), len(papers.output("read"))) == (10, 10)


def test_a_dead_letter_with_too_many_failures_goes_on(store: holdfast.Store) -> None:
    papers = Papers(store, failure_rate=0.1)
    papers.bad = {3, 7}
    assert papers.run(a=10).dead == 1
    papers.bad = set()
    store.redrive([store.document("papers", "b", "a").id], who="ann", reason="try")
    assert papers.drain().dead == 1, "the items have no attempts left"
    assert papers.redrive() == ["b/a/read[3]", "b/a/read[7]"]
    assert papers.drain().done == 1
    assert papers.calls == {("a", 3): 1, ("a", 7): 1, ("a", -1): 1}
    assert papers.tables() == (list(range(10)), [10])


def test_windows_of_a_step_with_a_size_hold_only_the_items_that_are_redriven(store: holdfast.Store) -> None:
    papers = Papers(store, size=4, parallel=2)
    papers.bad = {0, 3, 4, 9}
    papers.run(a=10)
    papers.bad = {4}
    assert len(papers.redrive()) == 4
    papers.drain()
    assert {page for _, page in papers.calls} == {0, 3, 4, 9, -1}
    assert papers.items() == ["b/a/read[4]"]
    assert papers.tables() == ([0, 1, 2, 3, 5, 6, 7, 8, 9], [9])


def test_a_step_with_one_item_that_failed_does_it_again(store: holdfast.Store) -> None:
    papers = Papers(store)
    papers.bad = {0}
    papers.run(a=1)
    assert papers.output("count") == 0
    papers.bad = set()
    assert papers.redrive() == ["b/a/read[0]"]
    assert papers.drain().done == 1
    assert (papers.output("read"), papers.tables()) == (["text 0"], ([0], [1]))


def test_a_step_that_keeps_nothing_does_only_its_failed_items_again(store: holdfast.Store) -> None:
    papers = Papers(store, keep=False)
    papers.bad = {2}
    papers.run(a=4)
    papers.bad = set()
    assert papers.redrive() == ["b/a/read[2]"]
    assert papers.drain().done == 1
    assert (papers.calls[("a", 2)], papers.calls[("a", 0)]) == (1, 0)
    assert papers.tables()[0] == [0, 1, 2, 3]


def test_a_document_at_a_gate_comes_to_the_gate_again(store: holdfast.Store) -> None:
    papers = Papers(store, gate=True)
    papers.bad = {1}
    papers.run(a=3)
    assert (papers.state(), papers.items()) == ("paused", ["b/a/read[1]"])
    papers.bad = set()
    papers.redrive()
    papers.drain()
    here = store.document("papers", "b", "a")
    assert (here.state, here.checkpoint.step, papers.items()) == ("paused", "review", [])
    store.resume(store.declare(papers.pipeline.shape()), [here.id], who="ann", reason="complete")
    papers.drain()
    assert papers.output("count") == 3


def test_documents_that_a_person_stopped_are_left_as_they_are(store: holdfast.Store) -> None:
    papers = Papers(store, gate=True)
    papers.bad = {1}
    papers.run(a=3, c=3)
    a, c = (store.document("papers", "b", key) for key in "ac")
    store.cancel([a.id], who="ann", reason="not needed")
    plan = store.declare(papers.pipeline.shape())
    store.resume(plan, [c.id], who="ann", reason="good")
    store.pause([c.id], who="ann", reason="wait")
    assert papers.items() == ["b/c/read[1]"]
    assert papers.redrive() == []
    store.resume(plan, [c.id], who="ann", reason="go on")
    assert papers.redrive() == ["b/c/read[1]"]


def test_documents_of_another_version_of_the_step_are_left_as_they_are(papers: Papers, store: holdfast.Store) -> None:
    papers.run(a=10)
    later = Papers(store, version=2)
    store.declare(later.pipeline.shape())
    assert papers.redrive() == []
    assert papers.state() == "done"


def test_a_renamed_step_has_its_items_under_its_new_name(papers: Papers, store: holdfast.Store) -> None:
    papers.run(a=10)
    renamed = holdfast.Pipeline("papers", renamed={"read": "ocr"})
    pages = renamed.step(name="pages")(papers.pipeline["pages"].body)
    ocr = renamed.step(over=pages, name="ocr", failure_rate=1.0)(lambda doc, page: f"text {page}")
    ocr.rows("reading")(_row)
    renamed.step(name="count")(lambda doc: len(doc.output(ocr)))
    items = list(holdfast.set_aside_items(store, renamed))
    assert [item.step for item in items] == ["read", "read"], "not declared yet"
    store.declare(renamed.shape())
    items = list(holdfast.set_aside_items(store, renamed))
    assert [item.id for item in items] == ["b/a/ocr[3]", "b/a/ocr[7]"]
    assert len(holdfast.redrive_items(store, renamed, items, who="ann", reason="again")) == 2
    assert holdfast.drain(renamed, store).done == 1
    assert holdfast.output(store, renamed, "b", "a", "count") == 10


def test_a_document_that_was_cleaned_up_has_no_items_to_redrive(papers: Papers, store: holdfast.Store) -> None:
    papers.run(a=10)
    items = list(holdfast.set_aside_items(store, "papers"))
    cleanup(store, Retention(older=timedelta(0), with_errors=True), who="ann")
    assert papers.items() == []
    assert holdfast.redrive_items(store, "papers", items, who="ann", reason="again") == []


def test_the_earliest_step_counts_if_items_of_several_steps_are_redriven(store: holdfast.Store) -> None:
    pipeline = holdfast.Pipeline("papers")
    options = {"failure_rate": 1.0, "retry": holdfast.Retry(attempts=1)}
    bad = {2}
    pages = pipeline.step(name="pages")(lambda doc: [0, 1, 2, 3])

    def fail(doc: holdfast.Document, page: int) -> int:
        if page in bad or (doc.step == "second" and page == 1 and bad):
            raise ValueError("bad")
        return page

    first = pipeline.step(over=pages, name="first", **options)(fail)
    pipeline.step(over=first, name="second", **options)(fail)
    holdfast.submit(pipeline, store, batch="b", documents=[("a", None)])
    holdfast.drain(pipeline, store, threads=2)
    items = list(holdfast.set_aside_items(store, pipeline))
    assert [item.id for item in items] == ["b/a/first[2]", "b/a/second[1]"]
    (last,) = [item for item in items if item.step == "second"]
    bad.clear()
    again = holdfast.redrive_items(store, pipeline, items, who="ann", reason="mended")
    assert [item.step for item in again] == ["first"]
    holdfast.drain(pipeline, store, threads=2)
    assert holdfast.output(store, pipeline, "b", "a", "second") == [0, 1, 2, 3]
    assert holdfast.redrive_items(store, pipeline, [last], who="ann", reason="late") == []


def test_a_redrive_of_an_unknown_pipeline_names_those_that_the_store_has(papers: Papers) -> None:
    papers.run(a=1)
    with pytest.raises(holdfast.UnknownDocument, match="no pipeline 'paper'; it has: papers"):
        holdfast.redrive_items(papers.store, "paper", [], who="ann", reason="again")
