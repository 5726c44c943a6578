"""A document is killed in the middle, packed, carried elsewhere, and ends there as it does where it came from."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.capsule import Capsule, read
from holdfast.engine.capsules import pack
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


def work(url: str, folder: Path) -> int:
    command = [sys.executable, "-c", PROGRAM, url, str(folder)]
    return subprocess.run(command, check=False, capture_output=True, timeout=60).returncode


def packed(store: Store) -> Capsule:
    file = io.BytesIO()
    pack(store, store.standing("p", "b", "a").id, file)
    return read(file.getvalue())


def output(store: Store) -> tuple[Any, ...]:
    here = store.standing("p", "b", "a")
    reuses = store.reuses([here.id])[here.id]
    return here.state, here.checkpoint, reuses, [*store.items(here.id)], store.asides(here.id)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/original.db"
    found: str = request.getfixturevalue("postgres_url")
    return found


def test_a_killed_document_ends_elsewhere_as_it_does_where_it_came_from(url: str, tmp_path: Path) -> None:
    assert work(url, tmp_path) == -signal.SIGKILL
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    with holdfast.open(url) as original:
        before = original.standing("p", "b", "a")
        assert (before.state, before.checkpoint.step, before.checkpoint.cursor) == ("running", "pages", 4)
        assert original.reuses([before.id]) == {before.id: {"numbers": 0, "halve": 0}}
        capsule = packed(original)
        journal = original.journal(before.id)
        outputs = original.outputs(before.id)
    store = SqliteStore(elsewhere)
    there = store.look([store.load(capsule, who="ann")])[0]
    assert there.state == "waiting"
    assert there.checkpoint == before.checkpoint
    assert there.payload == {"name": "é"}
    assert store.journal(there.id)[:-1] == journal
    assert store.journal(there.id)[-1].verb == "load"
    assert store.outputs(there.id) == outputs
    store.close()
    assert work(url, tmp_path) == work(elsewhere, tmp_path) == 0
    with holdfast.open(url) as original, holdfast.open(elsewhere) as loaded:
        assert output(loaded) == output(original)
        state, _, _, items, asides = output(loaded)
        assert state == "done"
        assert ("scan", -1, b"\x00\xff" * 50_000) in items
        assert [(step, one.position) for step, one in asides] == [("halve", 7)]


def test_a_capsule_of_what_was_loaded_is_the_same_capsule(url: str, tmp_path: Path) -> None:
    work(url, tmp_path)
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
from holdfast.core.capsule import read
from holdfast.stores.sqlite import SqliteStore

store = SqliteStore(sys.argv[1])
store._write_journal = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
store.load(read(open(sys.argv[2], "rb").read()), who="ann")
"""


def test_a_load_that_is_killed_leaves_an_empty_store(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/original.db", tmp_path / "a.json"
    work(url, tmp_path)
    with holdfast.open(url) as original, file.open("wb") as whole:
        pack(original, original.standing("p", "b", "a").id, whole)
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    killed = subprocess.run([sys.executable, "-c", LOADING, elsewhere, str(file)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    store = SqliteStore(elsewhere)
    assert store.pipelines() == []
    store.load(read(file.read_bytes()), who="ann")
    assert store.balance("p", "b").waiting == 1
    store.close()


VERIFYING = """
import os, signal, sys
import holdfast

p = holdfast.Pipeline("p")
asked = []


@p.step
def index(doc):
    return 1


@index.verify
def is_there(doc):
    asked.append(doc.key)
    if len(asked) == 60 and sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return int(doc.key) % 2 == 0 or doc.generation > 0


from holdfast.engine import verification
verification.SLICE = 20
with holdfast.open(sys.argv[1]) as store:
    if store.pipelines() == []:
        holdfast.submit(p, store, batch="b", documents=[(str(n), None) for n in range(100)])
        holdfast.drain(p, store)
    found = holdfast.verify(p, store)
    print(found.rewound)
    holdfast.drain(p, store)
"""


def test_a_verification_that_is_killed_is_run_again_and_redoes_nothing_twice(url: str) -> None:
    command = [sys.executable, "-c", VERIFYING, url]
    killed = subprocess.run([*command, "kill"], check=False, timeout=60, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    again = subprocess.run([*command, "go on"], check=True, timeout=60, capture_output=True, text=True)
    assert 0 < int(again.stdout) < 50, "what the killed one decided stays decided"
    with holdfast.open(url) as store:
        assert store.balance("p", "b").done == 100
        for here in store.standings("p", limit=200):
            assert here.checkpoint.generation == int(here.key) % 2
            assert [line.verb for line in store.journal(here.id)] == ["rewind"] * (int(here.key) % 2)
