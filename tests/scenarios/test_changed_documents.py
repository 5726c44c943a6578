"""A document that is done again leaves the rows that a fresh run would leave. Each undo runs once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast.core.reasons import REMOVED_ROWS_LEFT, ROWS_LEFT, sentence
from holdfast.observe.logs import log_events
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import SOON

ONCE = holdfast.Retry(attempts=1)


@pytest.fixture
def store(any_store: Store) -> Store:
    return any_store


def sql(tx: holdfast.Tx, statement: str) -> str:
    return statement if tx.dialect == "sqlite" else statement.replace("?", "%s")


class Books:
    """Steps: read (a stream with rows of a table), mark (over pages), total (a value). Undo functions are logged.

    The payload says how many pages there are, where a body fails, and which pages cannot be marked.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pipeline = holdfast.Pipeline("books")
        self.is_there = self.is_torn = True
        self.undo: Callable[[holdfast.Tx, holdfast.Document], object] = lambda tx, doc: None
        self.effect: Callable[[holdfast.Tx, holdfast.Document], object] = lambda tx, doc: None
        self._add_total(self._add_pages())
        with store.transaction() as tx:
            for statement in (
                "create table page (document_id bigint, number integer)",
                "create table mark (key text, generation integer, number integer)",
                "create table total (pages integer, documents integer)",
                "create table undone (key text, step text, generation integer)",
                "insert into total values (0, 0)",
            ):
                tx.execute(statement)

    def _add_pages(self) -> Any:
        @self.pipeline.step(commit_every=2, retry=ONCE)
        def read(doc, cursor=0):
            for number in range(cursor, doc.payload["pages"]):
                if self.is_torn and number == doc.payload.get("torn at"):
                    raise ValueError("torn")
                yield number

        @read.rows("page")
        def pages(doc, numbers):
            return [{"number": number} for number in numbers]

        @read.verify
        def pages_are_there(doc):
            return self.is_there

        return read

    def _add_total(self, read: Any) -> None:
        @self.pipeline.step(over=read, size=2, parallel=2, retry=ONCE, failure_rate=1.0)
        def mark(doc, numbers):
            if set(numbers) & set(doc.payload.get("smudged", ())):
                raise ValueError("smudged")
            return numbers

        @mark.effect
        def add_marks(tx, doc, numbers):
            rows = [(doc.key, doc.generation, number) for number in numbers]
            tx.executemany(sql(tx, "insert into mark values (?, ?, ?)"), rows)

        @mark.undo
        def remove_marks(tx, doc):
            tx.execute(sql(tx, "delete from mark where key = ? and generation = ?"), (doc.key, doc.generation))
            self._log(tx, doc)

        @self.pipeline.step(retry=SOON)
        def total(doc):
            return doc.payload["pages"]

        @total.effect
        def add_up(tx, doc, pages):
            tx.execute("update total set documents = documents + 1")
            self.effect(tx, doc)

        @total.undo
        def subtract(tx, doc):
            tx.execute("update total set documents = documents - 1")
            self._log(tx, doc)
            self.undo(tx, doc)

    def _log(self, tx: holdfast.Tx, doc: holdfast.Document) -> None:
        tx.execute(sql(tx, "insert into undone values (?, ?, ?)"), (doc.key, doc.step, doc.generation))

    def run(self, documents: dict[str, Any], **more: Any) -> holdfast.Report:
        given = [
            (key, payload if isinstance(payload, dict) else {"pages": payload}) for key, payload in documents.items()
        ]
        holdfast.submit(self.pipeline, self.store, batch="b", documents=given)
        return holdfast.drain(self.pipeline, self.store, threads=2, **more)

    def rewind(self, key: str, to: str) -> None:
        plan = self.store.declare(self.pipeline.shape())
        assert self.store.rewind_to(plan, [self.id(key)], to=to, who="ann", reason="again")

    def id(self, key: str) -> int:
        return self.store.document("books", "b", key).id

    def state(self, key: str) -> str:
        return self.store.document("books", "b", key).state

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with self.store.transaction() as tx:
            return sorted(map(tuple, tx.execute(statement).fetchall()))

    def tables(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the pages, the marks and the number of documents, all without generations."""
        keys = {document.id: document.key for document in self.store.documents("books")}
        pages = sorted((keys[document_id], number) for document_id, number in self.rows("select * from page"))
        return pages, self.rows("select key, number from mark"), self.rows("select documents from total")

    def undone(self) -> list[tuple[Any, ...]]:
        return self.rows("select key, step, generation from undone")


def fresh(**pages: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the tables after a fresh run over documents with so many pages."""
    rows = sorted((key, number) for key, count in pages.items() for number in range(count))
    return rows, rows, [(len(pages),)]


def test_a_changed_document_replaces_its_rows(store: Store) -> None:
    books = Books(store)
    books.run({"a": 5, "b": 3})
    assert books.tables() == fresh(a=5, b=3)
    assert books.undone() == []
    books.run({"a": 2, "b": 3})
    assert books.tables() == fresh(a=2, b=3)
    assert books.undone() == [("a", "mark", 0), ("a", "total", 0)]
    books.run({"a": 7, "b": 3})
    assert books.tables() == fresh(a=7, b=3)
    assert books.undone() == [("a", "mark", 0), ("a", "mark", 1), ("a", "total", 0), ("a", "total", 1)]


def test_a_change_that_leaves_nothing_removes_the_rows_when_the_step_ends(store: Store) -> None:
    books = Books(store)
    books.run({"a": 5})
    books.run({"a": 0})
    assert books.tables() == ([], [], [(1,)])
    assert books.undone() == [("a", "mark", 0), ("a", "total", 0)]
    books.run({"a": 1})  # nothing to undo in `mark`: generation 1 wrote nothing there
    assert books.tables() == fresh(a=1)
    assert books.undone() == [("a", "mark", 0), ("a", "total", 0), ("a", "total", 1)]


def test_rows_of_a_generation_that_was_half_done_go_too(store: Store) -> None:
    books = Books(store)
    books.run({"a": {"pages": 7, "torn at": 5}})
    assert books.state("a") == "dead"
    assert books.tables() == ([("a", number) for number in range(5)], [], [(0,)])
    books.run({"a": 3})
    assert books.tables() == fresh(a=3)
    assert books.undone() == []


def test_a_generation_that_never_reached_a_step_leaves_its_rows_to_the_next_one(store: Store) -> None:
    books = Books(store)
    books.run({"a": 4})
    books.run({"a": {"pages": 4, "torn at": 0}})
    assert books.tables() == fresh(a=4)  # generation 1 came to nothing, so the rows of generation 0 are still there
    books.run({"a": 2})
    assert books.tables() == fresh(a=2)
    assert books.undone() == [("a", "mark", 0), ("a", "total", 0)]


def test_a_rewind_replaces_the_rows_from_its_step_on_and_no_others(store: Store) -> None:
    books = Books(store)
    books.run({"a": 4})
    books.rewind("a", "mark")
    books.run({"a": 4})
    assert books.tables() == fresh(a=4)
    assert books.undone() == [("a", "mark", 0), ("a", "total", 0)]
    assert books.rows("select distinct generation from mark") == [(1,)]
    books.rewind("a", "total")
    books.run({"a": 4})
    assert books.rows("select distinct generation from mark") == [(1,)]
    books.rewind("a", "read")
    books.run({"a": 4})
    assert books.tables() == fresh(a=4)
    assert books.undone() == [("a", "mark", 0), ("a", "mark", 1), *[("a", "total", made) for made in range(3)]]


def test_a_redrive_inside_a_step_undoes_nothing(store: Store) -> None:
    books = Books(store)
    books.run({"a": {"pages": 6, "torn at": 3}})
    books.is_torn = False
    assert books.store.redrive([books.id("a")], who="ann", reason="mended")
    holdfast.drain(books.pipeline, store)
    assert books.tables() == fresh(a=6)
    assert books.undone() == []


def test_work_that_is_gone_is_done_again_without_its_old_rows(store: Store) -> None:
    books = Books(store)

    def fail_once(tx: holdfast.Tx, doc: holdfast.Document) -> None:
        books.effect = lambda tx, doc: None
        books.is_there = False
        raise holdfast.RetryLater("busy", after=0.001)

    def found_again(tx: holdfast.Tx, doc: holdfast.Document) -> None:
        books.is_there = True

    books.effect = fail_once
    books.undo = found_again
    holdfast.submit(books.pipeline, store, batch="b", documents=[("a", {"pages": 4})])
    holdfast.drain(
        books.pipeline, store, listeners=[lambda event: setattr(books, "is_there", _is_rewind(event) or books.is_there)]
    )
    assert store.document("books", "b", "a").checkpoint.generation == 1
    assert books.tables() == fresh(a=4)
    assert books.undone() == [("a", "mark", 0)]


def _is_rewind(event: object) -> bool:
    return type(event).__name__ == "Rewound"


def test_items_that_were_set_aside_and_mended_add_to_the_rows_of_their_generation(store: Store) -> None:
    books = Books(store)
    books.run({"a": {"pages": 4, "smudged": [1]}})
    assert books.tables()[1] == [("a", 0), ("a", 2), ("a", 3)]
    books.run({"a": {"pages": 6, "smudged": [4]}})
    assert books.tables()[1] == [("a", number) for number in (0, 1, 2, 3, 5)]
    books.run({"a": {"pages": 3, "smudged": [0, 1, 2]}})
    assert books.tables()[1] == []
    assert [row for row in books.undone() if row[1] == "mark"] == [("a", "mark", 0), ("a", "mark", 1)]


def test_a_document_that_changes_twice_before_it_is_done_again_is_undone_once(store: Store) -> None:
    books = Books(store)
    books.run({"a": 5})
    for pages in (3, 4):
        holdfast.submit(books.pipeline, store, batch="b", documents=[("a", {"pages": pages})])
    holdfast.drain(books.pipeline, store)
    assert store.document("books", "b", "a").checkpoint.generation == 2
    assert books.tables() == fresh(a=4)
    assert books.undone() == [("a", "mark", 0), ("a", "total", 0)]


def test_a_document_that_changes_back_is_done_again_as_a_new_generation(store: Store) -> None:
    books = Books(store)
    for pages in (5, 3, 5):
        books.run({"a": pages})
    assert books.tables() == fresh(a=5)
    assert books.undone() == [("a", "mark", 0), ("a", "mark", 1), ("a", "total", 0), ("a", "total", 1)]
    assert books.rows("select distinct generation from mark") == [(2,)]


@pytest.mark.parametrize("step", ["read", "mark", "total"])
def test_a_worker_whose_document_changes_while_a_body_runs_writes_nothing(store: Store, step: str) -> None:
    books = Books(store)
    books.run({"a": 3})
    changes = [7]
    body = books.pipeline[step].body

    def change_first(doc: holdfast.Document, *more: Any) -> Any:
        if changes:
            new = [("a", {"pages": changes.pop()})]
            assert holdfast.submit(books.pipeline, store, batch="b", documents=new).changed == 1
        return body(doc, *more)

    books.pipeline[step].body = change_first
    books.run({"a": 2})  # one window of `mark`
    assert changes == []
    assert store.document("books", "b", "a").checkpoint.generation == 2
    assert books.tables() == fresh(a=7)
    written = {"read": (), "mark": (), "total": ("mark",)}[step]  # by generation 1, before the change
    assert books.undone() == sorted([("a", "mark", 0), ("a", "total", 0), *(("a", name, 1) for name in written)])


def test_a_document_that_was_cancelled_half_way_keeps_its_rows_until_it_is_done_again(store: Store) -> None:
    books = Books(store)
    books.run({"a": {"pages": 7, "torn at": 5}})
    assert store.redrive([books.id("a")], who="ann", reason="again")
    assert store.cancel([books.id("a")], who="ann", reason="not now")
    assert books.tables()[0] == [("a", number) for number in range(5)]
    books.rewind("a", "read")
    books.is_torn = False
    holdfast.drain(books.pipeline, store)
    assert books.tables() == fresh(a=7)


def test_an_effect_that_fails_takes_its_undo_back(store: Store) -> None:
    books = Books(store)
    books.run({"a": 2, "b": 2, "c": 2})
    failures = ["boom", "boom"]

    def fail(tx: holdfast.Tx, doc: holdfast.Document) -> None:
        if doc.key == "b" and failures:
            raise RuntimeError(failures.pop())

    books.effect = fail
    books.run({"a": 3, "b": 3, "c": 3})
    assert failures == []
    assert books.tables() == fresh(a=3, b=3, c=3)
    assert [row for row in books.undone() if row[1] == "total"] == [(key, "total", 0) for key in "abc"]


def test_an_undo_that_fails_fails_its_document_and_its_rows_stay(store: Store) -> None:
    books = Books(store)
    books.run({"a": 2, "b": 2})

    def fail(tx: holdfast.Tx, doc: holdfast.Document) -> None:
        if doc.key == "a":
            raise RuntimeError("this cannot be undone")

    books.undo = fail
    books.run({"a": 3, "b": 3})
    assert (books.state("a"), books.state("b")) == ("dead", "done")
    assert "this cannot be undone" in store.document("books", "b", "a").reason
    assert books.rows("select documents from total") == [(2,)]
    assert ("a", "total", 0) not in books.undone()
    books.undo = lambda tx, doc: None
    store.redrive([books.id("a")], who="ann", reason="mended")
    holdfast.drain(books.pipeline, store)
    assert books.tables() == fresh(a=3, b=3)


def test_an_undo_reads_no_output_and_gets_the_document_as_it_is_now(store: Store) -> None:
    books = Books(store)
    books.run({"a": 2})
    seen: list[Any] = []

    def look(tx: holdfast.Tx, doc: holdfast.Document) -> None:
        seen.append((doc.key, doc.batch, doc.step, doc.generation, doc.payload, doc.id))
        with pytest.raises(holdfast.BodyError, match="an undo cannot read the output of step 'read'"):
            doc.output(books.pipeline["read"])

    books.undo = look
    books.run({"a": 3})
    assert seen == [("a", "b", "total", 0, {"pages": 3}, books.id("a"))]


@pytest.mark.parametrize("any_store", ["sqlite", "postgres"], indirect=True)
def test_a_document_from_before_effects_were_recorded_is_undone_too(store: Store) -> None:
    books = Books(store)
    books.run({"a": 4, "b": 4})
    with store.transaction() as tx:
        tx.execute("update hf_document set effects = null")
    books.run({"a": 2, "b": 4})
    assert books.tables() == fresh(a=2, b=4)
    assert books.undone() == [("a", "mark", 0), ("a", "total", 0)]
    books.run({"a": 5, "b": 4})
    assert books.tables() == fresh(a=5, b=4)


def test_a_renamed_step_undoes_what_it_wrote_under_its_old_name(store: Store) -> None:
    def plain(name: str, **renamed: str) -> holdfast.Pipeline:
        pipeline = holdfast.Pipeline("renaming", renamed=renamed)
        step = pipeline.step(name=name)(lambda doc: doc.payload)
        step.rows("note")(lambda doc, value: [{"text": str(value)}])
        return pipeline

    with store.transaction() as tx:
        tx.execute("create table note (document_id bigint, text text)")
    for pipeline, payload in ((plain("old"), 1), (plain("new", old="new"), 2)):
        holdfast.submit(pipeline, store, batch="b", documents=[("a", payload)])
        holdfast.drain(pipeline, store)
    with store.transaction() as tx:
        assert [row[0] for row in tx.execute("select text from note").fetchall()] == ["2"]


def _noting(name: str, *steps: str, undo: bool = False) -> holdfast.Pipeline:
    """Return a pipeline whose steps each write a row in an effect."""
    pipeline = holdfast.Pipeline(name)
    for number, name in enumerate(steps):
        step = pipeline.step(name=name)(lambda doc: doc.payload)
        if number == 0:
            step.effect(lambda tx, doc, value: tx.execute(sql(tx, "insert into note values (?)"), (str(value),)))
            if undo:
                step.undo(lambda tx, doc: tx.execute("delete from note"))
    return pipeline


def _run(pipeline: holdfast.Pipeline, store: Store, payload: int) -> holdfast.Report:
    holdfast.submit(pipeline, store, batch="b", documents=[("a", payload), ("b", payload)])
    return holdfast.drain(pipeline, store, listeners=[log_events])


def test_a_step_without_an_undo_says_so_once(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with store.transaction() as tx:
        tx.execute("create table note (text text)")
    pipeline = _noting("notes", "keep", "end")
    with caplog.at_level(logging.WARNING, "holdfast"):
        first = _run(pipeline, store, 1)
        second = _run(pipeline, store, 2)
        third = _run(pipeline, store, 3)
    said = sentence(ROWS_LEFT, step="keep", pipeline="notes")
    assert (first.warnings, second.warnings, third.warnings) == ((), (said,), ())
    assert said in str(second)
    assert [record.getMessage() for record in caplog.records] == [said]
    other = _run(_noting("other notes".replace(" ", "_"), "keep"), store, 1)
    assert other.warnings == ()


def test_rows_of_a_removed_step_are_named_once(store: Store) -> None:
    with store.transaction() as tx:
        tx.execute("create table note (text text)")
    _run(_noting("notes", "keep", "end", undo=True), store, 1)
    without = holdfast.Pipeline("notes")
    without.step(name="end")(lambda doc: doc.payload)
    second, third = _run(without, store, 2), _run(without, store, 3)
    assert second.warnings == (sentence(REMOVED_ROWS_LEFT, step="keep", pipeline="notes"),)
    assert third.warnings == ()
    _run(_noting("notes", "keep", "end", undo=True), store, 4)  # the step is back, and so is its undo
    with store.transaction() as tx:
        assert [row[0] for row in tx.execute("select text from note").fetchall()] == ["4"] * 1


def test_rows_of_tables_are_replaced_beside_an_effect_without_an_undo(store: Store) -> None:
    with store.transaction() as tx:
        tx.execute("create table note (text text)")
        tx.execute("create table page (document_id bigint, number integer)")
    pipeline = _noting("notes", "keep")
    pipeline["keep"].rows("page")(lambda doc, pages: [{"number": number} for number in range(pages)])
    reports = [_run(pipeline, store, pages) for pages in (3, 1)]
    assert [report.warnings for report in reports] == [(), (sentence(ROWS_LEFT, step="keep", pipeline="notes"),)]
    with store.transaction() as tx:
        assert tx.execute("select count(*) from page").fetchone()[0] == 2  # one page of each document
        assert tx.execute("select count(*) from note").fetchone()[0] == 4


def test_a_step_that_lost_its_effect_but_not_its_undo_removes_its_rows(store: Store) -> None:
    with store.transaction() as tx:
        tx.execute("create table note (text text)")
    _run(_noting("notes", "keep"), store, 1)
    later = holdfast.Pipeline("notes")
    later.step(name="keep")(lambda doc: doc.payload).undo(lambda tx, doc: tx.execute("delete from note"))
    assert _run(later, store, 2).warnings == ()
    with store.transaction() as tx:
        assert tx.execute("select text from note").fetchall() == []
