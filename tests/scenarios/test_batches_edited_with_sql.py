"""Batches that somebody edited with SQL: deleted rows are reported, and CHECK constraints refuse wrong rows."""

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
from holdfast.stores.sqlite.dialect import SQL
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import SECOND, StoreHarness
from holdfast.testing.conformance.batches import close, sealed
from holdfast.testing.conformance.cleanup import DAY, MONTH, clean_finished
from holdfast.testing.conformance.rename import renames
from tests.support.polling import wait_for

BIG = '"' + "x" * 70_000 + '"'


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def harness(url: str) -> Iterator[StoreHarness]:
    clock = ManualClock()
    store = _opened(url, clock)
    yield StoreHarness(store, clock)
    store.close()


def _opened(url: str, clock: ManualClock) -> Any:
    store = open_store(url)
    store._clock = clock  # type: ignore[attr-defined]
    return store


def test_documents_whose_rows_were_deleted_are_named(harness: StoreHarness) -> None:
    harness.submit(*"abc")
    harness.submit("d", "ü")
    harness.sql("delete from hf_document where key in ('b', 'ü')")
    (found,) = harness.store.batch_counts("papers")
    assert (found.balances, found.expected, found.found) == (False, 5, 3)
    assert harness.store.missing("papers", "march") == ["b", "ü"]
    report = harness.store.report("papers", "march")
    assert (report.balances, report.missing) == (False, ("b", "ü"))


def test_a_batch_that_does_not_balance_is_not_closed(harness: StoreHarness) -> None:
    sealed(harness, done="abc")
    harness.sql("delete from hf_document where key = 'b'")
    with pytest.raises(CloseRefused, match="it does not balance: 3 expected, 2 found; missing: b"):
        close(harness)


def test_a_manifest_has_each_key_once_however_often_it_is_submitted(harness: StoreHarness) -> None:
    harness.submit(*"ab")
    harness.submit(*"bc")
    harness.submit(*"abc", fingerprint="f2")
    harness.sql("delete from hf_document")
    assert harness.store.missing("papers", "march") == ["a", "b", "c"]


def test_documents_of_a_repeated_part_are_added_to_the_manifest(harness: StoreHarness) -> None:
    from holdfast.core.model import NewDocument

    for key in "ab":
        harness.store.submit(harness.plan, "march", [NewDocument(key)], submission=5, part=0)
    harness.sql("delete from hf_document")
    assert harness.store.missing("papers", "march") == ["a", "b"]


def test_renamed_documents_whose_rows_were_deleted_are_named_by_their_new_keys(harness: StoreHarness) -> None:
    harness.submit(*"abc", fingerprint="f1")
    harness.submit(*"bde", fingerprint="f2")
    renames(harness, a="x", b="a", d="ü")
    harness.sql("delete from hf_document")
    assert harness.store.missing("papers", "march") == ["a", "c", "e", "x", "ü"]


def test_a_document_without_its_items_cannot_be_open(harness: StoreHarness) -> None:
    harness.finish(harness.submit_and_claim())
    harness.clock.advance(MONTH + SECOND)
    clean_finished(harness)
    with pytest.raises(Exception, match=r"(?i)check"):
        harness.sql("update hf_document set state = 'waiting', step_id = 1, due_at = moved_at")


def test_a_dead_letter_without_its_items_is_not_redriven(harness: StoreHarness) -> None:
    harness.make_dead(harness.keep(harness.submit_and_claim(), '"page"'))
    harness.sql("update hf_document set accepted_by = 'dan'")
    harness.clock.advance(MONTH + SECOND)
    assert clean_finished(harness, with_errors=True).items == 1
    assert not harness.store.redrive([harness.document().id], who="cat", reason="again")


