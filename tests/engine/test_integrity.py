"""A checkpoint that cannot be true is parked, never guessed at, and nobody else suffers."""

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
from holdfast.core.capsule import read
from holdfast.core.damage import leads_out_to
from holdfast.core.errors import CapsuleError
from holdfast.core.integrity import Traces, flaw, misplaced
from holdfast.core.model import Checkpoint, Claim
from holdfast.engine.capsules import pack
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.engine.conftest import Bench

Edit = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path}/engine.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    store = open_store(url)
    yield store
    store.close()


class Broken(Bench):
    """pages (a stream of 6), split (a list of 10), walk over it, end. Stops where it is told to, to be edited."""

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
        """Lets document a stop there and b go through."""
        self.stops_at = (step, number)
        self.submit("a", "b")
        assert self.drain().paused == 1
        self.stops_at = ("", 0)

    def edit(self, sql: str) -> None:
        """Damages the row of document a as a person with a shell could, and lets it go on."""
        statements = [sql, "update hf_document set state = 'waiting', due_at = submitted_at where key = 'a'"]
        if self.store.url.startswith("sqlite"):
            with closing(sqlite3.connect(self.store.url.removeprefix("sqlite:///"))) as db, db:
                for one in statements:
                    db.execute(one)
            return
        import psycopg

        try:
            with psycopg.connect(self.store.url) as db:
                for one in statements:
                    db.execute(one)
        except (psycopg.errors.CheckViolation, psycopg.errors.InvalidTextRepresentation) as refusal:
            pytest.skip(f"the database refuses it: {refusal}")


DAMAGES = [
    ("walk", 4, "cursor = '11'", "the cursor 11 is no position in step 'walk', which walks over 10 items"),
    ("walk", 4, "cursor = '-1'", "is no position in step 'walk'"),
    ("walk", 4, "cursor = 'true'", "is no position in step 'walk'"),
    ("walk", 4, "cursor = '\"x\"'", "is no position in step 'walk'"),
    ("walk", 4, """cursor = '{"next": 4, "done": [[8, 12]]}'""", "which walks over 10 items"),
    ("walk", 4, """cursor = '{"next": 4, "done": [[9, 8]]}'""", "which walks over 10 items"),
    ("walk", 4, """cursor = '{"next": 4, "aside": [[10, 1]]}'""", "which walks over 10 items"),
    ("walk", 4, """cursor = '{"next": 4, "aside": [[9, 0]]}'""", "which walks over 10 items"),
    ("walk", 4, "cursor = null", "it has not begun step 'walk', and 4 items of this step are kept"),
    ("pages", 3, "cursor = null", "it has not begun step 'pages', and 3 items of this step are kept"),
    ("pages", 3, "cursor = '\"\\ud800\"'", "its cursor cannot be read"),
    ("pages", 3, "payload = '\"\\ud800\"'", "its payload cannot be read"),
    ("pages", 3, "moves = 0", "it never moved, and is at 3 inside step 'pages'"),
    ("split", 0, "cursor = '1'", "it is at 1 inside step 'split', which returns at once"),
    ("split", 0, "reuses = '{\"1\": 0}'", "it is of generation 0 and reuses generation 0 of 'pages'"),
    ("split", 0, 'generation = 3, reuses = \'{"1": "x"}\'', "reuses generation 'x' of 'pages'"),
    ("split", 0, "generation = 3, reuses = '{\"x\": 1}'", "its reuses cannot be read"),
]


@pytest.mark.parametrize(("step", "number", "damage", "why"), DAMAGES)
def test_a_damaged_checkpoint_is_parked(store: Store, step: str, number: int, damage: str, why: str) -> None:
    bench = Broken(store)
    bench.stop(step, number)
    ran = list(bench.ran)
    bench.edit(f"update hf_document set {damage} where key = 'a'")
    bench.submit("c")
    report = bench.drain()
    assert (report.done, report.paused, report.dead) == (1, 1, 0)
    here = bench.standing("a")
    assert (here.state, here.due_at, here.attempts) == ("paused", None, 0)
    assert why in here.reason
    assert "Nothing was guessed" in here.reason
    to = "pages" if "reuses" in damage or "payload" in damage else step
    assert f"look at it, then rewind it to {to}, or submit it again" in here.reason
    assert [one for one in bench.ran if one[1] == "a"] == [one for one in ran if one[1] == "a"], "a body ran for it"
    assert bench.store.journal(here.id)[-1].verb == "pause"


