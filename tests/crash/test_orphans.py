"""Orphans of workers that were really killed, and really stopped: found, resolved, and closed to their old workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import holdfast
from holdfast.core.orphans import GRACE
from holdfast.engine.orphans import find_orphans, resolve_orphans
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.crash.processes import finish, program, rows
from tests.crash.program import BATCH, prepare, sleepwalk, stillborn


@contextmanager
def two_hours_later(url: str) -> Iterator[Store]:
    """The same database, seen by somebody whose clock is past the grace."""
    later = open_store(url)
    with closing(type(later)(url, clock=lambda: datetime.now(UTC) + GRACE + timedelta(seconds=1))) as store:
        later.close()
        yield store


def test_a_document_whose_worker_was_killed_in_its_first_step_is_found_and_goes_on(url, tmp_path):
    with holdfast.open(url) as store, two_hours_later(url) as later:
        prepare(store)
        holdfast.submit(stillborn, store, batch=BATCH, documents=[("first", {"flag": str(tmp_path / "flag")})])
        with program("stillborn", url) as worker:
            assert worker.wait(60) == -signal.SIGKILL
        assert find_orphans(store, "stillborn") == []  # the grace is not over yet
        (orphan,) = find_orphans(later, "stillborn")
        assert (orphan.standing.key, orphan.standing.checkpoint.moves, orphan.alive) == ("first", 0, False)
        (taken,) = resolve_orphans(later, [orphan], strategy="requeue", who="cat", reason="the machine died")
        assert (taken.state, taken.crashes) == ("waiting", 1)
        assert resolve_orphans(store, [orphan], strategy="fail", who="dan", reason="again") == []
        assert holdfast.drain(stillborn, store).done == 1
        assert rows(store, "select * from sent") == [("first", os.getpid())]
        assert [entry.verb for entry in store.journal(taken.id)] == ["reclaim"]


def test_a_worker_that_was_stopped_past_the_grace_wakes_and_cannot_write(url, tmp_path):
    with holdfast.open(url) as store, two_hours_later(url) as later:
        prepare(store)
        documents = [("night", {"flag": str(tmp_path / "flag"), "where": "body"})]
        holdfast.submit(sleepwalk, store, batch=BATCH, documents=documents)
        with program("sleepwalk", url, 30) as zombie:
            _, status = os.waitpid(zombie.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            found = find_orphans(later, "sleepwalk")
            assert [(orphan.sign, orphan.standing.checkpoint.step) for orphan in found] == [("silent", "arrive")]
            (parked,) = resolve_orphans(later, found, strategy="review", who="cat", reason="the machine sleeps")
            os.kill(zombie.pid, signal.SIGCONT)
            finish(zombie)
        assert store.standing("sleepwalk", BATCH, "night") == parked
        assert parked.state == "paused"
        assert rows(store, "select * from sent") == []
        (line,) = store.journal(parked.id)
        assert (line.verb, line.who) == ("reclaim", "cat")
        assert (line.detail["was"], line.detail["state"]) == ("running", "paused")
        assert line.detail["reason"] == "the machine sleeps"
        assert f"-{zombie.pid}-" in line.detail["from"]
        store.resume(store.declare(sleepwalk.shape()), [parked.id], who="cat", reason="it is awake")
        assert holdfast.drain(sleepwalk, store).done == 1
        assert rows(store, "select * from sent") == [("night", os.getpid())]
