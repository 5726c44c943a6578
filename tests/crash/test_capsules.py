"""The worker of a document is killed; the document is packed and loaded elsewhere, and ends with the same result."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.capsule import Capsule, read_capsule
from holdfast.ops.capsule_export import pack
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore

PROGRAM = """
import os, pathlib, signal, sys
import holdfast

url, folder = sys.argv[1], pathlib.Path(sys.argv[2])
p = holdfast.Pipeline("p")


def first_time(name):
    flag = folder / name
    if flag.exists():
        return False
    flag.touch()
    return True


@p.step
def numbers(doc):
    return list(range(40))


@p.step(over=numbers, retry=holdfast.Retry(attempts=1))
def halve(doc, number):
    if number == 7:
        raise ValueError("seven is odd")
    return number / 2


@p.step
def scan(doc):
    return b"\\x00\\xff" * 50_000


@scan.verify
def is_there(doc):
    return not first_time("verified")


@p.step(commit_every=1)
def pages(doc, cursor=0):
    if first_time("put off"):
        raise holdfast.RetryLater("busy", after=0.001)
    for number in range(cursor, 6):
        if number == 4 and first_time("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        yield b"bytes" if number == 2 else {"number": number, "text": "é" * (70_000 if number == 1 else 3)}


@p.step
def judge(doc):
    return [len(doc.output(pages)), len(doc.output(scan)), sum(doc.output(halve))]


with holdfast.open(url) as store:
    if store.pipelines() == []:
        holdfast.submit(p, store, batch="b", documents=[("a", {"name": "é"})])
    holdfast.drain(p, store)
"""


def run_program(url: str, folder: Path) -> int:
    """Run the program in a process and return its exit code."""
    command = [sys.executable, "-c", PROGRAM, url, str(folder)]
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode


def packed(store: Store) -> Capsule:
    file = io.BytesIO()
    pack(store, store.document("p", "b", "a").id, file)
    return read_capsule(file.getvalue())


def final_state(store: Store) -> tuple[Any, ...]:
    status = store.document("p", "b", "a")
    reuses = store.reuses([status.id])[status.id]
    return status.state, status.checkpoint, reuses, [*store.items(status.id)], store.failed_items(status.id)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/original.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


def test_a_killed_document_has_the_same_result_in_both_stores(url: str, tmp_path: Path) -> None:
    assert run_program(url, tmp_path) == -signal.SIGKILL
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    with holdfast.open(url) as original:
        before = original.document("p", "b", "a")
        assert (before.state, before.checkpoint.step, before.checkpoint.cursor) == ("running", "pages", 4)
        assert original.reuses([before.id]) == {before.id: {"numbers": 0, "halve": 0}}
        capsule = packed(original)
        journal = original.journal(before.id)
        outputs = original.outputs(before.id)
    store = SqliteStore(elsewhere)
    there = store.documents_by_id([store.load(capsule, who="ann")])[0]
    assert there.state == "waiting"
    assert there.checkpoint == before.checkpoint
    assert there.payload == {"name": "é"}
    assert store.journal(there.id)[:-1] == journal
    assert store.journal(there.id)[-1].verb == "load"
    assert store.outputs(there.id) == outputs
    store.close()
    assert run_program(url, tmp_path) == run_program(elsewhere, tmp_path) == 0
    with holdfast.open(url) as original, holdfast.open(elsewhere) as loaded:
        assert final_state(loaded) == final_state(original)
        state, _, _, items, failed = final_state(loaded)
        assert state == "done"
        assert ("scan", -1, b"\x00\xff" * 50_000) in items
        assert [(step, item.position) for step, item in failed] == [("halve", 7)]


def test_a_capsule_of_a_loaded_document_is_the_same_capsule(url: str, tmp_path: Path) -> None:
    run_program(url, tmp_path)
    with holdfast.open(url) as original:
        one = packed(original)
    store = SqliteStore(f"sqlite:///{tmp_path}/elsewhere.db")
    store.load(one, who="ann")
    two = packed(store)
    store.close()
    assert [(i.step, i.position, i.kept) for i in two.items] == [(i.step, i.position, i.kept) for i in one.items]
    assert (two.plan, two.outputs, two.asides, two.journal[:-1]) == (one.plan, one.outputs, one.asides, one.journal)


LOADING = """
import os, signal, sys
from holdfast.core.capsule import read_capsule
from holdfast.stores.sqlite import SqliteStore, capsule_import

store = SqliteStore(sys.argv[1])
capsule_import.write_journal = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
store.load(read_capsule(open(sys.argv[2], "rb").read()), who="ann")
"""


def test_a_load_that_is_killed_leaves_an_empty_store(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/original.db", tmp_path / "a.json"
    run_program(url, tmp_path)
    with holdfast.open(url) as original, file.open("wb") as whole:
        pack(original, original.document("p", "b", "a").id, whole)
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    killed = subprocess.run([sys.executable, "-c", LOADING, elsewhere, str(file)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    store = SqliteStore(elsewhere)
    assert store.pipelines() == []
    store.load(read_capsule(file.read_bytes()), who="ann")
    assert store.balance("p", "b").waiting == 1
    store.close()


VERIFYING = """
import os, signal, sys
import holdfast

p = holdfast.Pipeline("p")
verified = []


@p.step
def index(doc):
    return 1


@index.verify
def is_there(doc):
    verified.append(doc.key)
    if len(verified) == 60 and sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return int(doc.key) % 2 == 0 or doc.generation > 0


import holdfast.ops.verify
holdfast.ops.verify.SLICE_SIZE = 20
with holdfast.open(sys.argv[1]) as store:
    if store.pipelines() == []:
        holdfast.submit(p, store, batch="b", documents=[(str(n), None) for n in range(100)])
        holdfast.drain(p, store)
    found = holdfast.verify(p, store)
    print(found.rewound)
    holdfast.drain(p, store)
"""


def test_a_killed_verification_that_runs_again_redoes_nothing_twice(url: str) -> None:
    command = [sys.executable, "-c", VERIFYING, url]
    killed = subprocess.run([*command, "kill"], check=False, timeout=60, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    again = subprocess.run([*command, "go on"], check=True, timeout=60, capture_output=True, text=True)
    assert 0 < int(again.stdout) < 50, "the killed run rewound some documents, and they are not rewound again"
    with holdfast.open(url) as store:
        assert store.balance("p", "b").done == 100
        for status in store.documents("p", limit=200):
            assert status.checkpoint.generation == int(status.key) % 2
            assert [line.verb for line in store.journal(status.id)] == ["rewind"] * (int(status.key) % 2)
