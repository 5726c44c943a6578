"""Withdraw: documents are cancelled, and the undo of each step that wrote rows runs once, later steps first."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast.stores.protocol import Store


@pytest.fixture
def store(any_store: Store) -> Store:
    with any_store.transaction() as tx:
        tx.execute("create table page (document_id bigint, number integer)")
        tx.execute("create table total (pages integer)")
        tx.execute("insert into total values (0)")
    return any_store


class Papers:
    """Steps: read (rows of a table) and count (a sum). The undo of a document whose payload says so fails."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pipeline = holdfast.Pipeline("papers")
        self.undone: list[tuple[str, str, int]] = []
        read = self.pipeline.step(name="read")(lambda doc: doc.payload["pages"])
        read.rows("page")(lambda doc, pages: [{"number": number} for number in range(pages)])
        read.undo(lambda tx, doc: self.undone.append((doc.key, doc.step, doc.generation)))
        count = self.pipeline.step(name="count")(lambda doc: doc.payload["pages"])
        count.effect(lambda tx, doc, pages: tx.execute(f"update total set pages = pages + {pages}"))
        count.undo(self._subtract)

    def _subtract(self, tx: holdfast.Tx, doc: holdfast.Document) -> None:
        tx.execute(f"update total set pages = pages - {doc.payload['pages']}")
        if doc.payload.get("stuck"):
            raise ValueError("this cannot be undone")
        self.undone.append((doc.key, doc.step, doc.generation))

    def run(self, **payloads: Any) -> None:
        holdfast.submit(self.pipeline, self.store, batch="b", documents=[*payloads.items()])
        holdfast.drain(self.pipeline, self.store)

    def withdraw(self, *keys: str) -> list[str]:
        ids = {self.store.document("papers", "b", key).id: key for key in keys}
        withdrawn = holdfast.withdraw(self.pipeline, self.store, [*ids], who="ann", reason="taken back")
        return [ids[number] for number in withdrawn]

    def tables(self) -> tuple[int, int]:
        with self.store.transaction() as tx:
            (pages,) = tx.execute("select count(*) from page").fetchone()
            (total,) = tx.execute("select pages from total").fetchone()
        return pages, total


def test_a_withdrawn_document_leaves_no_rows(store: Store) -> None:
    papers = Papers(store)
    papers.run(a={"pages": 3}, b={"pages": 5})
    assert papers.withdraw("a") == ["a"]
    assert papers.tables() == (5, 5)
    assert papers.undone == [("a", "count", 0), ("a", "read", 0)]
    assert papers.withdraw("a") == []
    assert papers.tables() == (5, 5)
    assert store.document("papers", "b", "a").state == "cancelled"
    papers.run(a={"pages": 2})  # changed, so it starts again
    assert papers.tables() == (7, 7)
    assert papers.undone == [("a", "count", 0), ("a", "read", 0)]


def test_only_steps_that_wrote_rows_are_undone(store: Store) -> None:
    papers = Papers(store)
    holdfast.submit(papers.pipeline, store, batch="b", documents=[("a", {"pages": 3})])
    assert papers.withdraw("a") == ["a"]
    assert papers.undone == []
    assert papers.tables() == (0, 0)


def test_the_generation_that_wrote_the_rows_is_undone(store: Store) -> None:
    papers = Papers(store)
    papers.run(a={"pages": 3})
    plan = store.declare(papers.pipeline.shape())
    number = store.document("papers", "b", "a").id
    store.rewind_to(plan, [number], to="count", who="ann", reason="again")
    papers.run()
    papers.undone.clear()
    papers.withdraw("a")
    assert papers.undone == [("a", "count", 1), ("a", "read", 0)]
    assert papers.tables() == (0, 0)


def test_a_document_whose_undo_fails_stays_and_the_others_go(store: Store) -> None:
    papers = Papers(store)
    papers.run(a={"pages": 1}, b={"pages": 2, "stuck": True}, c={"pages": 4})
    with pytest.raises(holdfast.UndoFailed, match=r"b of b: the undo of step 'count' failed.*this cannot be undone"):
        papers.withdraw("a", "b", "c")
    assert papers.tables() == (2, 2)
    assert {key: store.document("papers", "b", key).state for key in "abc"} == {
        "a": "cancelled",
        "b": "done",
        "c": "cancelled",
    }


@pytest.mark.parametrize("any_store", ["sqlite", "postgres"], indirect=True)
def test_a_document_from_before_effects_were_recorded_is_undone_in_all_steps_that_it_passed(store: Store) -> None:
    papers = Papers(store)
    papers.run(a={"pages": 3})
    with store.transaction() as tx:
        tx.execute("update hf_document set effects = null")
    assert papers.withdraw("a") == ["a"]
    assert papers.tables() == (0, 0)
    assert papers.withdraw("a") == []


def test_a_pipeline_without_an_undo_is_refused_before_anything_changes(store: Store) -> None:
    papers = Papers(store)
    papers.run(a={"pages": 3})
    papers.pipeline.step(name="log")(lambda doc: 1).effect(lambda tx, doc, value: None)
    with pytest.raises(holdfast.DefinitionError, match=r"the effect of log has no undo.*@log\.undo"):
        papers.withdraw("a")
    assert store.document("papers", "b", "a").state == "done"


def test_rows_of_a_step_that_the_pipeline_does_not_have_any_more_keep_their_document_from_being_withdrawn(
    store: Store,
) -> None:
    papers = Papers(store)
    papers.run(a={"pages": 3})
    papers.pipeline = holdfast.Pipeline("papers")
    papers.pipeline.step(name="count")(lambda doc: doc.payload["pages"]).undo(papers._subtract)
    holdfast.submit(papers.pipeline, store, batch="b", documents=[("b", {"pages": 1})])
    with pytest.raises(holdfast.UndoFailed, match=r"a of b: .* step 'read' wrote, .* no such step any more"):
        papers.withdraw("a", "b")
    assert papers.tables() == (3, 3)
    assert [store.document("papers", "b", key).state for key in "ab"] == ["done", "cancelled"]


def test_rows_of_a_step_that_has_no_effect_and_no_undo_any_more_keep_their_document_from_being_withdrawn(
    store: Store,
) -> None:
    papers = Papers(store)
    papers.run(a={"pages": 3})
    later = holdfast.Pipeline("papers")
    later.step(name="read")(lambda doc: doc.payload["pages"])
    later.step(name="count")(lambda doc: doc.payload["pages"]).undo(papers._subtract)
    papers.pipeline = later
    with pytest.raises(holdfast.UndoFailed, match=r"a of b: .* step 'read' wrote, because that step has no undo"):
        papers.withdraw("a")
    assert papers.tables() == (3, 3)
    assert store.document("papers", "b", "a").state == "done"
