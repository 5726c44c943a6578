"""Rows of tables: quoted names, both dialects, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast.core.row_tables import RowTable
from holdfast.stores.protocol import Store

ODD = 'odd "name" of 100 %'


@pytest.fixture
def store(any_store: Store) -> Store:
    return any_store


def document(number: int = 7) -> holdfast.Document:
    return holdfast.Document(pipeline="p", batch="b", key="a", reader=None, id=number)  # type: ignore[arg-type]


def rows(tx: holdfast.Tx, table: str) -> list[Any]:
    return sorted(map(tuple, tx.execute(f"select * from {table}").fetchall()))


def test_names_are_quoted_and_values_are_parameters(store: Store) -> None:
    quoted = '"' + ODD.replace('"', '""') + '"'
    table = RowTable(ODD, lambda _doc, value: [{ODD: one} for one in value])
    with store.transaction() as tx:
        tx.execute(f"create table {quoted} (document_id bigint, {quoted} text)")
        table.write(tx, document(), ["'); drop table x; --", "100 %"])
        table.write(tx, document(), ["one more"])
        table.write(tx, document(8), ["of another document"])
        assert len(rows(tx, quoted)) == 4
        table.delete(tx, document())
        assert rows(tx, quoted) == [(8, "of another document")]


def test_a_table_may_be_in_a_schema(store: Store) -> None:
    with store.transaction() as tx:
        schema = "main" if tx.dialect == "sqlite" else "archive"
        if tx.dialect == "postgresql":
            tx.execute("create schema archive")
        tx.execute(f"create table {schema}.page (document_id bigint, number integer)")
        table = RowTable(f"{schema}.page", lambda _doc, value: [{"number": value}])
        table.write(tx, document(), 1)
        table.delete(tx, document())
        table.write(tx, document(), 2)
        assert rows(tx, f"{schema}.page") == [(7, 2)]


def test_no_rows_and_columns_in_another_order_are_fine(store: Store) -> None:
    with store.transaction() as tx:
        tx.execute("create table page (document_id bigint, number integer, title text)")
        RowTable("page", lambda _doc, _value: []).write(tx, document(), None)
        RowTable("page", lambda _doc, _value: None).write(tx, document(), None)  # type: ignore[arg-type, return-value]
        two = [{"number": 1, "title": "one"}, {"title": "two", "number": 2}]
        RowTable("page", lambda _doc, _value: iter(two)).write(tx, document(), None)
        assert rows(tx, "page") == [(7, 1, "one"), (7, 2, "two")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([{"number": 1}, {"title": "x"}], "row 1 of table 'page' has the columns title, and the first row has number"),
        ([{"document_id": 3}], "rows? of table 'page' have .*'document_id': leave it out"),
        ([(1, 2)], "row 0 of table 'page' is a tuple: return a mapping"),
    ],
)
def test_rows_that_cannot_be_written_are_refused(given: Any, message: str) -> None:
    table = RowTable("page", lambda _doc, _value: given)
    with pytest.raises(holdfast.BodyError, match=message):
        table.write(None, document(), None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", ".", "a.", "a.b.c", "a\0b", None, 3])
def test_a_name_that_is_no_table_is_refused(pipeline: holdfast.Pipeline, name: Any) -> None:
    step = pipeline.step(name="read")(lambda doc: 1)
    with pytest.raises(holdfast.DefinitionError, match="must be the name of a table"):
        step.rows(name)


def test_a_table_of_holdfast_is_refused(pipeline: holdfast.Pipeline) -> None:
    step = pipeline.step(name="read")(lambda doc: 1)
    with pytest.raises(holdfast.DefinitionError, match="is a table of holdfast"):
        step.rows("main.HF_document")


@pytest.mark.parametrize("other", ["page", "Page", "main.page", "public.PAGE"])
def test_a_table_belongs_to_one_step(pipeline: holdfast.Pipeline, other: str) -> None:
    for name, table in (("read", "page"), ("write", other)):
        pipeline.step(name=name)(lambda doc: 1).rows(table)(lambda doc, value: [])
    with pytest.raises(
        holdfast.DefinitionError, match=f"'read' and 'write' of pipeline 'p' both have rows of table '{other}'"
    ):
        pipeline.shape()


def test_tables_of_one_name_in_two_schemas_are_two_tables(pipeline: holdfast.Pipeline) -> None:
    for name, table in (("read", "page"), ("write", "archive.page"), ("send", "other.page")):
        pipeline.step(name=name)(lambda doc: 1).rows(table)(lambda doc, value: [])
    assert [step.name for step in pipeline.shape().steps] == ["read", "write", "send"]


def test_a_step_writes_its_effect_and_all_its_tables(store: Store) -> None:
    with store.transaction() as tx:
        tx.execute("create table page (document_id bigint, number integer)")
        tx.execute("create table line (document_id bigint, number integer)")
    pipeline = holdfast.Pipeline("p")
    step = pipeline.step(name="read")(lambda doc: doc.payload)
    step.rows("page")(lambda doc, value: [{"number": number} for number in range(value)])
    step.effect(lambda tx, doc, value: tx.execute("insert into line values (0, 99)"))
    step.rows("line")(lambda doc, value: [{"number": doc.id}])
    step.undo(lambda tx, doc: tx.execute("delete from line where number = 99"))
    for payload in (3, 2):
        holdfast.submit(pipeline, store, batch="b", documents=[("a", payload)])
        holdfast.drain(pipeline, store)
    number = store.document("p", "b", "a").id
    with store.transaction() as tx:
        assert rows(tx, "page") == [(number, 0), (number, 1)]
        assert rows(tx, "line") == [(0, 99), (number, number)]


def test_rows_and_undo_are_declared_once_with_the_right_parameters(pipeline: holdfast.Pipeline) -> None:
    step = pipeline.step(name="read")(lambda doc: 1)
    assert not step.can_undo
    step.rows("page")(lambda doc, value: [])
    assert step.can_undo
    step.effect(lambda tx, doc, value: None)
    assert not step.can_undo
    with pytest.raises(holdfast.DefinitionError, match="already has rows of table 'page'"):
        step.rows("page")
    with pytest.raises(holdfast.DefinitionError, match=r"the undo of step 'read' is called with \(tx, doc\)"):
        step.undo(lambda tx: None)  # type: ignore[arg-type, misc]
    with pytest.raises(holdfast.DefinitionError, match="is called with"):
        step.rows("other")(lambda doc: [])  # type: ignore[arg-type, misc]
    step.undo(lambda tx, doc: None)
    assert step.can_undo
    with pytest.raises(holdfast.DefinitionError, match="already has an undo"):
        step.undo(lambda tx, doc: None)


def test_an_error_of_the_table_says_which_columns_it_needs(store: Store) -> None:
    pipeline = holdfast.Pipeline("p")
    step = pipeline.step(name="read", retry=holdfast.Retry(attempts=1))(lambda doc: doc.payload)
    step.rows("page")(lambda doc, value: [{"number": value, "title": "x"}])
    with store.transaction() as tx:
        tx.execute("create table page (number integer, title text)")
    holdfast.submit(pipeline, store, batch="b", documents=[("a", 3)])
    holdfast.drain(pipeline, store)
    document = store.document("p", "b", "a")
    assert document.state == "dead"
    (entry,) = [entry for entry in store.journal(document.id) if entry.verb == "fail"]
    needed = "the table 'page'. It needs the columns document_id, number, title: holdfast fills in document_id."
    assert needed in entry.detail["error"]["traceback"]
