"""Loads from files into tables, with versions, retries and records that are set aside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.pipelines.files.pipeline import Ceiling
from holdfast.pipelines.files.values import Column
from tests.pipelines.files.conftest import Load

PEOPLE = "id,name,born\n1,Ann,2001-02-03\n2,Ben,\n"


def test_a_csv_file_becomes_typed_rows(load: Load) -> None:
    report = load.load(load.write("a.csv", PEOPLE))
    assert report.done == 1
    assert [(number, name, born and str(born)) for number, name, born in load.rows()] == [
        (1, "Ann", "2001-02-03"),
        (2, "Ben", None),
    ]


def test_a_file_is_loaded_once_however_it_is_named(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    path = load.write("a.csv", PEOPLE)
    load.load(path)
    monkeypatch.chdir(path.parent)
    pipeline = load.pipeline(path)
    assert load.submit(pipeline, Path("../in/a.csv")).unchanged == 1
    holdfast.drain(pipeline, load.store)
    assert len(load.rows()) == 2


def test_a_new_version_replaces_the_rows_of_the_old_one(load: Load) -> None:
    path = load.write("a.csv", PEOPLE)
    load.load(path)
    load.write("a.csv", "id,name,born\n7,Cy,1999-01-01\n")
    load.load(path)
    assert [row[:2] for row in load.rows()] == [(7, "Cy")]
    assert load.query("select count(*) from event_staged") == [(0,)]


def test_readers_see_the_old_version_until_the_new_one_is_complete(load: Load) -> None:
    path = load.write("a.csv", PEOPLE)
    load.load(path)
    load.write("a.csv", "id,name,born\n7,Cy,1999-01-01\n8,Di,oops\n")
    load.load(path, ceiling=Ceiling(count=0))
    assert [row[:2] for row in load.rows()] == [(1, "Ann"), (2, "Ben")]
    load.write("a.csv", "id,name,born\n7,Cy,1999-01-01\n8,Di,2020-01-01\n")
    load.load(path)
    assert [row[:2] for row in load.rows()] == [(7, "Cy"), (8, "Di")]


def test_an_incomplete_first_version_is_replaced(load: Load) -> None:
    path = load.write("a.csv", PEOPLE)
    load.load(path)
    other = load.write("b.csv", "id,name,born\n5,Eve,\nx,Fay,\n")
    load.load(other, ceiling=Ceiling(count=0))
    assert [row[0] for row in load.rows()] == [1, 2, 5]
    load.write("b.csv", "id,name,born\n6,Eve,\n9,Fay,\n")
    load.load(other)
    assert [row[0] for row in load.rows()] == [1, 2, 6, 9]


def test_a_withdrawn_file_has_no_rows(load: Load) -> None:
    path = load.write("a.csv", PEOPLE)
    load.load(path)
    pipeline = load.pipeline(path)
    ids = [document.id for document in load.store.documents("files")]
    holdfast.withdraw(pipeline, load.store, ids, who="Ada", reason="wrong file")
    assert load.rows() == []


def test_a_document_that_is_rewound_to_the_end_keeps_its_rows(load: Load) -> None:
    path = load.write("a.csv", PEOPLE)
    load.load(path)
    pipeline = load.pipeline(path)
    plan = load.store.declare(pipeline.shape())
    ids = [document.id for document in load.store.documents("files")]
    load.store.rewind_to(plan, ids, to="publish", who="Ada", reason="try", then="waiting")
    holdfast.drain(pipeline, load.store)
    assert len(load.rows()) == 2
    assert "rewind it to the step load" in load.reason()


def test_bad_records_are_set_aside_with_line_offset_and_reason(load: Load) -> None:
    columns = [Column("id", "integer"), Column("name")]
    load.load(load.write("a.csv", "id,name\n1,Ann\nx,Ben\n3\n4,Di\n"), columns=columns)
    assert load.rows() == [(1, "Ann"), (4, "Di")]
    assert load.query("select line, byte_offset, raw, reason from file_set_aside order by line") == [
        (3, 14, b"x,Ben\n", "its 'id' is 'x', which is not a whole number of 64 bits"),
        (4, 20, b"3\n", "it has 1 field, and the header has 2"),
    ]


def test_too_many_bad_records_stop_the_file_where_it_is(load: Load) -> None:
    path = load.write("a.csv", "id,name\n1,Ann\n" + "2\n" * 30)
    assert load.load(path, ceiling=Ceiling(count=20), commit_every=10).dead == 1
    assert "more than 20" in load.reason()
    (dead,) = load.store.documents("files", state="dead")
    load.store.redrive([dead.id], who="Ada", reason="more are allowed")
    pipeline = load.pipeline(path, ceiling=Ceiling(count=30), commit_every=10)
    assert holdfast.drain(pipeline, load.store).done == 1
    assert len(load.aside()) == 30
    assert len(load.rows()) == 1


def test_statistics_say_what_became_of_the_records(load: Load) -> None:
    def adults(record: dict[str, str]) -> Any:
        return None if record["age"] < "18" else record

    load.load(load.write("a.csv", "age\n10\n20\n30,\n40\n"), transform=adults)
    (row,) = load.query(
        "select file_type, records_total, records_filtered, records_persisted, records_failed, published "
        "from file_loads"
    )
    assert row == ("csv", 4, 1, 2, 1, 0)


def test_a_file_that_was_changed_after_its_submit_is_refused(load: Load) -> None:
    path = load.write("a.csv", PEOPLE)
    pipeline = load.pipeline(path)
    load.submit(pipeline, path)
    load.write("a.csv", PEOPLE + "3,Cy,\n")
    holdfast.drain(pipeline, load.store)
    assert "was changed after it was submitted" in load.reason()
    load.load(path)
    assert len(load.rows()) == 3


def test_a_file_that_is_deleted_before_its_load_is_refused(load: Load) -> None:
    path = load.write("a.csv", PEOPLE)
    pipeline = load.pipeline(path)
    load.submit(pipeline, path)
    path.unlink()
    holdfast.drain(pipeline, load.store)
    assert "not there any more" in load.reason()


def test_a_file_that_is_replaced_while_it_is_read_is_refused(load: Load) -> None:
    path = load.write("a.csv", "id\n" + "1\n" * 50)

    def replacing(record: dict[str, str]) -> dict[str, str]:
        path.write_text("id\n2\n")
        return record

    load.load(path, transform=replacing, commit_every=10)
    assert "was changed after it was submitted" in load.reason()
    assert load.rows() == []


def test_an_empty_file_has_no_records(load: Load) -> None:
    load.load(load.write("a.csv", PEOPLE))
    assert load.load(load.write("b.csv", ""), load.write("c.csv", "id,name\n")).done == 2
    assert len(load.rows()) == 2


def test_a_file_with_a_column_that_the_target_does_not_have_is_refused(load: Load) -> None:
    load.load(load.write("a.csv", PEOPLE))
    load.load(load.write("b.csv", "id,email\n1,x\n"))
    assert "has the column 'email', which the target does not have" in load.reason()


def test_columns_that_a_file_does_not_have_are_empty(load: Load) -> None:
    load.load(load.write("a.csv", PEOPLE))
    load.load(load.write("b.csv", "name,id\nZoe,9\n"))
    assert load.rows()[-1] == (9, "Zoe", None)


def test_a_load_goes_on_inside_a_file_after_it_was_stopped(load: Load) -> None:
    path = load.write("a.csv", "id,text\n" + "".join(f'{n},"line {n}\nand more"\n' for n in range(300)))
    pipeline = load.pipeline(path, commit_every=20)
    load.submit(pipeline, path)
    budget = holdfast.Budget()
    seen = 0

    def stop(event: Any) -> None:
        nonlocal seen
        seen += 1
        if seen == 5:
            budget.stop("enough")

    holdfast.drain(pipeline, load.store, budget=budget, listeners=[stop])
    (half,) = load.query("select count(*) from event")[0]
    assert 0 < half < 300
    holdfast.drain(load.pipeline(path, commit_every=20), load.store)
    assert [row[0] for row in load.rows()] == list(range(300))


def test_a_file_is_deleted_or_moved_after_its_load(load: Load) -> None:
    first, second = load.write("a.csv", PEOPLE), load.write("b.csv", PEOPLE)
    load.load(first, after="delete")
    assert not first.exists()
    done = load.folder / "done"
    load.load(second, after=done)
    assert [path.name for path in done.iterdir()] == ["b.csv"]
    assert len(load.rows()) == 4
