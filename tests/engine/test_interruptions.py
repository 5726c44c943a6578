"""Workers that stop while a body runs: they are counted, people are told, and at the end a person has to look."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.app import app
from holdfast.core.model import Checkpoint, Claim
from holdfast.core.reasons import INTERRUPTED
from holdfast.engine.interruptions import interrupted
from tests.support.pipeline_harness import PipelineHarness

NOW = timedelta(seconds=0)
CLAIM = Claim(1, 1, "b", "a", None, "", Checkpoint(0, "parse", None, 0), 1, 0, timedelta(0))


class SlowBody:
    """A body that a test lets go on. Its worker has no time, and stops as soon as the body has begun."""

    def __init__(self, harness: PipelineHarness, *, limit: int | None = 10) -> None:
        self.harness = harness
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.calls = 0

        @harness.pipeline.step(retry=holdfast.Retry(interruptions=limit))
        def parse(doc: holdfast.Document) -> str:
            self.calls += 1
            self.began.set()
            self.may_end.wait(30)
            return "text"

    def interrupt(self, reason: str = "no more time") -> holdfast.Report:
        """Run a worker that has to stop while the body runs."""
        budget = holdfast.Budget()
        self.began.clear()
        stopper = threading.Thread(target=lambda: (self.began.wait(30), budget.stop(reason)))
        stopper.start()
        report = self.harness.drain(budget=budget, grace=NOW, threads=1)
        stopper.join()
        return report


@pytest.fixture
def slow(harness: PipelineHarness) -> Iterator[SlowBody]:
    """A body that waits until the test ends."""
    slow = SlowBody(harness)
    harness.submit("a")
    yield slow
    slow.may_end.set()


def test_a_body_that_is_interrupted_is_counted_and_costs_no_attempt(slow: SlowBody) -> None:
    slow.interrupt()
    here = slow.harness.document()
    assert (here.state, here.interruptions, here.attempts, here.crashes, here.code) == ("waiting", 1, 0, 0, "")


def test_after_a_few_interruptions_people_are_told(slow: SlowBody) -> None:
    reports = [slow.interrupt() for _ in range(3)]
    here = slow.harness.document()
    assert (here.state, here.interruptions, here.code) == ("waiting", 3, INTERRUPTED)
    assert [len(report.warnings) for report in reports] == [0, 0, 1]
    assert reports[-1].warnings[0].startswith("a of b: ")
    explained = holdfast.explain(slow.harness.store, here)
    assert (explained.facts["cause"], explained.facts["interruptions"]) == ("interrupted", 3)
    result = CliRunner().invoke(app, ["show", "a", "--json", "--store", slow.harness.store.url])
    shown = json.loads(result.output)
    assert (shown["interruptions"], shown["code"]) == (3, INTERRUPTED)


def test_at_the_limit_the_document_is_parked_for_a_person_who_can_let_it_go_on(
    harness: PipelineHarness,
) -> None:
    slow = SlowBody(harness, limit=4)
    harness.submit("a")
    for _ in range(4):
        slow.interrupt()
    here = harness.document()
    assert (here.state, here.interruptions, here.code) == ("paused", 4, INTERRUPTED)
    assert harness.drain().claimed == 0
    listed = CliRunner().invoke(app, ["review", "list", "--json", "--store", harness.store.url])
    assert [one["code"] for one in json.loads(listed.output)["documents"]] == [INTERRUPTED]
    plan = harness.store.declare(harness.pipeline.shape())
    harness.store.resume(plan, [here.id], who="ann", reason="it has an hour now")
    assert harness.document().interruptions == 0
    slow.may_end.set()
    harness.drain()
    assert harness.document().state == "done"


def test_ctrl_c_is_not_counted(slow: SlowBody) -> None:
    slow.interrupt("SIGINT")
    assert slow.harness.document().interruptions == 0


def test_a_document_that_was_only_claimed_is_not_interrupted(slow: SlowBody) -> None:
    slow.harness.submit("b", "c")
    slow.interrupt()
    states = {key: slow.harness.document(key) for key in "abc"}
    assert {key: here.interruptions for key, here in states.items()} == {"a": 1, "b": 0, "c": 0}
    assert {here.state for here in states.values()} == {"waiting"}


def test_a_document_that_moved_is_not_interrupted(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    budget, may_end = holdfast.Budget(), threading.Event()

    @pipeline.step
    def first(doc: holdfast.Document) -> int:
        return 1

    @pipeline.step
    def second(doc: holdfast.Document) -> int:
        budget.stop("no more time")
        may_end.wait(30)
        return 2

    harness.submit("a")
    harness.drain(budget=budget, grace=NOW)
    may_end.set()
    here = harness.document()
    assert (here.state, here.checkpoint.step, here.interruptions) == ("waiting", "second", 0)


def test_a_move_resets_the_count(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    slow = SlowBody(harness)

    @pipeline.step
    def after(doc: holdfast.Document) -> int:
        return 1

    harness.submit("a")
    slow.interrupt()
    slow.may_end.set()
    harness.drain()
    assert (harness.document().state, harness.document().interruptions) == ("done", 0)


@pytest.mark.wording
def test_the_sentence_says_how_often_how_long_and_what_to_do(pipeline: holdfast.Pipeline) -> None:
    @pipeline.step
    def parse(doc: holdfast.Document) -> None: ...

    claim = Claim(1, 1, "b", "a", None, "", CLAIM.checkpoint, 1, 0, timedelta(0), interruptions=4)
    budget = holdfast.Budget(timedelta(minutes=15))
    reason = interrupted(claim, parse, who="ann", budget=budget, ran=890.0).reason
    assert reason.startswith("interrupted 5 times in a row at parse")
    assert "the budget of the worker was 15 min 00 s, and its body had run for 14 min 50 s" in reason
    assert "commit_every=" in reason


def test_a_document_that_was_interrupted_a_few_times_lets_others_go_first(slow: SlowBody) -> None:
    for _ in range(3):
        slow.interrupt()
    here = slow.harness.document()
    assert here.due_at is not None
    assert here.due_at > here.submitted_at
