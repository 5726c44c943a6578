"""A worker that sleeps past its lease and wakes up when another has finished its document writes nothing."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

import pytest

import holdfast
from tests.crash.processes import finish, program, rows
from tests.crash.program import BATCH, PAGES, prepare, sleepwalk

LEASE = 1.0


@pytest.fixture
def woken(url, tmp_path):
    """The store after it all: a worker was stopped, another finished the document, the first woke up and ended."""
    with holdfast.open(url) as store:
        prepare(store)
        documents = [("night", {"flag": str(tmp_path / "flag")})]
        holdfast.submit(sleepwalk, store, batch=BATCH, documents=documents)
        with program("sleepwalk", url, LEASE) as zombie:
            _, status = os.waitpid(zombie.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            report = holdfast.drain(sleepwalk, store, lease=timedelta(seconds=30))
            assert report.done == 1
            before = _everything(store)
            os.kill(zombie.pid, signal.SIGCONT)
            finish(zombie)
        yield store, before, zombie.pid


def test_a_worker_that_wakes_up_too_late_writes_nothing(woken):
    store, before, _ = woken
    assert _everything(store) == before


def test_what_the_sleeper_had_committed_is_kept_and_the_rest_is_the_others(woken):
    store, _, zombie = woken
    assert rows(store, "select parcel, page from unpacked") == [("night", page) for page in range(PAGES)]
    assert rows(store, "select parcel, pid from sent") == [("night", os.getpid())]
    written_by = [value for step, _, value in store.items(_document(store).id) if step == "walk"]
    assert [f'"by":{zombie}' in value for value in written_by] == [True, False, False]


def test_the_journal_tells_that_the_document_was_taken_from_the_sleeper(woken):
    store, _, zombie = woken
    (reclaim,) = [entry for entry in store.journal(_document(store).id) if entry.verb == "reclaim"]
    assert (reclaim.step, reclaim.cursor) == ("walk", 1)
    assert f"-{zombie}-" in reclaim.detail["from"]


def _document(store):
    return store.standing("sleepwalk", BATCH, "night")


def _everything(store):
    document = _document(store)
    tables = [rows(store, f"select * from {table}") for table in ("unpacked", "sent")]
    return document, list(store.items(document.id)), tables, store.balance("sleepwalk")
