"""Work that is gone is done anew, once. Gone again before the document got anywhere, it is a person's to look at."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import holdfast
from holdfast.core.model import Checkpoint, Entry
from holdfast.engine.verdicts import place_not_passed
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.engine.conftest import SOON, Bench

Fail = Callable[[holdfast.Document], object]

AGAIN = "the work of index is gone again, before the document got past notify: a person has to decide"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path}/verify.db"}
    store = open_store(urls.get(request.param, lambda: request.getfixturevalue("postgres_url"))())
    yield store
    store.close()


class Indexing(Bench):
    """read, index (which is verified), notify, file. Says what ran, and lets a test break what it likes."""

    def __init__(self, store: Store, *, gate: bool = False) -> None:
        pipeline = holdfast.Pipeline("p")
        super().__init__(store, pipeline)
        self.runs: list[str] = []
        self.there = False
        self.notify: Fail = lambda doc: None
        self.file: Fail = lambda doc: None
        pipeline.step(name="read")(lambda doc: self.runs.append("read"))
        index = pipeline.step(name="index")(lambda doc: self.runs.append("index"))
        index.verify(lambda doc: self.there)
        if gate:
            pipeline.gate("look")
        pipeline.step(name="notify", retry=SOON)(self._at)
        pipeline.step(name="file", retry=SOON)(self._at)

    def _at(self, doc: holdfast.Document) -> object:
        return getattr(self, doc.step)(doc)

    def resume(self) -> None:
        plan = self.store.declare(self.pipeline.shape())
        assert self.store.resume(plan, [self.standing().id], who="ann", reason="look again")


def later(_doc: holdfast.Document) -> None:
    raise holdfast.RetryLater("busy", after=0.001)


def test_work_that_is_gone_twice_in_a_row_parks_the_document(store: Store) -> None:
    bench = Indexing(store)
    bench.notify = later
    bench.submit("a")
    assert bench.drain().paused == 1
    here = bench.standing()
    assert (here.state, here.reason, here.due_at) == ("paused", AGAIN, None)
    assert here.checkpoint.step == "notify"
    assert bench.runs == ["read", "index", "index"]
    assert bench.verbs() == ["defer", "rewind", "defer", "pause"]
    assert bench.store.journal(here.id)[-1].detail["reason"] == AGAIN


def test_the_others_go_on_while_one_is_parked(store: Store) -> None:
    bench = Indexing(store)
    bench.notify = lambda doc: later(doc) if doc.key == "a" else None
    bench.submit("a", "b")
    report = bench.drain()
    assert (report.done, report.paused) == (1, 1)


def test_a_person_who_resumes_it_gives_it_another_chance(store: Store) -> None:
    bench = Indexing(store)
    bench.notify = later
    bench.submit("a")
    bench.drain()
    bench.resume()
    assert bench.drain().paused == 1
    assert bench.runs == ["read", "index", "index", "index"]
    bench.resume()
    bench.there, bench.notify = True, lambda doc: None
    assert bench.drain().done == 1
    assert bench.runs == ["read", "index", "index", "index"]


def test_a_document_that_got_further_is_rewound_again(store: Store) -> None:
    bench = Indexing(store)
    tries: list[str] = []

    def once(doc: holdfast.Document) -> None:
        tries.append(doc.step)
        if tries.count(doc.step) == 1:
            later(doc)

    bench.notify = bench.file = once
    bench.submit("a")
    assert bench.drain().done == 1
    assert tries == ["notify", "notify", "file", "notify", "file"]
    assert bench.verbs().count("rewind") == 2


def test_a_document_that_got_further_in_its_step_is_rewound_again(store: Store) -> None:
    bench = Bench(store, pipeline := holdfast.Pipeline("p"))
    pipeline.step(name="index")(lambda doc: None).verify(lambda doc: False)
    stops = [3, 5, 5]

    @pipeline.step(commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        stop = stops.pop(0)
        yield from range(cursor, stop)
        later(doc)

    bench.submit("a")
    assert bench.drain().paused == 1
    assert bench.standing().checkpoint.cursor == 5
    assert bench.verbs().count("rewind") == 2


def test_a_gate_that_is_passed_again_is_no_second_chance(store: Store) -> None:
    bench = Indexing(store, gate=True)
    bench.submit("a")
    for _ in range(2):
        assert bench.drain().paused == 1
        assert bench.standing().checkpoint.step == "look"
        bench.resume()
    assert bench.drain().paused == 1
    assert bench.standing().reason == AGAIN


def test_two_steps_that_take_turns_come_to_an_end(store: Store) -> None:
    bench = Bench(store, pipeline := holdfast.Pipeline("p"))
    asked: list[str] = []
    turns = iter([True, False, False, True, False, False])

    def there(doc: holdfast.Document) -> bool:
        asked.append(doc.step)
        return next(turns)

    pipeline.step(name="one")(lambda doc: None).verify(there)
    pipeline.step(name="two")(lambda doc: None).verify(there)
    pipeline.step(name="end")(later)
    bench.submit("a")
    assert bench.drain().paused == 1
    assert asked == ["one", "two", "one", "one", "two"]


def test_a_place_that_is_gone_from_the_pipeline_was_passed() -> None:
    pipeline = holdfast.Pipeline("p")
    for name in ("read", "index", "file"):
        pipeline.step(name=name)(lambda doc: None)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    detail = {"from": "notify", "cursor": None, "to": "index", "reason": "the work of index is gone"}
    journal = [Entry(moment, "rewind", "me", 1, "index", None, detail)]
    at = Checkpoint(1, "file", None, 3)
    assert place_not_passed(pipeline, pipeline["index"], at, journal) is None
    detail["from"] = "file"
    assert place_not_passed(pipeline, pipeline["index"], at, journal) == "file"


def test_changed_content_begins_the_count_anew(store: Store) -> None:
    bench = Indexing(store)
    bench.notify = later
    bench.submit("a")
    bench.drain()
    holdfast.submit(bench.pipeline, store, batch="b", documents=[("a", "changed")])
    bench.runs.clear()
    assert bench.drain().paused == 1
    assert bench.runs == ["read", "index", "index"]


def _with_a_new_step(runs: list[str]) -> holdfast.Pipeline:
    """read, sign (new, and verified), index (verified), notify."""
    pipeline = holdfast.Pipeline("p")
    pipeline.step(name="read")(lambda doc: None)

    def is_signed(doc: holdfast.Document) -> bool:
        runs.append("sign?")
        return False

    pipeline.step(name="sign")(lambda doc: runs.append("sign")).verify(is_signed)
    pipeline.step(name="index")(lambda doc: runs.append("index")).verify(lambda doc: not runs.append("index?"))
    pipeline.step(name="notify")(lambda doc: None)
    pipeline.step(name="file")(lambda doc: None)
    return pipeline


def test_a_worker_does_not_ask_about_a_step_that_the_document_never_did(store: Store) -> None:
    bench = Indexing(store)
    bench.notify = lambda doc: (_ for _ in ()).throw(holdfast.Pause("which page?"))
    bench.submit("a")
    bench.drain()
    runs: list[str] = []
    bench.pipeline = _with_a_new_step(runs)
    bench.resume()
    assert bench.drain().done == 1
    assert runs == ["index?"]
    assert "rewind" not in bench.verbs()


def test_a_worker_asks_about_a_step_under_its_new_name(store: Store) -> None:
    bench = Indexing(store)
    bench.notify = lambda doc: (_ for _ in ()).throw(holdfast.Pause("which page?"))
    bench.submit("a")
    bench.drain()
    runs: list[str] = []
    bench.pipeline = holdfast.Pipeline("p", renamed={"index": "catalogue"})
    bench.pipeline.step(name="read")(lambda doc: None)
    catalogue = bench.pipeline.step(name="catalogue")(lambda doc: runs.append("catalogue"))
    catalogue.verify(lambda doc: False)
    bench.pipeline.step(name="notify")(lambda doc: runs.append("notify"))
    bench.pipeline.step(name="file")(lambda doc: None)
    bench.resume()
    assert bench.drain().done == 1
    assert runs == ["catalogue", "notify"]


KILLED_AT_NOTIFY = """
import os, signal, sys, holdfast

p = holdfast.Pipeline("p")
p.step(name="index")(lambda doc: None).verify(lambda doc: False)
p.step(name="notify")(lambda doc: os.kill(os.getpid(), signal.SIGKILL))
with holdfast.open(sys.argv[1]) as store:
    holdfast.submit(p, store, batch="b", documents=[("a", None)])
    print(holdfast.drain(p, store).paused)
"""


def test_the_count_survives_kills(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/killed.db"
    command = [sys.executable, "-c", KILLED_AT_NOTIFY, url]
    for _ in range(2):
        assert subprocess.run(command, check=False, capture_output=True, timeout=30).returncode == -signal.SIGKILL
    assert subprocess.run(command, check=True, capture_output=True, timeout=30, text=True).stdout == "1\n"
    with holdfast.open(url) as store:
        here = store.standing("p", "b", "a")
        assert (here.state, here.reason) == ("paused", AGAIN)
        assert [entry.verb for entry in store.journal(here.id)] == ["reclaim", "rewind", "reclaim", "pause"]
