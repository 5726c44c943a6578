"""Rows that somebody edited in SQLite: the database refuses most wrong values; others are parked or reported."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.errors import CapsuleError, ItemDamaged, StoreError
from holdfast.core.integrity import row_damage
from holdfast.core.model import Checkpoint, Claim
from holdfast.ops.capsule_export import pack
from holdfast.stores.protocol import Store

Edit = Callable[..., None]
TOO_LATE = 2**62


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "edited.db"


@pytest.fixture
def pipeline() -> holdfast.Pipeline:
    pipeline = holdfast.Pipeline("edited")

    @pipeline.step
    def read(doc: Any) -> list[int]:
        return [1, 2, 3]

    @pipeline.step(over=read, retry=holdfast.Retry(attempts=1), failure_rate=1.0)
    def double(doc: Any, item: int) -> int:
        if item == 2:
            raise ValueError("not this one")
        return 2 * item

    return pipeline


@pytest.fixture
def store(file: Path, pipeline: holdfast.Pipeline) -> Iterator[Store]:
    """A store with one document that is done and two that wait."""
    with holdfast.open(f"sqlite:///{file}") as store:
        holdfast.submit(pipeline, store, batch="b", documents=[("done", 1)])
        holdfast.drain(pipeline, store, threads=1)
        holdfast.submit(pipeline, store, batch="b", documents=[("edited", 1), ("innocent", 1)])
        yield store


@pytest.fixture
def edit(store: Store, file: Path) -> Edit:
    """A function that changes rows, as a person with a shell could."""

    def run(sql: str, *values: Any) -> None:
        with closing(sqlite3.connect(file)) as db, db:
            db.execute(sql, values)

    return run


def test_every_table_refuses_values_of_a_wrong_type(store: Store) -> None:
    with store.reading() as tx:
        tables = tx.execute("select name, strict from pragma_table_list where name glob 'hf_*' and type = 'table'")
        assert [name for name, strict in tables.fetchall() if not strict] == ["hf_schema"]


def test_a_text_for_a_number_is_refused(store: Store, pipeline: holdfast.Pipeline, edit: Edit) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        edit("update hf_document set priority = 'x'")
    assert holdfast.drain(pipeline, store, threads=1).done == 2


@pytest.mark.parametrize("column", ["due_at", "claimed_at", "submitted_at", "moved_at"])
@pytest.mark.parametrize("value", [TOO_LATE, -TOO_LATE])
def test_an_impossible_time_does_not_stop_other_documents(
    store: Store, pipeline: holdfast.Pipeline, edit: Edit, column: str, value: int
) -> None:
    edit(f"update hf_document set {column} = ? where key = 'edited'", value)
    holdfast.drain(pipeline, store, threads=1, budget=timedelta(seconds=10))
    assert store.find("innocent")[0].state == "done"
    (status,) = store.find("edited")
    assert str(holdfast.explain(store, status))


@pytest.mark.parametrize("column", ["plan_id", "batch_id", "priority"])
@pytest.mark.parametrize("value", [0, 77, -1, TOO_LATE])
def test_a_reference_to_a_missing_row_does_not_stop_other_documents(
    store: Store, pipeline: holdfast.Pipeline, edit: Edit, column: str, value: int
) -> None:
    edit(f"update hf_document set {column} = ? where key = 'edited'", value)
    holdfast.drain(pipeline, store, threads=1, budget=timedelta(seconds=10))
    assert store.find("innocent")[0].state == "done"


def test_a_document_without_a_batch_is_parked_with_a_reason(
    store: Store, pipeline: holdfast.Pipeline, edit: Edit, file: Path
) -> None:
    edit("update hf_document set batch_id = 77 where key = 'edited'")
    holdfast.drain(pipeline, store, threads=1)
    with closing(sqlite3.connect(file)) as db:
        (found,) = db.execute("select state, reason from hf_document where key = 'edited'").fetchall()
    assert found[0] == "paused"
    assert "its batch_id is 77, and there is no such batch" in found[1]


@pytest.mark.parametrize("shape", ["{}", "[]", "1"])
def test_a_plan_that_cannot_be_read_is_named(store: Store, edit: Edit, shape: str) -> None:
    edit("update hf_plan set shape = ?", shape)
    for read_plan in (store.shape, store.plan, store.plans):
        with pytest.raises(StoreError, match=r"the row .* hf_plan cannot be read: its shape"):
            read_plan("edited")


def test_a_plan_whose_steps_are_gone_is_named(store: Store, edit: Edit) -> None:
    edit("update hf_plan set step_ids = '[77]'")
    with pytest.raises(StoreError, match="the row 1 of hf_plan cannot be read: its step_ids"):
        store.plans("edited")


def test_a_plan_column_refuses_invalid_json(edit: Edit) -> None:
    for column in ("shape", "step_ids"):
        with pytest.raises(sqlite3.IntegrityError):
            edit(f"update hf_plan set {column} = 'not json'")


def test_an_unreadable_failed_item_is_returned_as_its_text(store: Store, edit: Edit) -> None:
    edit("update hf_aside set error = '{}'")
    (aside,) = [aside for _, aside in store.failed_items(store.find("done")[0].id)]
    assert (aside.error.kind, aside.error.message) == ("unreadable", "{}")


@pytest.mark.parametrize("value", ["not json", "{}"])
def test_items_that_cannot_be_read_are_named(store: Store, edit: Edit, value: str) -> None:
    edit("update hf_item set value = ? where items > 1", value)
    with pytest.raises(ItemDamaged, match="item 0 of step 'read' of the document 'done' cannot be read"):
        list(store.items(store.find("done")[0].id))


def test_an_item_that_is_not_json_cannot_be_packed_into_a_capsule(store: Store, edit: Edit) -> None:
    edit("update hf_item set value = 'not json', items = 1")
    with pytest.raises(
        CapsuleError, match=r"item 0 of its step read cannot be read .*`holdfast doc rewind done --to read"
    ):
        pack(store, store.find("done")[0].id, io.BytesIO())


def test_a_claim_with_a_text_instead_of_a_number_is_damaged() -> None:
    claim = Claim(1, 1, "b", "k", None, "", Checkpoint(0, "read", None, 0), 0, 0, timedelta(0))
    assert row_damage(claim) is None
    found = row_damage(replace(claim, attempts="x"))  # type: ignore[arg-type]
    assert found is not None
    assert found.what == "its attempts cannot be read: 'x' is not a number"
