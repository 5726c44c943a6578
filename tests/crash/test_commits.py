"""Kills on both sides of every COMMIT that SQLite is given, whichever verb gave it: one that commits twice is found."""

from __future__ import annotations

import os
import signal
import sqlite3

import msgspec
import pytest
import three_shapes

import holdfast
from holdfast.stores.sqlite.connection import Connections
from holdfast.testing.crash.children import in_child
from holdfast.testing.crash.compare import differences
from holdfast.testing.crash.databases import SqliteFiles
from holdfast.testing.crash.runs import paced
from holdfast.testing.crash.snapshot import Snapshot, take
from tests.simulation.mutants import MUTANTS, made

HELLO, *_ = three_shapes.documents()


class Commits:
    """Counts the COMMITs of this process, and kills it right before one of them, or right after it."""

    def __init__(self) -> None:
        self.passed = 0
        self.before: int | None = None
        self.after: int | None = None

    def watch(self, connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(self._heard)

    def _heard(self, statement: str) -> None:
        if self.passed == self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        if statement.lower() == "commit":
            self.passed += 1
            if self.passed == self.before:
                os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def commits(monkeypatch):
    counted, open_one = Commits(), Connections._open

    def watched(connections):
        connection, turnstile = open_one(connections)
        counted.watch(connection)
        return connection, turnstile

    monkeypatch.setattr(Connections, "_open", watched)
    return counted


def test_nothing_is_lost_or_repeated_by_a_kill_on_either_side_of_any_commit(commits, tmp_path):
    killed, found = kill_everywhere(commits, tmp_path)
    assert found == []
    assert killed > 30


def test_a_checkpoint_that_is_committed_before_the_items_is_found(commits, tmp_path):
    mutant = next(one for one in MUTANTS if one.mistake == "in SQL: the cursor is committed before the items")
    with made(mutant):
        _, found = kill_everywhere(commits, tmp_path)
    assert any(one.kind == "missing" and "of step 'split'" in one.row for one in found)


def kill_everywhere(commits, folder):
    """Answers how many runs were killed, and what differed in those that went on after it."""
    databases = SqliteFiles(folder, prepare)
    count, expected = finished(commits, databases.fresh(), folder)
    killed, found = 0, []
    for number in range(1, count + 1):
        for side in ("before", "after"):
            url = databases.fresh()
            setattr(commits, side, number)
            was_killed = ran(commits, url, folder).killed
            setattr(commits, side, None)
            killed += was_killed
            found += differences(expected, finished(commits, url, folder)[1])
    return killed, found


def prepare(url):
    with holdfast.open(url) as store, store.transaction() as tx:
        three_shapes.prepare(tx)


def finished(commits, url, folder):
    outcome = ran(commits, url, folder)
    assert not outcome.killed
    assert not outcome.failure
    return msgspec.json.decode(outcome.answer, type=tuple[int, Snapshot])


def ran(commits, url, folder):
    return in_child(lambda: work(commits, url), answer=folder / "answer", patience=60)


def work(commits, url):
    pipeline = paced(three_shapes.letters)
    commits.passed = 0
    with holdfast.open(url) as store:
        holdfast.submit(pipeline, store, batch="letters", documents=[HELLO])
        holdfast.drain(pipeline, store, threads=1, concurrency=1)
        return msgspec.json.encode((commits.passed, take(store, pipeline.name, ignore=())))
