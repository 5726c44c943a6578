"""A worker that sleeps past its lease and wakes up when another has finished its document writes nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import holdfast
from holdfast.stores.protocol import Store
from tests.crash.processes import finish, program, rows
from tests.crash.program import BATCH, prepare, sleepwalk

LEASE = 1.5


@contextmanager
def woken_after_another_finished(url: str, flag: object, where: str) -> Iterator[tuple[Store, object, int]]:
    """Gives the store, all that the second worker left there, and the pid of the first, which has ended since."""
    with holdfast.open(url) as store:
        prepare(store)
        documents = [("night", {"flag": str(flag), "where": where})]
        holdfast.submit(sleepwalk, store, batch=BATCH, documents=documents)
        with program("sleepwalk", url, LEASE) as zombie:
            _, status = os.waitpid(zombie.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            assert holdfast.drain(sleepwalk, store).done == 1
            before = everything(store)
            os.kill(zombie.pid, signal.SIGCONT)
            finish(zombie)
        yield store, before, zombie.pid


def everything(store: Store) -> object:
    document = document_of(store)
    tables = [rows(store, f"select * from {table}") for table in ("unpacked", "sent")]
    return document, list(store.items(document.id)), tables, store.balance("sleepwalk")


def document_of(store: Store):
    return store.standing("sleepwalk", BATCH, "night")


def test_a_worker_that_wakes_up_too_late_writes_nothing(url, tmp_path):
    with woken_after_another_finished(url, tmp_path / "flag", "body") as (store, before, zombie):
        assert everything(store) == before
        assert rows(store, "select * from unpacked") == [("night", zombie)]  # done before it fell asleep
        assert rows(store, "select * from sent") == [("night", os.getpid())]
        (reclaim,) = [entry for entry in store.journal(document_of(store).id) if entry.verb == "reclaim"]
        assert reclaim.step == "arrive"
        assert f"-{zombie}-" in reclaim.detail["from"]


def test_a_worker_that_falls_asleep_inside_a_transaction_does_not_hold_its_document_for_ever(postgres_url, tmp_path):
    url = f"{postgres_url}?options=-c%20idle_in_transaction_session_timeout%3D1s"
    with woken_after_another_finished(url, tmp_path / "flag", "effect") as (store, before, _):
        assert everything(store) == before
        assert rows(store, "select * from sent") == [("night", os.getpid())]


def test_nobody_may_be_silent_inside_a_transaction_for_longer_than_a_lease(postgres_url):
    with holdfast.open(postgres_url) as store, store.transaction() as tx:
        assert tx.execute("show idle_in_transaction_session_timeout").fetchone() == ("30s",)
