"""Orphans of workers that were killed or suspended: they are found and resolved, and their old workers cannot write."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import holdfast
from holdfast.core.orphans import GRACE
from holdfast.ops.maintenance_scan import find_orphans, resolve_orphans
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.crash.processes import finish, running_program, sorted_rows
from tests.crash.program import BATCH, killed_in_first_step, prepare, suspending


@contextmanager
def store_after_the_grace(url: str) -> Iterator[Store]:
    """Open the same database with a clock that is past the grace."""
    later = open_store(url)
    with closing(type(later)(url, clock=lambda: datetime.now(UTC) + GRACE + timedelta(seconds=1))) as store:
        later.close()
        yield store


def test_a_document_whose_worker_was_killed_in_its_first_step_is_found_and_finished(url, tmp_path):
    with holdfast.open(url) as store, store_after_the_grace(url) as later:
        prepare(store)
        documents = [("first", {"flag": str(tmp_path / "flag")})]
        holdfast.submit(killed_in_first_step, store, batch=BATCH, documents=documents)
        with running_program("die", url) as worker:
            assert worker.wait(60) == -signal.SIGKILL
        assert find_orphans(store, "killed_in_first_step") == []  # the grace is not over yet
        (orphan,) = find_orphans(later, "killed_in_first_step")
        assert (orphan.document.key, orphan.document.checkpoint.moves, orphan.alive) == ("first", 0, False)
        (taken,) = resolve_orphans(later, [orphan], strategy="requeue", who="cat", reason="the machine died")
        assert (taken.state, taken.crashes, taken.losses) == ("waiting", 0, 1)
        assert resolve_orphans(store, [orphan], strategy="fail", who="dan", reason="again") == []
        assert holdfast.drain(killed_in_first_step, store).done == 1
        assert sorted_rows(store, "select * from sent") == [("first", os.getpid())]
        assert [entry.verb for entry in store.journal(taken.id)] == ["reclaim"]


def test_a_worker_that_was_suspended_past_the_grace_cannot_write_afterwards(url, tmp_path):
    with holdfast.open(url) as store, store_after_the_grace(url) as later:
        prepare(store)
        documents = [("night", {"flag": str(tmp_path / "flag"), "where": "body"})]
        holdfast.submit(suspending, store, batch=BATCH, documents=documents)
        with running_program("suspend", url, 30) as zombie:
            _, status = os.waitpid(zombie.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            found = find_orphans(later, "suspending")
            assert [(orphan.sign, orphan.document.checkpoint.step) for orphan in found] == [("silent", "arrive")]
            (parked,) = resolve_orphans(later, found, strategy="review", who="cat", reason="the machine is suspended")
            os.kill(zombie.pid, signal.SIGCONT)
            finish(zombie)
        assert store.document("suspending", BATCH, "night") == parked
        assert parked.state == "paused"
        assert sorted_rows(store, "select * from sent") == []
        (line,) = store.journal(parked.id)
        assert (line.verb, line.who) == ("reclaim", "cat")
        assert (line.detail["was"], line.detail["state"]) == ("running", "paused")
        assert line.detail["reason"] == "the machine is suspended"
        assert f"-{zombie.pid}-" in line.detail["from"]
        store.resume(store.declare(suspending.shape()), [parked.id], who="cat", reason="the machine runs again")
        assert holdfast.drain(suspending, store).done == 1
        assert sorted_rows(store, "select * from sent") == [("night", os.getpid())]
