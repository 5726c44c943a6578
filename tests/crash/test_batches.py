"""Closing and cleaning up, killed at every commit point: closing steps are done once, and the count always balances."""

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
from holdfast.engine.cleanup import cleanup
from holdfast.engine.closing import closing_document
from holdfast.stores.protocol import Store
from holdfast.testing.crash.children import in_child
from holdfast.testing.crash.databases import databases
from holdfast.testing.crash.report import Point
from holdfast.testing.crash.watched import Moment, Watched
from tests.crash.processes import assert_everything_was_done_once, finish, kill_after, program, rows
from tests.crash.program import BATCH, names, parcels, prepare, sql

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


def sealed(url: str) -> None:
    """Leaves a batch that can be closed."""
    with holdfast.open(url) as store:
        with store.transaction() as tx:
            tx.execute("create table indexed (batch text, page integer)")
            tx.execute("create table notices (batch text, done integer)")
        holdfast.submit(letters, store, batch="march", documents=[(f"letter-{number}", None) for number in range(12)])
        holdfast.drain(letters, store)
        store.seal("letters", "march", who="cat")


class WatchedClose(Watched):
    """Counts the close as a commit point too."""

    def close_batch(self, *what: Any, **how: Any) -> Any:
        place = Point(self._next(), "before", "submit", "close")
        self._pass(place)
        closed = self._store.close_batch(*what, **how)
        self._pass(msgspec.structs.replace(place, side="after"))
        return closed


def close(url: str, folder: Path, *, kill_at: Moment | None = None) -> tuple[bool, list[Moment]]:
    """Closes the batch in a child. Tells whether it was killed, and the commit points that it passed."""

    def work() -> bytes:
        with holdfast.open(url) as store:
            watched = WatchedClose(store, last_words=folder / "last-words", kill_at=kill_at)
            holdfast.close(letters, cast("Store", watched), batch="march", who="cat", reason="all in")
            return msgspec.json.encode([(point.number, point.side) for point in watched.passed])

    outcome = in_child(work, answer=folder / "answer", patience=60)
    assert not outcome.failure, outcome.failure
    return outcome.killed, [] if outcome.killed else msgspec.json.decode(outcome.answer, type=list[tuple[int, str]])  # type: ignore[return-value]


def assert_closed_once(url: str) -> None:
    with holdfast.open(url) as store:
        (found,) = store.census("letters", "march")
        assert (found.state, found.balances, found.done) == ("closed", True, 12)
        last = closing_document(store, "letters", "march")
        assert last is not None
        assert last.state == "done"
        assert [line.verb for line in store.batch_journal("letters", "march")] == ["seal", "close"]
        assert store.balance("letters.closing") == holdfast.Balance(1, done=1)
        assert rows(store, "select batch, page from indexed") == [("march", 0), ("march", 1)]
        assert rows(store, "select batch, done from notices") == [("march", 12)]


@pytest.mark.timeout(300)
def test_closing_steps_are_done_once_wherever_closing_is_killed(server: str, tmp_path: Path) -> None:
    with databases(server, tmp_path, prepare=sealed) as fresh:
        url = fresh.fresh()
        _, points = close(url, tmp_path)
        assert_closed_once(url)
        assert len(points) > 8
        for point in points:
            url = fresh.fresh()
            killed, _ = close(url, tmp_path, kill_at=point)
            assert killed, point
            killed, _ = close(url, tmp_path)
            assert not killed
            assert_closed_once(url)


def test_a_close_that_is_killed_before_its_commit_has_changed_nothing(server: str, tmp_path: Path) -> None:
    def die_with_everything_written(url: str) -> Callable[[], bytes]:
        def work() -> bytes:
            with holdfast.open(url) as store:
                begin = store._begin_closing  # type: ignore[attr-defined]

                def begin_and_die(*what: Any) -> None:
                    begin(*what)
                    os.kill(os.getpid(), signal.SIGKILL)

                store._begin_closing = begin_and_die  # type: ignore[attr-defined]
                holdfast.close(letters, store, batch="march", who="cat")
            return b""

        return work

    with databases(server, tmp_path, prepare=sealed) as fresh:
        url = fresh.fresh()
        assert in_child(die_with_everything_written(url), answer=tmp_path / "answer", patience=60).killed
        with holdfast.open(url) as store:
            (found,) = store.census("letters", "march")
            assert (found.state, found.balances) == ("sealed", True)
            assert store.balance("letters.closing").expected == 0
            assert [line.verb for line in store.batch_journal("letters", "march")] == ["seal"]
        close(url, tmp_path)
        assert_closed_once(url)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_cleanup_that_is_killed_in_a_slice_leaves_a_batch_that_balances(
    server: str, tmp_path: Path, nth: int
) -> None:
    def die_in_slice(url: str) -> Callable[[], bytes]:
        def work() -> bytes:
            with holdfast.open(url) as store:
                delete, slices = store._delete, []  # type: ignore[attr-defined]

                def delete_and_die(*what: Any, **how: Any) -> Any:
                    cleaned = delete(*what, **how)
                    slices.append(cleaned)
                    if len(slices) == nth:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return cleaned

                store._delete = delete_and_die  # type: ignore[attr-defined]
                so_far = NOTHING_YET
                while so_far.goes_on_at is not None:
                    so_far = store.cleanup_closed("letters", "march", who="cat", limit=8, so_far=so_far)
            return b""

        return work

    with databases(server, tmp_path, prepare=sealed) as fresh:
        url = fresh.fresh()
        close(url, tmp_path)
        assert in_child(die_in_slice(url), answer=tmp_path / "answer", patience=60).killed
        with holdfast.open(url) as store:
            (found,) = store.census("letters", "march")
            assert (found.balances, found.done, found.gone) == (True, 12, 4 * (nth - 1))
            cleaned = cleanup(store, who="cat", pause=bool)
            assert cleaned.documents == 12 - 4 * (nth - 1)
            (found,) = store.census("letters", "march")
            assert (found.balances, found.done, found.gone) == (True, 12, 12)
            assert rows(store, "select count(*) from hf_item i join hf_document d on d.id = i.document_id") == [(3,)]


@pytest.mark.timeout(200)
def test_the_count_balances_at_every_moment_while_workers_are_killed(url: str) -> None:
    finished = threading.Event()
    seen: list[bool] = []

    def watch() -> None:
        with holdfast.open(url) as store:
            while not finished.is_set():
                (found,) = store.census("parcels")
                seen.append(found.balances and found.found == found.expected)

    with holdfast.open(url) as store:
        prepare(store)
        holdfast.submit(parcels, store, batch=BATCH, documents=names(0, 200))
        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            for seconds in (0.02, 0.05, 0.1, 0.15, 0.2):
                with program("drain", url, 2) as worker:
                    kill_after(worker, seconds)
            with program("drain", url, 2) as worker:
                finish(worker)
        finally:
            finished.set()
            watcher.join()
        assert len(seen) > 20
        assert all(seen)
        assert_everything_was_done_once(store, 200)
