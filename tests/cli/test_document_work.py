"""`holdfast work --key`: one document, and an exit code that a queue can act on."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from holdfast.engine.api import opened
from tests.cli.conftest import Run


def submit(holdfast: Run) -> list[str]:
    """Submit two documents. Return their keys."""
    holdfast("submit", "papers.py", "docs")
    with opened("sqlite:///holdfast.db") as store:
        return sorted(one.key for one in store.documents("papers"))


def test_one_document_is_worked_on(holdfast: Run, folder: Path) -> None:
    first, second = submit(holdfast)
    done = holdfast("work", "papers.py", "--key", first)
    assert (done.exit_code, done.stdout) == (0, f"{first} is done\n")
    assert holdfast("work", "papers.py", "--key", first).stdout == f"{first} is done already\n"
    with opened("sqlite:///holdfast.db") as store:
        assert store.find(second)[0].state == "waiting"


def test_a_dead_letter_has_exit_code_1(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    bad = next(key for key in submit(holdfast) if "bad" in key)
    dead = holdfast("work", "papers.py", "--key", bad)
    assert dead.exit_code == 1
    assert "is dead: ValueError" in dead.stdout


def test_a_document_that_another_worker_holds_has_exit_code_6(holdfast: Run, folder: Path) -> None:
    first, _ = submit(holdfast)
    with opened("sqlite:///holdfast.db") as store:
        plan = store.plan("papers")
        assert plan is not None
        hour = timedelta(hours=1)
        bob = store.register_worker(name="bob", host="elsewhere", pid=1, born="today", lease=hour)
        assert len(store.claim(plan, bob, limit=2)) == 2
        held = holdfast("work", "papers.py", "--key", first)
        told = holdfast("work", "papers.py", "--key", first, "--json")
    assert held.exit_code == told.exit_code == 6
    assert "is held by the worker 'bob'" in held.stderr
    fields = json.loads(told.stdout)
    assert (fields["held_by"], fields["state"]) == ("bob", "running")
    assert fields["lease_left_seconds"] > 3000


def test_an_unknown_key_is_wrong_usage(holdfast: Run, folder: Path) -> None:
    submit(holdfast)
    refused = holdfast("work", "papers.py", "--key", "z")
    assert refused.exit_code == 2
    assert "has a document 'z'" in refused.stderr
    assert holdfast("work", "papers.py", "--key", "z", "--processes", "2").exit_code == 2
