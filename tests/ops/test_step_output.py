"""Output: what a step stored, as values, for readers that do not have the code of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.ops.cleanup import Retention, cleanup


@dataclass
class Page:
    number: int
    text: str


@pytest.fixture
def store(any_store: holdfast.Store) -> holdfast.Store:
    return any_store


class Papers:
    """Steps: read (a stream), count (a value), shout (over items), nothing (None) and hidden (keep=False)."""

    def __init__(self, store: holdfast.Store, **more: Any) -> None:
        self.store = store
        self.pipeline = holdfast.Pipeline("papers", **more)
        self.fails_at = ""

        @self.pipeline.step
        def read(doc: holdfast.Document, cursor: int = 0) -> Iterator[Page]:
            for number in range(cursor, doc.payload["pages"]):
                yield Page(number, doc.payload.get("text", "a"))

        @self.pipeline.step
        def count(doc: holdfast.Document) -> int:
            if self.fails_at == "count":
                raise holdfast.Reject("broken")
            return len(doc.output(read))

        @self.pipeline.step(over=read, failure_rate=1.0, retry=holdfast.Retry(attempts=1))
        def shout(doc: holdfast.Document, page: Page) -> str:
            if page.text == "bad" and page.number == 1:
                raise ValueError("page 1 is bad")
            return f"{page.text}{page.number}".upper()

        @self.pipeline.step
        def nothing(doc: holdfast.Document) -> None: ...

        @self.pipeline.step(keep=False)
        def hidden(doc: holdfast.Document) -> int:
            return 1

        self.read, self.count, self.shout, self.nothing, self.hidden = read, count, shout, nothing, hidden

    def run(self, key: str = "a", **payload: Any) -> None:
        holdfast.submit(self.pipeline, self.store, batch="b", documents=[(key, payload)])
        holdfast.drain(self.pipeline, self.store, threads=2)

    def output(self, step: Any, key: str = "a") -> Any:
        return holdfast.output(self.store, self.pipeline, "b", key, step)


@pytest.fixture
def papers(store: holdfast.Store) -> Papers:
    return Papers(store)


def test_a_step_gives_values_of_the_types_that_its_body_is_annotated_with(papers: Papers) -> None:
    papers.run(pages=2)
    assert papers.output(papers.read) == [Page(0, "a"), Page(1, "a")]
    assert papers.output(papers.count) == 2
    assert papers.output(papers.shout) == ["A0", "A1"]
    assert papers.output(papers.nothing) is None


def test_names_give_json_without_the_code_of_the_pipeline(papers: Papers) -> None:
    papers.run(pages=2)
    read = [holdfast.output(papers.store, "papers", "b", "a", step) for step in ("read", "count", "shout", "nothing")]
    assert read == [[{"number": 0, "text": "a"}, {"number": 1, "text": "a"}], 2, ["A0", "A1"], None]


def test_an_empty_list_and_an_empty_stream_are_lists(papers: Papers) -> None:
    papers.run(pages=0)
    assert papers.output(papers.read) == papers.output("read") == papers.output("shout") == []


def test_items_that_were_set_aside_are_left_out(papers: Papers) -> None:
    papers.run(pages=3, text="bad")
    assert papers.output("shout") == papers.output(papers.shout) == ["BAD0", "BAD2"]


def test_large_values_come_from_blobs(papers: Papers) -> None:
    papers.run(pages=1, text="x" * 200_000)
    (page,) = papers.output(papers.read)
    assert page.text == "x" * 200_000


def test_items_are_read_one_after_the_other(papers: Papers) -> None:
    papers.run(pages=2500)
    where = (papers.store, papers.pipeline, "b", "a")
    assert [page.number for page in holdfast.iter_output(*where, papers.read)] == list(range(2500))
    assert sum(1 for _ in holdfast.iter_output(*where, "shout")) == 2500
    assert list(holdfast.iter_output(*where, papers.count)) == list(holdfast.iter_output(*where, "count")) == [2500]


def test_an_unfinished_document_gives_the_output_of_the_steps_that_it_has_ended(papers: Papers) -> None:
    papers.fails_at = "count"
    papers.run(pages=2)
    assert len(papers.output("read")) == 2
    with pytest.raises(holdfast.OutputMissing, match=r"dead in this step .Reject: broken"):
        papers.output("count")
    with pytest.raises(holdfast.OutputMissing, match=r"dead at step .count. .Reject: broken"):
        papers.output(papers.shout)


def test_a_document_that_waits_has_no_output_yet(papers: Papers) -> None:
    holdfast.submit(papers.pipeline, papers.store, batch="b", documents=[("a", {"pages": 1})])
    with pytest.raises(holdfast.OutputMissing, match="no output yet: the document is waiting in this step"):
        papers.output("read")


def test_the_last_complete_work_is_read_until_the_new_work_is_complete(papers: Papers) -> None:
    papers.run(pages=2)
    papers.fails_at = "count"
    papers.run(pages=3, text="new")
    assert papers.store.document("papers", "b", "a").state == "dead"
    assert papers.output(papers.read) == [Page(0, "a"), Page(1, "a")]
    assert (papers.output("count"), papers.output("shout")) == (2, ["A0", "A1"])
    papers.fails_at = ""
    here = papers.store.document("papers", "b", "a")
    papers.store.redrive([here.id], who="ann", reason="mended")
    holdfast.drain(papers.pipeline, papers.store, threads=2)
    assert (papers.output("count"), papers.output("shout")) == (3, ["NEW0", "NEW1", "NEW2"])


def test_a_rewound_document_gives_the_steps_that_it_reuses_and_those_that_it_did_again(papers: Papers) -> None:
    papers.run(pages=2)
    plan = papers.store.declare(papers.pipeline.shape())
    here = papers.store.document("papers", "b", "a")
    papers.store.rewind_to(plan, [here.id], to="shout", who="ann", reason="again")
    assert (len(papers.output("read")), papers.output("shout")) == (2, ["A0", "A1"])
    holdfast.drain(papers.pipeline, papers.store, threads=2)
    assert (len(papers.output("read")), papers.output("count"), papers.output("shout")) == (2, 2, ["A0", "A1"])


def test_output_that_is_replaced_during_an_iteration_is_an_error(papers: Papers) -> None:
    papers.run(pages=2)
    pages = holdfast.iter_output(papers.store, "papers", "b", "a", "read")
    next(pages)
    papers.run(pages=2, text="new")
    with pytest.raises(holdfast.StoreError, match="replaced while it was read"):
        list(pages)


def test_a_renamed_step_is_found_under_its_new_name(papers: Papers) -> None:
    papers.run(pages=2)
    renamed = holdfast.Pipeline("papers", renamed={"read": "extract"})

    @renamed.step
    def extract(doc: holdfast.Document, cursor: int = 0) -> Iterator[Page]:
        yield Page(0, "")

    assert len(holdfast.output(papers.store, renamed, "b", "a", extract)) == 2, "not declared yet"
    papers.store.declare(renamed.shape())
    assert holdfast.output(papers.store, renamed, "b", "a", extract) == [Page(0, "a"), Page(1, "a")]
    assert papers.output("shout") == ["A0", "A1"], "a step that was removed"
    with pytest.raises(holdfast.UnknownStep, match="it has: extract"):
        papers.output("read")


def test_a_step_that_was_added_later_has_no_output(papers: Papers) -> None:
    papers.run(pages=2)
    later = papers.pipeline.step(name="later")(lambda doc: 1)
    papers.store.declare(papers.pipeline.shape())
    with pytest.raises(holdfast.OutputMissing, match="did not exist when the document was done"):
        papers.output(later)


def test_steps_that_keep_nothing_have_no_output(papers: Papers) -> None:
    papers.pipeline.gate("review")
    papers.run(pages=1)
    for step in (papers.hidden, "hidden"):
        with pytest.raises(holdfast.OutputMissing, match="keeps nothing"):
            papers.output(step)
    with pytest.raises(holdfast.OutputMissing, match="is a gate"):
        papers.output("review")


def test_output_that_was_cleaned_up_is_said_to_be_so(papers: Papers) -> None:
    papers.run(pages=1)
    cleanup(papers.store, Retention(older=timedelta(0)), who="ann")
    with pytest.raises(holdfast.OutputMissing, match="was cleaned up"):
        papers.output("read")


def test_unknown_names_are_named(papers: Papers) -> None:
    papers.run(pages=1)
    with pytest.raises(holdfast.UnknownStep, match="did you mean 'shout'"):
        papers.output("shuot")
    with pytest.raises(holdfast.UnknownDocument, match="no document 'z'"):
        papers.output("read", key="z")
    with pytest.raises(holdfast.UnknownBatch, match="no batch 'c'; it has: b"):
        holdfast.output(papers.store, "papers", "c", "a", "read")
    with pytest.raises(holdfast.UnknownDocument, match="no pipeline 'paper'; it has: papers"):
        holdfast.output(papers.store, "paper", "b", "a", "read")


def test_values_of_another_type_than_annotated_now_can_be_read_by_name(papers: Papers) -> None:
    papers.run(pages=1)
    other = holdfast.Pipeline("papers")

    @other.step
    def count(doc: holdfast.Document) -> str:
        return ""

    with pytest.raises(holdfast.StoreError, match=r"not of the type .* Read it by the name"):
        holdfast.output(papers.store, other, "b", "a", count)
    assert holdfast.output(papers.store, other, "b", "a", "count") == 1


def test_a_store_can_be_named_in_an_annotation(store: holdfast.Store) -> None:
    def count(store: holdfast.Store) -> list[str]:
        return store.pipelines()

    assert count(store) == []
