"""A process is killed before and after every COMMIT on SQLite, of any verb. A verb that commits twice is found."""

from __future__ import annotations

import os
import signal
import sqlite3

import msgspec
import pytest
import three_shapes

import holdfast
from holdfast.stores.sqlite.connection import Connections
from holdfast.testing.crash.child_process import run_in_child
from holdfast.testing.crash.databases import SqliteFiles
from holdfast.testing.crash.runs import with_fixed_commits
from holdfast.testing.crash.snapshot import Snapshot, compare_snapshots, take_snapshot
from tests.simulation.mutants import MUTANTS, applied

HELLO, *_ = three_shapes.documents()


class Commits:
    """Counts the COMMITs of this process and kills it right before or right after one of them."""

    def __init__(self) -> None:
        self.passed = 0
        self.before: int | None = None
        self.after: int | None = None

    def watch(self, connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(self._on_statement)

    def _on_statement(self, statement: str) -> None:
        if self.passed == self.after:
            os.kill(os.getpid(), signal.SIGKILL)
        if statement.lower().startswith("commit"):
            self.passed += 1
            if self.passed == self.before:
                os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def commits(monkeypatch):
    counted, open_one = Commits(), Connections._open

    def watched(connections):
        connection, lock = open_one(connections)
        counted.watch(connection)
        return connection, lock

    monkeypatch.setattr(Connections, "_open", watched)
    return counted


def test_nothing_is_lost_or_repeated_by_a_kill_on_either_side_of_any_commit(commits, tmp_path):
    killed, found = kill_everywhere(commits, tmp_path)
    assert found == []
    assert killed > 30


def test_a_checkpoint_that_is_committed_before_the_items_is_found(commits, tmp_path):
    mutant = next(mutant for mutant in MUTANTS if mutant.mistake == "in SQL: the cursor is committed before the items")
    with applied(mutant):
        _, found = kill_everywhere(commits, tmp_path)
    assert any(difference.kind == "missing" and "of step 'split'" in difference.row for difference in found)


def kill_everywhere(commits, folder):
    """Return how many runs were killed, and what differed after they were resumed."""
    databases = SqliteFiles(folder, prepare)
    count, expected = run_to_the_end(commits, databases.fresh(), folder)
    killed, found = 0, []
    for number in range(1, count + 1):
        for side in ("before", "after"):
            url = databases.fresh()
            setattr(commits, side, number)
            was_killed = run(commits, url, folder).killed
            setattr(commits, side, None)
            killed += was_killed
            found += compare_snapshots(expected, run_to_the_end(commits, url, folder)[1])
    return killed, found


def prepare(url):
    with holdfast.open(url) as store, store.transaction() as tx:
        three_shapes.prepare(tx)


def run_to_the_end(commits, url, folder):
    outcome = run(commits, url, folder)
    assert not outcome.killed
    assert not outcome.failure
    return msgspec.json.decode(outcome.answer, type=tuple[int, Snapshot])


def run(commits, url, folder):
    return run_in_child(lambda: process_letters(commits, url), answer=folder / "answer", time_limit=60)


def process_letters(commits, url):
    pipeline = with_fixed_commits(three_shapes.letters)
    commits.passed = 0
    with holdfast.open(url) as store:
        holdfast.submit(pipeline, store, batch="letters", documents=[HELLO])
        holdfast.drain(pipeline, store, threads=1, concurrency=1)
        return msgspec.json.encode((commits.passed, take_snapshot(store, pipeline.name, ignore=())))
