"""Results that are gone are redone once. If they are gone again without progress, the document waits for a person."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import holdfast
from holdfast.core.model import Checkpoint, JournalEntry
from holdfast.core.reasons import WORK_GONE, WORK_GONE_AGAIN, sentence
from holdfast.engine.failure_policy import place_not_passed
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import SOON, PipelineHarness

Fail = Callable[[holdfast.Document], object]

AGAIN = sentence(WORK_GONE_AGAIN, step="index", since="before the document passed notify")


@pytest.fixture
def store(any_store: Store) -> Store:
    return any_store


class Indexing(PipelineHarness):
    """Steps: read, index (which is verified), notify, file. Records which steps ran. A test can make steps fail."""

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
        assert self.store.resume(plan, [self.document().id], who="ann", reason="look again")


def later(_doc: holdfast.Document) -> None:
    raise holdfast.RetryLater("busy", after=0.001)


def test_work_that_is_gone_twice_in_a_row_parks_the_document(store: Store) -> None:
    harness = Indexing(store)
    harness.notify = later
    harness.submit("a")
    assert harness.drain().paused == 1
    status = harness.document()
    assert (status.state, status.reason, status.due_at) == ("paused", AGAIN, None)
    assert status.checkpoint.step == "notify"
    assert harness.runs == ["read", "index", "index"]
    assert harness.verbs() == ["defer", "rewind", "defer", "pause"]
    assert harness.store.journal(status.id)[-1].detail["reason"] == AGAIN


def test_other_documents_continue_while_one_is_parked(store: Store) -> None:
    harness = Indexing(store)
    harness.notify = lambda doc: later(doc) if doc.key == "a" else None
    harness.submit("a", "b")
    report = harness.drain()
    assert (report.done, report.paused) == (1, 1)


def test_a_resume_by_a_person_allows_another_rewind(store: Store) -> None:
    harness = Indexing(store)
    harness.notify = later
    harness.submit("a")
    harness.drain()
    harness.resume()
    assert harness.drain().paused == 1
    assert harness.runs == ["read", "index", "index", "index"]
    harness.resume()
    harness.there, harness.notify = True, lambda doc: None
    assert harness.drain().done == 1
    assert harness.runs == ["read", "index", "index", "index"]


def test_a_document_that_got_further_is_rewound_again(store: Store) -> None:
    harness = Indexing(store)
    tries: list[str] = []

    def once(doc: holdfast.Document) -> None:
        tries.append(doc.step)
        if tries.count(doc.step) == 1:
            later(doc)

    harness.notify = harness.file = once
    harness.submit("a")
    assert harness.drain().done == 1
    assert tries == ["notify", "notify", "file", "notify", "file"]
    assert harness.verbs().count("rewind") == 2


def test_a_document_that_got_further_in_its_step_is_rewound_again(store: Store) -> None:
    harness = PipelineHarness(store, pipeline := holdfast.Pipeline("p"))
    pipeline.step(name="index")(lambda doc: None).verify(lambda doc: False)
    stops = [3, 5, 5]

    @pipeline.step(commit_every=1)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        stop = stops.pop(0)
        yield from range(cursor, stop)
        later(doc)

    harness.submit("a")
    assert harness.drain().paused == 1
    assert harness.document().checkpoint.cursor == 5
    assert harness.verbs().count("rewind") == 2


def test_passing_a_gate_again_does_not_count_as_progress(store: Store) -> None:
    harness = Indexing(store, gate=True)
    harness.submit("a")
    for _ in range(2):
        assert harness.drain().paused == 1
        assert harness.document().checkpoint.step == "look"
        harness.resume()
    assert harness.drain().paused == 1
    assert harness.document().reason == AGAIN


def test_two_steps_whose_results_are_lost_in_turn_do_not_rewind_without_end(store: Store) -> None:
    harness = PipelineHarness(store, pipeline := holdfast.Pipeline("p"))
    verified: list[str] = []
    answers = iter([True, False, False, True, False, False])

    def there(doc: holdfast.Document) -> bool:
        verified.append(doc.step)
        return next(answers)

    pipeline.step(name="one")(lambda doc: None).verify(there)
    pipeline.step(name="two")(lambda doc: None).verify(there)
    pipeline.step(name="end")(later)
    harness.submit("a")
    assert harness.drain().paused == 1
    assert verified == ["one", "two", "one", "one", "two"]


def test_a_removed_step_counts_as_passed() -> None:
    pipeline = holdfast.Pipeline("p")
    for name in ("read", "index", "file"):
        pipeline.step(name=name)(lambda doc: None)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    detail = {"from": "notify", "cursor": None, "to": "index", "reason": "any words"}
    journal = [JournalEntry(moment, "rewind", "me", 1, "index", None, detail, WORK_GONE)]
    at = Checkpoint(1, "file", None, 3)
    assert place_not_passed(pipeline, pipeline["index"], at, journal) is None
    detail["from"] = "file"
    assert place_not_passed(pipeline, pipeline["index"], at, journal) == "file"


def test_changed_content_resets_the_count_of_rewinds(store: Store) -> None:
    harness = Indexing(store)
    harness.notify = later
    harness.submit("a")
    harness.drain()
    holdfast.submit(harness.pipeline, store, batch="b", documents=[("a", "changed")])
    harness.runs.clear()
    assert harness.drain().paused == 1
    assert harness.runs == ["read", "index", "index"]


def _with_a_new_step(runs: list[str]) -> holdfast.Pipeline:
    """Return a pipeline with the steps read, sign (new and verified), index (verified), notify, file."""
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


def test_a_worker_does_not_verify_a_step_that_the_document_never_did(store: Store) -> None:
    harness = Indexing(store)
    harness.notify = lambda doc: (_ for _ in ()).throw(holdfast.Pause("which page?"))
    harness.submit("a")
    harness.drain()
    runs: list[str] = []
    harness.pipeline = _with_a_new_step(runs)
    harness.resume()
    assert harness.drain().done == 1
    assert runs == ["index?"]
    assert "rewind" not in harness.verbs()


def test_a_worker_verifies_a_renamed_step(store: Store) -> None:
    harness = Indexing(store)
    harness.notify = lambda doc: (_ for _ in ()).throw(holdfast.Pause("which page?"))
    harness.submit("a")
    harness.drain()
    runs: list[str] = []
    harness.pipeline = holdfast.Pipeline("p", renamed={"index": "catalogue"})
    harness.pipeline.step(name="read")(lambda doc: None)
    catalogue = harness.pipeline.step(name="catalogue")(lambda doc: runs.append("catalogue"))
    catalogue.verify(lambda doc: False)
    harness.pipeline.step(name="notify")(lambda doc: runs.append("notify"))
    harness.pipeline.step(name="file")(lambda doc: None)
    harness.resume()
    assert harness.drain().done == 1
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


def test_the_count_of_rewinds_survives_kills(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/killed.db"
    command = [sys.executable, "-c", KILLED_AT_NOTIFY, url]
    for _ in range(2):
        assert subprocess.run(command, check=False, capture_output=True, timeout=30).returncode == -signal.SIGKILL
    assert subprocess.run(command, check=True, capture_output=True, timeout=30, text=True).stdout == "1\n"
    with holdfast.open(url) as store:
        status = store.document("p", "b", "a")
        assert (status.state, status.code) == ("paused", WORK_GONE_AGAIN)
        assert [entry.verb for entry in store.journal(status.id)] == ["reclaim", "rewind", "reclaim", "pause"]
