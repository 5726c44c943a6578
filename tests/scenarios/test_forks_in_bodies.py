"""A body or an effect that calls os.fork(), and whose child returns: the child is ended, and the worker goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")

PROGRAM = """
import json, os, sys, warnings
import holdfast

warnings.simplefilter("ignore", DeprecationWarning)
url, where, how = sys.argv[1:]
papers = holdfast.Pipeline("papers")


def fork(place):
    if place == where and os.fork() == 0:
        if how == "exits":
            sys.exit(0)
        if how == "raises":
            raise RuntimeError("in the child")


@papers.step
def value(doc):
    fork("value")
    return doc.key


@papers.step(commit_every=1)
def stream(doc, cursor=0):
    for number in range(cursor, 3):
        fork("stream")
        yield number


@papers.step
async def on_loop(doc):
    fork("on_loop")
    return doc.key


@papers.step(runs_in="process" if where == "in_process" else "thread")
def in_process(doc):
    fork("in_process")
    return doc.key


@in_process.effect
def effect(tx, doc, value):
    tx.execute("insert into done values ('one')")
    fork("effect")


if __name__ == "__main__":
    parent = os.getpid()
    with holdfast.open(url) as store:
        with store.transaction() as tx:
            tx.execute("create table done (key text)")
        holdfast.submit(papers, store, batch="b", documents=[(str(number), None) for number in range(3)])
        report = holdfast.drain(papers, store)
        with store.reading() as tx:
            (rows,) = tx.execute("select count(*) from done").fetchone()
        verbs = [entry.verb for one in store.documents("papers", limit=9) for entry in store.journal(one.id)]
    print(json.dumps({"parent": os.getpid() == parent, "done": report.done, "rows": rows, "verbs": verbs}))
"""


def _run(tmp_path: Path, url: str, where: str, how: str) -> tuple[dict[str, Any], str]:
    program = tmp_path / "forks.py"
    program.write_text(PROGRAM)
    ran = subprocess.run(
        [sys.executable, str(program), url, where, how], capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    (line,) = ran.stdout.splitlines()  # a copy of the worker would print another one
    return json.loads(line), ran.stderr


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.mark.parametrize("where", ["value", "stream", "on_loop", "in_process", "effect"])
def test_a_forked_child_that_returns_is_ended_with_a_sentence(tmp_path: Path, url: str, where: str) -> None:
    result, errors = _run(tmp_path, url, where, "returns")
    assert result == {"parent": True, "done": 3, "rows": 3, "verbs": []}
    named = "the effect 'effect' of step 'in_process'" if where == "effect" else f"the body of step {where!r}"
    assert errors.count(f"holdfast: {named} called os.fork(), and the child process returned") >= 3
    assert "Traceback" not in errors


def test_a_forked_child_that_raises_or_exits_is_ended_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    raised, errors = _run(tmp_path, url, "value", "raises")
    assert (raised["done"], raised["verbs"]) == (3, [])
    assert errors.count("called os.fork()") == 3
    exited, errors = _run(tmp_path, f"sqlite:///{tmp_path}/other.db", "effect", "exits")
    assert (exited["done"], exited["rows"]) == (3, 3)
    assert errors == ""
