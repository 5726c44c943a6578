"""Closing and cleanup are killed at every commit point. Closing steps are done once, and counts always balance."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

import holdfast
from holdfast.core.batches import NOTHING_YET
from holdfast.ops.cleanup import cleanup
from holdfast.ops.close_batch import closing_document
from holdfast.stores.protocol import Store
from holdfast.stores.sql import batches as sql_batches
from holdfast.stores.sql import cleanup as sql_cleanup
from holdfast.testing.crash.child_process import run_in_child
from holdfast.testing.crash.databases import databases
from holdfast.testing.crash.report import Point
from holdfast.testing.crash.watched_store import KillMoment, WatchedStore
from tests.crash.processes import assert_everything_was_done_once, finish, kill_after, running_program, sorted_rows
from tests.crash.program import BATCH, parcel_documents, parcels, prepare, sql

letters = holdfast.Pipeline("letters")


@letters.step
def read(doc):
    return doc.key


@letters.closing
def index(doc, cursor=0):
    yield from range(cursor, 2)


@index.effect
def keep_index(tx, doc, pages):
    tx.executemany(sql(tx, "insert into indexed values (?, ?)"), [(doc.key, page) for page in pages])


@letters.closing
def notify(doc):
    return doc.payload["done"]


@notify.effect
def keep_notice(tx, doc, done):
    tx.execute(sql(tx, "insert into notices values (?, ?)"), (doc.key, done))


letters.closing.steps[0].options = msgspec.structs.replace(letters.closing.steps[0].options, commit_every=1)


def make_sealed_batch(url: str) -> None:
    """Make a batch that can be closed."""
    with holdfast.open(url) as store:
        with store.transaction() as tx:
            tx.execute("create table indexed (batch text, page integer)")
            tx.execute("create table notices (batch text, done integer)")
        holdfast.submit(letters, store, batch="march", documents=[(f"letter-{number}", None) for number in range(12)])
        holdfast.drain(letters, store)
        store.seal("letters", "march", who="cat")


class WatchedClose(WatchedStore):
    """Watches the close and the slices of a cleanup too, as commit points."""

    def close_batch(self, *arguments: Any, **options: Any) -> Any:
        place = Point(self._next(), "before", "submit", "close")
        self._pass(place)
        closed = self._store.close_batch(*arguments, **options)
        self._pass(msgspec.structs.replace(place, side="after"))
        return closed

    def cleanup_closed(self, *arguments: Any, **options: Any) -> Any:
        place = Point(self._next(), "before", "submit", "cleanup")
        self._pass(place)
        cleaned = self._store.cleanup_closed(*arguments, **options | {"limit": 8})
        self._pass(msgspec.structs.replace(place, side="after"))
        return cleaned


def close_in_child(
    url: str, folder: Path, *, kill_at: KillMoment | None = None, cleanup: bool = False
) -> tuple[bool, list[KillMoment]]:
    """Close the batch in a child process. Return whether it was killed, and the commit points that it passed."""

    def work() -> bytes:
        with holdfast.open(url) as store:
            watched = WatchedClose(store, kill_record=folder / "killed-at", kill_at=kill_at)
            how = {"batch": "march", "who": "cat", "reason": "all in"}
            holdfast.close(letters, cast("Store", watched), **how, cleanup=cleanup)
            slices = [point for point in watched.passed if point.key == "cleanup" or not cleanup]
            return msgspec.json.encode([(point.number, point.side) for point in slices])

    outcome = run_in_child(work, answer=folder / "answer", time_limit=60)
    assert not outcome.failure, outcome.failure
    return outcome.killed, [] if outcome.killed else msgspec.json.decode(outcome.answer, type=list[tuple[int, str]])  # type: ignore[return-value]


def assert_closed_once(url: str) -> None:
    with holdfast.open(url) as store:
        (found,) = store.batch_counts("letters", "march")
        assert (found.state, found.balances, found.done) == ("closed", True, 12)
        last = closing_document(store, "letters", "march")
        assert last is not None
        assert last.state == "done"
        assert [line.verb for line in store.batch_journal("letters", "march")] == ["seal", "close"]
        assert store.balance("letters.closing") == holdfast.Balance(1, done=1)
        assert sorted_rows(store, "select batch, page from indexed") == [("march", 0), ("march", 1)]
        assert sorted_rows(store, "select batch, done from notices") == [("march", 12)]


@pytest.mark.timeout(300)
def test_closing_steps_are_done_once_wherever_closing_is_killed(server: str, tmp_path: Path) -> None:
    with databases(server, tmp_path, prepare=make_sealed_batch) as fresh:
        url = fresh.fresh()
        _, points = close_in_child(url, tmp_path)
        assert_closed_once(url)
        assert len(points) > 8
        for point in points:
            url = fresh.fresh()
            killed, _ = close_in_child(url, tmp_path, kill_at=point)
            assert killed, point
            killed, _ = close_in_child(url, tmp_path)
            assert not killed
            assert_closed_once(url)


@pytest.mark.timeout(300)
def test_a_close_with_a_cleanup_continues_wherever_the_cleanup_is_killed(server: str, tmp_path: Path) -> None:
    with databases(server, tmp_path, prepare=make_sealed_batch) as fresh:
        url = fresh.fresh()
        _, points = close_in_child(url, tmp_path, cleanup=True)
        assert len(points) >= 6
        for point in points[:6]:
            url = fresh.fresh()
            killed, _ = close_in_child(url, tmp_path, kill_at=point, cleanup=True)
            assert killed, point
            killed, _ = close_in_child(url, tmp_path, cleanup=True)
            assert not killed
            with holdfast.open(url) as store:
                (found,) = store.batch_counts("letters", "march")
                assert (found.state, found.balances, found.done, found.gone) == ("closed", True, 12, 12)
                assert store.report("letters", "march").in_all.done == 12
                assert sorted_rows(store, "select batch, done from notices") == [("march", 12)]


def test_a_close_that_is_killed_before_its_commit_changes_nothing(server: str, tmp_path: Path) -> None:
    def die_with_everything_written(url: str) -> Callable[[], bytes]:
        def work() -> bytes:
            with holdfast.open(url) as store:
                begin = sql_batches._begin_closing

                def begin_and_die(*arguments: Any) -> None:
                    begin(*arguments)
                    os.kill(os.getpid(), signal.SIGKILL)

                sql_batches._begin_closing = begin_and_die  # only in this child process
                holdfast.close(letters, store, batch="march", who="cat")
            return b""

        return work

    with databases(server, tmp_path, prepare=make_sealed_batch) as fresh:
        url = fresh.fresh()
        assert run_in_child(die_with_everything_written(url), answer=tmp_path / "answer", time_limit=60).killed
        with holdfast.open(url) as store:
            (found,) = store.batch_counts("letters", "march")
            assert (found.state, found.balances) == ("sealed", True)
            assert store.balance("letters.closing").expected == 0
            assert [line.verb for line in store.batch_journal("letters", "march")] == ["seal"]
        close_in_child(url, tmp_path)
        assert_closed_once(url)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_cleanup_that_is_killed_in_a_slice_leaves_a_batch_that_balances(
    server: str, tmp_path: Path, nth: int
) -> None:
    def die_in_slice(url: str) -> Callable[[], bytes]:
        def work() -> bytes:
            with holdfast.open(url) as store:
                delete, slices = sql_cleanup._delete_kept, []

                def delete_and_die(*arguments: Any, **options: Any) -> Any:
                    cleaned = delete(*arguments, **options)
                    slices.append(cleaned)
                    if len(slices) == nth:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return cleaned

                sql_cleanup._delete_kept = delete_and_die  # only in this child process
                so_far = NOTHING_YET
                while so_far.goes_on_at is not None:
                    so_far = store.cleanup_closed("letters", "march", who="cat", limit=8, so_far=so_far)
            return b""

        return work

    with databases(server, tmp_path, prepare=make_sealed_batch) as fresh:
        url = fresh.fresh()
        close_in_child(url, tmp_path)
        assert run_in_child(die_in_slice(url), answer=tmp_path / "answer", time_limit=60).killed
        with holdfast.open(url) as store:
            (found,) = store.batch_counts("letters", "march")
            assert (found.balances, found.done, found.gone) == (True, 12, 4 * (nth - 1))
            cleaned = cleanup(store, who="cat", pause=bool)
            assert cleaned.documents == 12 - 4 * (nth - 1)
            (found,) = store.batch_counts("letters", "march")
            assert (found.balances, found.done, found.gone) == (True, 12, 12)
            assert sorted_rows(store, "select count(*) from hf_item i join hf_document d on d.id = i.document_id") == [
                (3,)
            ]


@pytest.mark.parametrize("side", ["inside the transaction", "after it"])
def test_a_deadline_whose_worker_is_killed_ends_each_document_once(server: str, tmp_path: Path, side: str) -> None:
    def die_in_slice(url: str) -> Callable[[], bytes]:
        def work() -> bytes:
            with holdfast.open(url) as store:
                end = sql_batches._end

                def end_and_die(*arguments: Any) -> None:
                    end(*arguments)
                    if side == "inside the transaction" and len(slices) == 1:
                        os.kill(os.getpid(), signal.SIGKILL)

                sql_batches._end = end_and_die  # only in this child process
                plan, slices = store.declare(letters.shape()), []
                while expired := store.expire_batch(plan, who="holdfast", limit=5):
                    slices.append(expired)
                    if len(slices) == 2:
                        os.kill(os.getpid(), signal.SIGKILL)
            return b""

        return work

    def overdue(url: str) -> None:
        with holdfast.open(url) as store:
            documents = [(f"letter-{number}", None) for number in range(12)]
            holdfast.submit(letters, store, batch="march", documents=documents, deadline=store.now())

    with databases(server, tmp_path, prepare=overdue) as fresh:
        url = fresh.fresh()
        assert run_in_child(die_in_slice(url), answer=tmp_path / "answer", time_limit=60).killed
        with holdfast.open(url) as store:
            ended = 5 if side == "inside the transaction" else 10
            assert store.balance("letters") == holdfast.Balance(12, waiting=12 - ended, dead=ended)
            assert holdfast.drain(letters, store).done == 0
            assert store.balance("letters") == holdfast.Balance(12, dead=12)
            journals = [[line.verb for line in store.journal(one.id)] for one in store.documents("letters")]
            assert journals == [["fail"]] * 12
            assert [line.verb for line in store.batch_journal("letters", "march")] == ["deadline", "seal", "expire"]


@pytest.mark.timeout(200)
def test_the_count_balances_at_every_moment_while_workers_are_killed(url: str) -> None:
    finished = threading.Event()
    seen: list[bool] = []

    def watch() -> None:
        with holdfast.open(url) as store:
            while not finished.is_set():
                (found,) = store.batch_counts("parcels")
                seen.append(found.balances and found.found == found.expected)

    with holdfast.open(url) as store:
        prepare(store)
        holdfast.submit(parcels, store, batch=BATCH, documents=parcel_documents(0, 200))
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for seconds in (0.02, 0.05, 0.1, 0.15, 0.2):
                with running_program("drain", url, 2) as worker:
                    kill_after(worker, seconds)
            with running_program("drain", url, 2) as worker:
                finish(worker)
        finally:
            finished.set()
            watcher.join()
        assert len(seen) > 20
        assert all(seen)
        assert_everything_was_done_once(store, 200)