def test_a_commit_that_stores_a_big_value_again_saves_it_from_a_cleanup_at_the_same_time(
    harness: StoreHarness, url: str
) -> None:
    """The cleanup runs while the commit has written its item and is not finished."""
    if url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    harness.finish(harness.advance(harness.submit_and_claim(), items=[Item("extract", 0, BIG)]))
    harness.clock.advance(DAY * 3)
    clean_finished(harness, older=-SECOND)
    other = _opened(url, harness.clock)
    claim = harness.submit_and_claim("b", batch="april")
    deleted: list[int] = []
    in_commit, cleaned = threading.Event(), threading.Event()

    def effect(tx: Any) -> None:
        in_commit.set()
        assert cleaned.wait(20)

    def clean_up() -> None:
        assert in_commit.wait(20)
        deleted.append(other.cleanup_blobs(limit=10)[0])
        cleaned.set()

    cleaner = threading.Thread(target=clean_up)
    cleaner.start()
    assert harness.commit(harness.forward(claim, items=[Item("extract", 0, BIG)], effect=effect)) == [ACCEPTED]
    cleaner.join(20)
    deleted.append(other.cleanup_blobs(limit=10)[0])
    other.close()
    assert deleted == [0, 0]
    assert [value for _, _, value in harness.items(claim)] == [BIG]


def test_a_commit_stores_a_big_value_again_after_a_cleanup_deleted_it(harness: StoreHarness, url: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("SQLite has one writer at a time")
    import psycopg

    harness.finish(harness.advance(harness.submit_and_claim(), items=[Item("extract", 0, BIG)]))
    harness.clock.advance(DAY * 3)
    clean_finished(harness, older=-SECOND)
    claim = harness.submit_and_claim("b", batch="april")
    with psycopg.connect(url) as db:
        assert db.execute("delete from hf_blob").rowcount == 1  # like a cleanup that is not committed yet
        committed: list[Any] = []
        keeps = threading.Thread(
            target=lambda: committed.extend(harness.commit(harness.forward(claim, items=[Item("extract", 0, BIG)])))
        )
        keeps.start()
        _wait_for_a_blocked_statement(url)
        db.commit()
        keeps.join(20)
    assert committed == [ACCEPTED]
    assert [value for _, _, value in harness.items(claim)] == [BIG]


def _wait_for_a_blocked_statement(url: str) -> None:
    import psycopg

    blocked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    with psycopg.connect(url, autocommit=True) as db:
        wait_for(lambda: db.execute(blocked).fetchone() != (0,))


def test_deleting_worker_records_does_not_scan_all_documents(harness: StoreHarness, url: str) -> None:
    """SQLite would scan them for each worker if documents had a foreign key to workers."""
    if not url.startswith("sqlite"):
        pytest.skip("SQLite's foreign keys")
    keys = harness.sql("pragma foreign_key_list(hf_document)")
    assert "hf_worker" not in {row[2] for row in keys}
    plan = harness.sql("explain query plan " + SQL["delete_workers"].replace(":before", "0"))
    assert not [row[3] for row in plan if row[3].startswith("SCAN") and "hf_worker" not in row[3]]


SLICES = (
    "closing_steps_done",
    "next_closed_documents",
    "next_finished_documents",
    "mark_cleaned",
    "delete_documents",
    "delete_items",
    "delete_failed_items",
    "delete_journal",
    "delete_manifest_parts",
    "delete_workers",
    "unused_blobs",
    "delete_blobs",
    "dead_letters",
    "accept_tolerated",
    "documents_to_hash",
)


@pytest.mark.parametrize("query", SLICES)
def test_every_statement_of_a_cleanup_slice_uses_an_index(tmp_path: Path, query: str) -> None:
    """Each statement finds its rows by an index, so that its time does not grow with the tables."""
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    statement = re.sub(r":[a-z_]+", "null", SQL[query])
    with store.transaction() as tx:
        plan = [row[3] for row in tx.execute("explain query plan " + statement).fetchall()]
    store.close()
    assert not [line for line in plan if re.match(r"SCAN (d|i|a|j|hf_(document|item|aside|journal))\b", line)], plan
