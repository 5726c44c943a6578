"""What only a person with SQL can do to a batch: rows deleted by hand, and rows that no verb would write."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import CloseRefused
from holdfast.core.model import Item
from holdfast.core.moves import ACCEPTED
from holdfast.stores import open_store
from holdfast.stores.sqlite.base import SQL
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import SECOND, Desk
from holdfast.testing.conformance.batches import close, sealed
from holdfast.testing.conformance.cleanup import DAY, MONTH, clean_finished
from holdfast.testing.conformance.renames import renames

BIG = '"' + "x" * 70_000 + '"'


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def desk(url: str) -> Iterator[Desk]:
    clock = ManualClock()
    store = _opened(url, clock)
    yield Desk(store, clock)
    store.close()


def _opened(url: str, clock: ManualClock) -> Any:
    store = open_store(url)
    store._clock = clock  # type: ignore[attr-defined]
    return store


def test_documents_whose_rows_were_deleted_are_named(desk: Desk) -> None:
    desk.submit(*"abc")
    desk.submit("d", "ü")
    desk.sql("delete from hf_document where key in ('b', 'ü')")
    (found,) = desk.store.census("papers")
    assert (found.balances, found.expected, found.found) == (False, 5, 3)
    assert desk.store.missing("papers", "march") == ["b", "ü"]
    report = desk.store.report("papers", "march")
    assert (report.balances, report.missing) == (False, ("b", "ü"))


def test_a_batch_that_does_not_balance_is_not_closed(desk: Desk) -> None:
    sealed(desk, done="abc")
    desk.sql("delete from hf_document where key = 'b'")
    with pytest.raises(CloseRefused, match="it does not balance: 3 expected, 2 found; missing: b"):
        close(desk)


def test_a_manifest_has_each_key_once_however_often_it_is_submitted(desk: Desk) -> None:
    desk.submit(*"ab")
    desk.submit(*"bc")
    desk.submit(*"abc", fingerprint="f2")
    desk.sql("delete from hf_document")
    assert desk.store.missing("papers", "march") == ["a", "b", "c"]


def test_parts_of_one_submission_that_bring_more_are_remembered_together(desk: Desk) -> None:
    from holdfast.core.model import NewDocument

    for key in "ab":
        desk.store.submit(desk.plan, "march", [NewDocument(key)], submission=5, part=0)
    desk.sql("delete from hf_document")
    assert desk.store.missing("papers", "march") == ["a", "b"]


def test_renamed_documents_whose_rows_were_deleted_are_named_by_their_new_keys(desk: Desk) -> None:
    desk.submit(*"abc", fingerprint="f1")
    desk.submit(*"bde", fingerprint="f2")
    renames(desk, a="x", b="a", d="ü")
    desk.sql("delete from hf_document")
    assert desk.store.missing("papers", "march") == ["a", "c", "e", "x", "ü"]


def test_a_document_without_its_items_cannot_be_open(desk: Desk) -> None:
    desk.finish(desk.take_in())
    desk.clock.advance(MONTH + SECOND)
    clean_finished(desk)
    with pytest.raises(Exception, match=r"(?i)check"):
        desk.sql("update hf_document set state = 'waiting', step_id = 1, due_at = moved_at")


def test_a_dead_letter_without_its_items_is_not_redriven(desk: Desk) -> None:
    desk.bury(desk.keep(desk.take_in(), '"page"'))
    desk.sql("update hf_document set accepted_by = 'dan'")
    desk.clock.advance(MONTH + SECOND)
    assert clean_finished(desk, with_errors=True).items == 1
    assert not desk.store.redrive([desk.standing().id], who="cat", reason="again")


def test_a_commit_that_keeps_a_big_value_again_saves_it_from_a_cleanup_beside_it(desk: Desk, url: str) -> None:
    """The commit has written its item and is not through when the cleanup looks."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    desk.finish(desk.advance(desk.take_in(), items=[Item("extract", 0, BIG)]))
    desk.clock.advance(DAY * 3)
    clean_finished(desk, older=-SECOND)
    other = _opened(url, desk.clock)
    claim = desk.take_in("b", batch="april")
    swept: list[int] = []
    in_the_middle, looked = threading.Event(), threading.Event()

    def effect(tx: Any) -> None:
        in_the_middle.set()
        assert looked.wait(20)

    def sweep() -> None:
        assert in_the_middle.wait(20)
        swept.append(other.cleanup_blobs(limit=10)[0])
        looked.set()

    cleaner = threading.Thread(target=sweep)
    cleaner.start()
    assert desk.commit(desk.forward(claim, items=[Item("extract", 0, BIG)], effect=effect)) == [ACCEPTED]
    cleaner.join(20)
    swept.append(other.cleanup_blobs(limit=10)[0])
    other.close()
    assert swept == [0, 0]
    assert [value for _, _, value in desk.items(claim)] == [BIG]


def test_a_cleanup_that_deletes_a_big_value_first_lets_the_commit_keep_it_anew(desk: Desk, url: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    import psycopg

    desk.finish(desk.advance(desk.take_in(), items=[Item("extract", 0, BIG)]))
    desk.clock.advance(DAY * 3)
    clean_finished(desk, older=-SECOND)
    claim = desk.take_in("b", batch="april")
    with psycopg.connect(url) as db:
        assert db.execute("delete from hf_blob").rowcount == 1  # as a cleanup does, and is not through yet
        committed: list[Any] = []
        keeps = threading.Thread(
            target=lambda: committed.extend(desk.commit(desk.forward(claim, items=[Item("extract", 0, BIG)])))
        )
        keeps.start()
        _until_somebody_waits(url)
        db.commit()
        keeps.join(20)
    assert committed == [ACCEPTED]
    assert [value for _, _, value in desk.items(claim)] == [BIG]


def _until_somebody_waits(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        while db.execute(waits).fetchone() == (0,):
            pass


def test_forgetting_workers_does_not_look_through_all_documents(desk: Desk, url: str) -> None:
    """SQLite would, for each of them, if documents referred to workers by a foreign key."""
    if not url.startswith("sqlite"):
        pytest.skip("SQLite's foreign keys")
    keys = desk.sql("pragma foreign_key_list(hf_document)")
    assert "hf_worker" not in {row[2] for row in keys}
    plan = desk.sql("explain query plan " + SQL["delete_workers"].replace(":before", "0"))
    assert not [row[3] for row in plan if row[3].startswith("SCAN") and "hf_worker" not in row[3]]


SLICES = (
    "closing_is_over",
    "next_closed",
    "next_finished",
    "mark_cleaned",
    "delete_documents",
    "delete_items",
    "delete_asides",
    "delete_lines",
    "delete_manifest",
    "delete_workers",
    "next_blobs",
    "delete_blobs",
    "dead_letters",
    "accept_tolerated",
    "documents_by_key",
)


@pytest.mark.parametrize("query", SLICES)
def test_a_slice_looks_at_no_more_than_it_needs(tmp_path: Path, query: str) -> None:
    """Each statement finds its rows by an index, whatever the size of the tables."""
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    statement = re.sub(r":[a-z_]+", "null", SQL[query])
    with store.transaction() as tx:
        plan = [row[3] for row in tx.execute("explain query plan " + statement).fetchall()]
    store.close()
    assert not [line for line in plan if re.match(r"SCAN (d|i|a|j|hf_(document|item|aside|journal))\b", line)], plan
