"""A document whose checkpoint cannot be true is parked. Nothing is guessed, and other documents continue."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.capsule import read_capsule
from holdfast.core.errors import CapsuleError
from holdfast.core.integrity import KeptState, checkpoint_damage, cursor_damage
from holdfast.core.model import Checkpoint, Claim
from holdfast.core.reasons import sentence
from holdfast.ops.capsule_export import pack
from holdfast.ops.explain.context import rewind_step
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import PipelineHarness

Edit = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path}/engine.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    store = open_store(url)
    yield store
    store.close()


class EditedPipeline(PipelineHarness):
    """Steps: pages (a stream of 6), split (a list of 10), walk (over that list). A test stops it and edits rows."""

    def __init__(self, store: Store) -> None:
        pipeline = holdfast.Pipeline("p")
        super().__init__(store, pipeline)
        self.stops_at: tuple[str, int] = ("", 0)
        self.ran: list[tuple[str, str, int]] = []

        @pipeline.step(commit_every=1)
        def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
            for number in range(cursor, 6):
                self._at("pages", doc, number)
                yield number

        @pipeline.step
        def split(doc: holdfast.Document) -> list[int]:
            self._at("split", doc, 0)
            return list(range(10))

        @pipeline.step(over=split)
        def walk(doc: holdfast.Document, number: int) -> int:
            self._at("walk", doc, number)
            return number

    def _at(self, step: str, doc: holdfast.Document, number: int) -> None:
        if (step, number) == self.stops_at and doc.key == "a":
            raise holdfast.Pause("a person edits it")
        self.ran.append((step, doc.key, number))

    def stop(self, step: str, number: int) -> None:
        """Pause document a at this item, and let b finish."""
        self.stops_at = (step, number)
        self.submit("a", "b")
        assert self.drain().paused == 1
        self.stops_at = ("", 0)

    def edit(self, sql: str) -> None:
        """Change the row of document a with SQL, as a person with a shell could, and let it continue."""
        statements = [sql, "update hf_document set state = 'waiting', due_at = submitted_at where key = 'a'"]
        if self.store.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.store.url.removeprefix("sqlite:///"))) as db, db:
                for statement in statements:
                    db.execute(statement)
            return
        import psycopg

        try:
            with psycopg.connect(self.store.url) as db:
                for statement in statements:
                    db.execute(statement)
        except (psycopg.errors.CheckViolation, psycopg.errors.InvalidTextRepresentation) as refusal:
            pytest.skip(f"the database refuses it: {refusal}")


DAMAGES = [
    ("walk", 4, "cursor = '11'", "the cursor 11 is not a position in step 'walk', which has 10 items"),
    ("walk", 4, "cursor = '-1'", "is not a position in step 'walk'"),
    ("walk", 4, "cursor = 'true'", "is not a position in step 'walk'"),
    ("walk", 4, "cursor = '\"x\"'", "is not a position in step 'walk'"),
    ("walk", 4, """cursor = '{"next": 4, "done": [[8, 12]]}'""", "which has 10 items"),
    ("walk", 4, """cursor = '{"next": 4, "done": [[9, 8]]}'""", "which has 10 items"),
    ("walk", 4, """cursor = '{"next": 4, "aside": [[10, 1]]}'""", "which has 10 items"),
    ("walk", 4, """cursor = '{"next": 4, "aside": [[9, 0]]}'""", "which has 10 items"),
    ("walk", 4, "cursor = null", "it has not begun step 'walk', and 4 items of this step are kept"),
    ("pages", 3, "cursor = null", "it has not begun step 'pages', and 3 items of this step are kept"),
    ("pages", 3, "cursor = '\"\\ud800\"'", "its cursor cannot be read"),
    ("pages", 3, "payload = '\"\\ud800\"'", "its payload cannot be read"),
    ("pages", 3, "moves = 0", "it never moved, and is at 3 inside step 'pages'"),
    ("split", 0, "cursor = '1'", "it is at 1 inside step 'split', which has no cursor"),
    ("split", 0, "reuses = '{\"1\": 0}'", "it is of generation 0 and reuses generation 0 of 'pages'"),
    ("split", 0, 'generation = 3, reuses = \'{"1": "x"}\'', "reuses generation 'x' of 'pages'"),
    ("split", 0, "generation = 3, reuses = '{\"x\": 1}'", "its reuses cannot be read"),
]


@pytest.mark.parametrize(("step", "number", "damage", "why"), DAMAGES)
def test_a_damaged_checkpoint_is_parked(store: Store, step: str, number: int, damage: str, why: str) -> None:
    harness = EditedPipeline(store)
    harness.stop(step, number)
    ran = list(harness.ran)
    harness.edit(f"update hf_document set {damage} where key = 'a'")
    harness.submit("c")
    report = harness.drain()
    assert (report.done, report.paused, report.dead) == (1, 1, 0)
    status = harness.document("a")
    assert (status.state, status.due_at, status.attempts) == ("paused", None, 0)
    assert why in status.reason
    to = "pages" if "reuses" in damage or "payload" in damage else step
    before, after = sentence(status.code, what="\0", to=to).split("\0")
    assert status.reason.startswith(before)
    assert status.reason.endswith(after)
    assert [call for call in harness.ran if call[1] == "a"] == [call for call in ran if call[1] == "a"], "a body ran"
    assert harness.store.journal(status.id)[-1].verb == "pause"


@pytest.mark.parametrize(("step", "number", "damage", "why"), DAMAGES)
def test_the_suggested_rewind_repairs_a_damaged_document(
    store: Store, step: str, number: int, damage: str, why: str
) -> None:
    harness = EditedPipeline(store)
    harness.stop(step, number)
    harness.edit(f"update hf_document set {damage} where key = 'a'")
    harness.drain()
    status = harness.document("a")
    to = rewind_step(harness.store, status) or ""
    plan = store.declare(harness.pipeline.shape())
    assert store.rewind_to(plan, [status.id], to=to, who="ann", reason="damaged") == [status.id], why
    if "payload" in damage:
        harness.edit("update hf_document set payload = '1' where key = 'a'")
    assert harness.drain().done == 1
    assert harness.kept("walk") == list(range(10))


def test_a_document_with_items_of_a_later_generation_is_parked(store: Store) -> None:
    harness = EditedPipeline(store)
    harness.stop("walk", 4)
    harness.edit("update hf_item set generation = 1 where document_id = (select id from hf_document where key = 'a')")
    assert harness.drain().paused == 1
    assert "it is of generation 0, and items of generation 1 are kept" in harness.document("a").reason


def test_a_damaged_document_that_is_resumed_without_a_repair_is_parked_again(store: Store) -> None:
    harness = EditedPipeline(store)
    harness.stop("walk", 4)
    harness.edit("update hf_document set cursor = '11' where key = 'a'")
    for _ in range(2):
        assert harness.drain().paused == 1
        harness.edit("select 1")


def test_a_repaired_document_continues(store: Store) -> None:
    harness = EditedPipeline(store)
    harness.stop("walk", 4)
    harness.edit("update hf_document set cursor = '11' where key = 'a'")
    harness.drain()
    harness.edit("update hf_document set cursor = '4' where key = 'a'")
    assert harness.drain().done == 1
    assert harness.kept("walk") == list(range(10))


@pytest.mark.parametrize(("step", "number", "total"), [("walk", 4, 10), ("pages", 3, 6), ("split", 0, 1)])
def test_an_intact_document_continues_where_it_was(store: Store, step: str, number: int, total: int) -> None:
    harness = EditedPipeline(store)
    harness.stop(step, number)
    harness.edit("select 1")
    assert harness.drain().done == 1
    assert [at for name, key, at in harness.ran if (name, key) == (step, "a")] == list(range(total))


def _claim(at: Checkpoint, reuses: dict[str, Any] | None = None) -> Claim:
    return Claim(1, 1, "b", "a", None, "", at, 1, 0, timedelta(0), reuses)


SCATTERED = {"next": 2, "done": [[4, 10]], "aside": [[3, 1]]}


@pytest.mark.parametrize("cursor", [None, 0, 3, 10, SCATTERED, {"aside": [[9, 2]]}])
def test_positions_within_the_items_are_valid(cursor: Any) -> None:
    assert cursor_damage(Checkpoint(0, "walk", cursor, 3), 10) is None


@pytest.mark.parametrize("cursor", ["token", 5, -5, {"page": "x"}, [1], 2.5])
def test_any_cursor_of_a_stream_is_valid(cursor: Any) -> None:
    assert checkpoint_damage("stream", _claim(Checkpoint(0, "pages", cursor, 3)), KeptState(0, 100, 1)) is None


def test_earlier_generations_may_be_reused() -> None:
    claim = _claim(Checkpoint(2, "walk", None, 3), {"pages": 0, "split": 1})
    assert checkpoint_damage("over", claim, KeptState(1, 0, 1)) is None


@pytest.mark.parametrize(("step", "number", "damage", "why"), DAMAGES)
def test_a_damaged_document_can_be_read_and_packed_if_the_capsule_can_be_loaded(
    store: Store, step: str, number: int, damage: str, why: str
) -> None:
    harness = EditedPipeline(store)
    harness.stop(step, number)
    harness.edit(f"update hf_document set {damage} where key = 'a'")
    harness.drain()
    status = harness.document("a")
    assert why in status.reason
    reads = (store.outputs, store.items, store.failed_items, store.journal, store.served)
    assert all(isinstance([*read_all(status.id)], list) for read_all in reads)
    assert store.documents_by_id([status.id]) == [status]
    assert isinstance(store.reuses([status.id]), dict)
    assert holdfast.verify(harness.pipeline, store).gone == 0
    capsule = io.BytesIO()
    if "reuses" in damage and store.reuses([status.id]):
        with pytest.raises(CapsuleError, match="Its row is damaged"):
            pack(store, status.id, capsule)
    else:
        pack(store, status.id, capsule)
        assert read_capsule(capsule.getvalue()).document.key == "a"