@pytest.mark.parametrize(("step", "number", "damage", "why"), DAMAGES)
def test_the_way_out_that_is_told_leads_out(store: Store, step: str, number: int, damage: str, why: str) -> None:
    bench = Broken(store)
    bench.stop(step, number)
    bench.edit(f"update hf_document set {damage} where key = 'a'")
    bench.drain()
    here = bench.standing("a")
    to = leads_out_to(here.reason) or ""
    plan = store.declare(bench.pipeline.shape())
    assert store.rewind_to(plan, [here.id], to=to, who="ann", reason="damaged") == [here.id], why
    if "payload" in damage:
        bench.edit("update hf_document set payload = '1' where key = 'a'")
    assert bench.drain().done == 1
    assert bench.kept("walk") == list(range(10))


def test_items_of_a_later_generation_than_the_checkpoints_park_it(store: Store) -> None:
    bench = Broken(store)
    bench.stop("walk", 4)
    bench.edit("update hf_item set generation = 1 where document_id = (select id from hf_document where key = 'a')")
    assert bench.drain().paused == 1
    assert "it is of generation 0, and items of generation 1 are kept" in bench.standing("a").reason


def test_a_person_who_resumes_it_unmended_finds_it_parked_again(store: Store) -> None:
    bench = Broken(store)
    bench.stop("walk", 4)
    bench.edit("update hf_document set cursor = '11' where key = 'a'")
    for _ in range(2):
        assert bench.drain().paused == 1
        bench.edit("select 1")


def test_one_that_is_mended_goes_on(store: Store) -> None:
    bench = Broken(store)
    bench.stop("walk", 4)
    bench.edit("update hf_document set cursor = '11' where key = 'a'")
    bench.drain()
    bench.edit("update hf_document set cursor = '4' where key = 'a'")
    assert bench.drain().done == 1
    assert bench.kept("walk") == list(range(10))


@pytest.mark.parametrize(("step", "number", "total"), [("walk", 4, 10), ("pages", 3, 6), ("split", 0, 1)])
def test_a_sound_one_goes_on_exactly_where_it_was(store: Store, step: str, number: int, total: int) -> None:
    bench = Broken(store)
    bench.stop(step, number)
    bench.edit("select 1")
    assert bench.drain().done == 1
    assert [at for name, key, at in bench.ran if (name, key) == (step, "a")] == list(range(total))


def _claim(at: Checkpoint, reuses: dict[str, Any] | None = None) -> Claim:
    return Claim(1, 1, "b", "a", None, "", at, 1, 0, timedelta(0), reuses)


SCATTERED = {"next": 2, "done": [[4, 10]], "aside": [[3, 1]]}


@pytest.mark.parametrize("cursor", [None, 0, 3, 10, SCATTERED, {"aside": [[9, 2]]}])
def test_positions_within_the_items_are_sound(cursor: Any) -> None:
    assert misplaced(Checkpoint(0, "walk", cursor, 3), 10) is None


@pytest.mark.parametrize("cursor", ["token", 5, -5, {"page": "x"}, [1], 2.5])
def test_of_a_streams_cursor_only_the_stream_knows_what_it_means(cursor: Any) -> None:
    assert flaw("stream", _claim(Checkpoint(0, "pages", cursor, 3)), Traces(0, 100, 1)) is None


def test_earlier_generations_may_be_reused() -> None:
    claim = _claim(Checkpoint(2, "walk", None, 3), {"pages": 0, "split": 1})
    assert flaw("over", claim, Traces(1, 0, 1)) is None


@pytest.mark.parametrize(("step", "number", "damage", "why"), DAMAGES)
def test_a_damaged_document_can_be_looked_at_and_packed_if_it_can_be_loaded(
    store: Store, step: str, number: int, damage: str, why: str
) -> None:
    bench = Broken(store)
    bench.stop(step, number)
    bench.edit(f"update hf_document set {damage} where key = 'a'")
    bench.drain()
    here = bench.standing("a")
    assert why in here.reason
    looks = (store.outputs, store.items, store.asides, store.journal, store.served)
    assert all(isinstance([*look(here.id)], list) for look in looks)
    assert store.look([here.id]) == [here]
    assert isinstance(store.reuses([here.id]), dict)
    assert holdfast.verify(bench.pipeline, store).gone == 0
    capsule = io.BytesIO()
    if "reuses" in damage and store.reuses([here.id]):
        with pytest.raises(CapsuleError, match="Its row is damaged"):
            pack(store, here.id, capsule)
    else:
        pack(store, here.id, capsule)
        assert read(capsule.getvalue()).document.key == "a"
