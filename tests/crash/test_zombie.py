"""A worker that is suspended past its lease, while another finishes its document, writes nothing afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import holdfast
from holdfast.stores.protocol import Store
from tests.crash.processes import finish, running_program, sorted_rows
from tests.crash.program import BATCH, prepare, suspending

LEASE = 1.5


@contextmanager
def continued_after_another_finished(url: str, flag: object, where: str) -> Iterator[tuple[Store, object, int]]:
    """Suspend a worker, let another finish its document, and let the first continue to its end.

    Yield the store, its content before the first worker continued, and the pid of the first worker.
    """
    with holdfast.open(url) as store:
        prepare(store)
        documents = [("night", {"flag": str(flag), "where": where})]
        holdfast.submit(suspending, store, batch=BATCH, documents=documents)
        with running_program("suspend", url, LEASE) as zombie:
            _, status = os.waitpid(zombie.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
            assert holdfast.drain(suspending, store).done == 1
            before = content_of(store)
            os.kill(zombie.pid, signal.SIGCONT)
            finish(zombie)
        yield store, before, zombie.pid


def content_of(store: Store) -> object:
    document = document_of(store)
    tables = [sorted_rows(store, f"select * from {table}") for table in ("unpacked", "sent")]
    return document, list(store.items(document.id)), tables, store.balance("suspending")


def document_of(store: Store):
    return store.document("suspending", BATCH, "night")


def test_a_worker_that_continues_too_late_writes_nothing(url, tmp_path):
    with continued_after_another_finished(url, tmp_path / "flag", "body") as (store, before, zombie):
        assert content_of(store) == before
        assert sorted_rows(store, "select * from unpacked") == [("night", zombie)]  # done before it was suspended
        assert sorted_rows(store, "select * from sent") == [("night", os.getpid())]
        (reclaim,) = [entry for entry in store.journal(document_of(store).id) if entry.verb == "reclaim"]
        assert reclaim.step == "arrive"
        assert f"-{zombie}-" in reclaim.detail["from"]


def test_a_worker_that_is_suspended_inside_a_transaction_loses_its_document(postgres_url, tmp_path):
    url = f"{postgres_url}?options=-c%20idle_in_transaction_session_timeout%3D1s"
    with continued_after_another_finished(url, tmp_path / "flag", "effect") as (store, before, _):
        assert content_of(store) == before
        assert sorted_rows(store, "select * from sent") == [("night", os.getpid())]


def test_an_idle_transaction_is_ended_after_a_lease(postgres_url):
    with holdfast.open(postgres_url) as store, store.transaction() as tx:
        assert tx.execute("show idle_in_transaction_session_timeout").fetchone() == ("30s",)
