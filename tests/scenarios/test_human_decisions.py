"""Decisions of people: what bodies read of them, deadlines of gates, and decisions about running documents."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import holdfast
from holdfast.core.formatting import format_exact_duration
from holdfast.core.reasons import GATE_EXPIRED, WORK_GONE_AGAIN, sentence
from holdfast.engine import scheduler
from holdfast.engine.claimed_document import ClaimedDocument
from holdfast.observe.events import Decided, Event, LostClaim
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock, document
from tests.support.pipeline_harness import SOON, PipelineHarness
from tests.support.polling import wait_for

DAY = timedelta(days=1)
LONG = 20.0
"""Seconds after which a stream ends by itself, so that a test fails and does not hang."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    store = SqliteStore(f"sqlite:///{tmp_path}/engine.db", clock=clock)
    yield store
    store.close()


def resume(harness: PipelineHarness, key: str = "a", **options: Any) -> list[int]:
    plan = harness.store.declare(harness.pipeline.shape())
    return harness.store.resume(plan, [harness.document(key).id], **{"who": "ada", "reason": "fine"} | options)


# what bodies read


@pytest.mark.parametrize("runs_in", ["thread", "process"])
def test_a_body_reads_what_was_decided_at_a_gate(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, clock: ManualClock, runs_in: Any
) -> None:
    gate = pipeline.gate("human_review")

    @pipeline.step(runs_in=runs_in)
    def publish(doc: holdfast.Document) -> dict[str, Any]:
        decision = doc.decision(gate)
        assert decision is not None
        return {"who": decision.who, "why": decision.reason, "answer": decision.answer, "at": decision.at.isoformat()}

    harness.submit("a")
    harness.drain()
    clock.advance(DAY)
    resume(harness, answer={"title": "Offer", "price": 10**20})
    assert harness.drain().done == 1
    answer = {"title": "Offer", "price": 10**20}
    assert harness.kept("publish") == [{"who": "ada", "why": "fine", "answer": answer, "at": clock().isoformat()}]


@pytest.mark.parametrize("runs_in", ["thread", "process"])
def test_a_body_that_paused_reads_the_answer(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, runs_in: Any
) -> None:
    @pipeline.step(runs_in=runs_in)
    def ask(doc: holdfast.Document) -> Any:
        decision = doc.decision()
        if decision is None:
            raise holdfast.Pause("which page?")
        return decision.answer

    harness.submit("a")
    assert harness.drain().paused == 1
    resume(harness, answer=7)
    harness.drain()
    assert harness.kept("ask") == [7]


def test_the_last_answer_is_the_one_that_counts(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def ask(doc: holdfast.Document) -> Any:
        decision = doc.decision()
        if decision is None or decision.answer != "yes":
            raise holdfast.Pause("may I?")
        return decision.answer

    harness.submit("a")
    for answer in ("no", "yes"):
        assert harness.drain().paused == 1
        resume(harness, answer=answer)
    assert harness.drain().done == 1


def test_a_resume_after_a_hold_is_no_answer_to_a_question(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    @pipeline.step
    def ask(doc: holdfast.Document) -> None:
        if doc.decision() is None:
            raise holdfast.Pause("may I send it?")

    harness.submit("a")
    harness.store.pause([harness.document().id], who="eve", reason="maintenance")
    resume(harness, who="eve", reason="over")
    assert harness.drain().paused == 1
    assert harness.document().reason == "may I send it?"


def test_a_resume_after_lost_results_is_no_answer_to_a_question(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    tries: list[str] = []

    @pipeline.step
    def index(doc: holdfast.Document) -> None:
        pass

    @index.verify
    def indexed(doc: holdfast.Document) -> bool:
        return len(tries) > 2

    @pipeline.step(retry=SOON)
    def send(doc: holdfast.Document) -> None:
        tries.append(doc.key)
        if len(tries) <= 2:
            raise holdfast.RetryLater("busy", after=0)
        if doc.decision() is None:
            raise holdfast.Pause("may I send it?")

    harness.submit("a")
    harness.drain()
    assert harness.document().code == WORK_GONE_AGAIN
    resume(harness)
    harness.drain()
    harness.drain()
    assert harness.document().reason == "may I send it?"


def test_a_decision_stays_after_a_rewind_to_a_later_step_but_not_to_an_earlier_one(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    pipeline.step(name="draft")(lambda doc: "draft")
    gate = pipeline.gate("approval")
    read: list[str | None] = []

    @pipeline.step
    def publish(doc: holdfast.Document) -> None:
        decision = doc.decision(gate)
        read.append(decision and decision.who)

    harness.submit("a")
    harness.drain()
    resume(harness)
    harness.drain()
    plan, ids = harness.store.declare(pipeline.shape()), [harness.document().id]
    harness.store.rewind_to(plan, ids, to="publish", who="eve", reason="again")
    assert harness.drain().done == 1
    harness.store.rewind_to(plan, ids, to="draft", who="eve", reason="again")
    assert harness.drain().paused == 1
    resume(harness, who="bob")
    harness.drain()
    assert read == ["ada", "ada", "bob"]


def test_changed_content_needs_a_new_decision(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step
    def ask(doc: holdfast.Document) -> None:
        if doc.decision() is None:
            raise holdfast.Pause("may I?")

    harness.submit("a")
    harness.drain()
    resume(harness)
    harness.drain()
    holdfast.submit(pipeline, harness.store, batch="b", documents=[("a", {"name": "changed"})])
    assert harness.drain().paused == 1


def test_a_unit_test_can_pass_decisions_to_a_body(pipeline: holdfast.Pipeline, clock: ManualClock) -> None:
    gate = pipeline.gate("approval")

    @pipeline.step
    def publish(doc: holdfast.Document) -> list[str | None]:
        return [one and one.who for one in (doc.decision(gate), doc.decision())]

    yes, own = holdfast.Decision("ada", "fine", None, clock()), holdfast.Decision("bob", "so", 7, clock())
    assert publish(document()) == [None, None]
    assert publish(document(decisions={gate: yes, publish: own}, step=publish)) == ["ada", "bob"]


# deadlines of gates


@pytest.mark.parametrize(("otherwise", "state"), [("approve", "done"), ("reject", "dead")])
@pytest.mark.parametrize("place", ["moved to", "first"])
def test_a_gate_without_a_decision_is_decided_after_its_deadline(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, clock: ManualClock, otherwise: Any, state: str, place: str
) -> None:
    if place == "moved to":
        pipeline.step(name="draft")(lambda doc: "draft")
    gate = pipeline.gate("human_review", within=3 * DAY, otherwise=otherwise)
    by: list[str] = []

    @pipeline.step
    def publish(doc: holdfast.Document) -> None:
        decision = doc.decision(gate)
        by.append(decision.who if decision else "")

    harness.submit("a", "b")
    assert harness.drain().paused == 2
    assert harness.document().due_at == clock() + 3 * DAY
    clock.advance(3 * DAY - timedelta(seconds=1))
    harness.drain()
    assert harness.document().state == "paused"
    clock.advance(timedelta(seconds=1))
    events: list[Event] = []
    harness.drain(listeners=[events.append])
    assert [harness.document(key).state for key in "ab"] == [state, state]
    decisions = [line for line in harness.store.journal(harness.document().id) if line.verb in ("resume", "reject")]
    assert [(line.who, line.detail["reason"]) for line in decisions] == [
        ("holdfast", sentence(GATE_EXPIRED, gate="human_review", within="3 days"))
    ]
    assert [len(one.documents) for one in events if isinstance(one, Decided)] == [2]
    assert by == (["holdfast"] * 2 if otherwise == "approve" else [])


def test_a_late_decision_of_a_person_counts_if_no_worker_decided_before(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, clock: ManualClock
) -> None:
    pipeline.gate("human_review", within=DAY, otherwise="reject")
    pipeline.step(name="publish")(lambda doc: "published")
    harness.submit("a")
    harness.drain()
    clock.advance(2 * DAY)
    resume(harness)  # late, but before any worker checked the gate
    assert harness.drain().done == 1
    assert harness.verbs().count("reject") == 0


def test_workers_that_check_a_gate_at_the_same_time_decide_once(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, clock: ManualClock
) -> None:
    pipeline.gate("human_review", within=DAY, otherwise="approve")
    pipeline.step(name="publish")(lambda doc: "published")
    harness.submit(*map(str, range(50)))
    harness.drain()
    clock.advance(2 * DAY)
    workers = [threading.Thread(target=harness.drain) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [harness.verbs(str(n)).count("resume") for n in range(50)] == [1] * 50
    assert harness.store.balance("p").done == 50


@pytest.mark.parametrize("place", ["moved to", "first"])
def test_a_deadline_added_to_a_gate_applies_to_documents_that_wait_there(
    harness: PipelineHarness, clock: ManualClock, place: str
) -> None:
    def version(**late: Any) -> holdfast.Pipeline:
        pipeline = holdfast.Pipeline("p")
        if place == "moved to":
            pipeline.step(name="draft")(lambda doc: "draft")
        pipeline.gate("human_review", **late)
        return pipeline

    harness.pipeline = version()
    harness.submit("a")
    assert harness.drain().paused == 1
    clock.advance(DAY)
    harness.pipeline = version(within=3 * DAY, otherwise="reject")
    harness.drain()
    assert (harness.document().state, harness.document().due_at) == ("paused", clock() + 2 * DAY)
    clock.advance(2 * DAY)
    harness.drain()
    assert harness.document().state == "dead"


def test_a_gate_without_a_deadline_never_decides_by_itself(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, clock: ManualClock
) -> None:
    pipeline.gate("human_review")
    harness.submit("a")
    harness.drain()
    assert harness.document().due_at is None
    clock.advance(10_000 * DAY)
    harness.drain()
    assert harness.document().state == "paused"


@pytest.mark.parametrize(
    ("late", "says"),
    [
        ({"within": DAY}, "together with otherwise="),
        ({"otherwise": "reject"}, "together with otherwise="),
        ({"within": timedelta(0), "otherwise": "reject"}, "must be a positive timedelta"),
        ({"within": 3, "otherwise": "reject"}, "must be a positive timedelta"),
        ({"within": DAY, "otherwise": "shrug"}, "not 'shrug'"),
    ],
)
def test_a_gate_with_an_invalid_deadline_is_refused(
    pipeline: holdfast.Pipeline, late: dict[str, Any], says: str
) -> None:
    with pytest.raises(holdfast.DefinitionError, match=says):
        pipeline.gate("human_review", **late)


def test_a_step_cannot_have_a_gate_deadline(pipeline: holdfast.Pipeline) -> None:
    options: Any = {"within": DAY}
    with pytest.raises(holdfast.DefinitionError, match="within= is for gates"):
        pipeline.step(**options)(lambda doc: None)


@pytest.mark.parametrize(
    ("span", "says"),
    [
        (timedelta(days=3), "3 days"),
        (timedelta(days=1), "1 day"),
        (timedelta(hours=36), "36 hours"),
        (timedelta(minutes=90), "90 minutes"),
        (timedelta(seconds=90), "90 seconds"),
        (timedelta(milliseconds=1500), "1.5 seconds"),
    ],
)
def test_a_duration_is_formatted_in_the_largest_exact_unit(span: timedelta, says: str) -> None:
    assert format_exact_duration(span) == says


def test_a_document_that_waits_for_a_decision_holds_no_claim_and_no_memory(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    found: list[tuple[int, int]] = []

    @pipeline.step
    def draft(doc: holdfast.Document) -> str:
        if doc.key == "last":
            gc.collect()
            in_hand = [
                one for one in gc.get_objects() if isinstance(one, ClaimedDocument) and one.bodies.pipeline is pipeline
            ]
            plan = harness.store.declare(pipeline.shape())
            found.append((len(in_hand), harness.store.running(plan)))
        return "x" * 1000

    pipeline.gate("human_review")
    harness.submit(*map(str, range(100)))
    harness.submit("last")
    assert harness.drain(threads=1, concurrency=1).paused == 101
    assert found == [(1, 1)]


# decisions about running documents


def cancel(harness: PipelineHarness) -> None:
    harness.store.cancel([harness.document().id], who="eve", reason="withdrawn")


def pause(harness: PipelineHarness) -> None:
    harness.store.pause([harness.document().id], who="eve", reason="not now")


def rewind(harness: PipelineHarness) -> None:
    plan = harness.store.declare(harness.pipeline.shape())
    harness.store.rewind_to(plan, [harness.document().id], to="pages", who="eve", reason="looked at", then="park")


def change(harness: PipelineHarness) -> None:
    holdfast.submit(harness.pipeline, harness.store, batch="b", documents=[("a", {"name": "changed"})])
    pause(harness)


AT = 5
"""The item at which the decision is made."""


@pytest.mark.parametrize("decide", [cancel, pause, rewind, change])
@pytest.mark.parametrize("shape", ["thread", "async"])
def test_a_stream_ends_at_its_next_item_when_its_claim_is_lost(
    pipeline: holdfast.Pipeline,
    harness: PipelineHarness,
    monkeypatch: pytest.MonkeyPatch,
    decide: Callable[[PipelineHarness], None],
    shape: str,
) -> None:
    monkeypatch.setattr(scheduler, "MAINTENANCE_INTERVAL", 0.0)
    ended: list[str] = []
    closed = threading.Event()

    def items() -> Iterator[int]:
        until = monotonic() + LONG
        number = 0
        while monotonic() < until:
            yield number
            number += 1
            if number == AT:
                decide(harness)
        ended.append("at its end")

    if shape == "thread":

        @pipeline.step(commit_every=10**9, keep=False)
        def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
            try:
                yield from items()
            finally:
                closed.set()

    else:

        @pipeline.step(name="pages", commit_every=10**9, keep=False)
        async def pages_async(doc: holdfast.Document, cursor: int = 0) -> AsyncIterator[int]:
            for number in items():
                yield number

    harness.submit("a")
    events: list[Event] = []
    harness.drain(listeners=[events.append])
    assert "at its end" not in ended
    assert [one.claim.key for one in events if isinstance(one, LostClaim)] == ["a"]
    assert harness.document().state in ("cancelled", "paused")
    assert shape != "thread" or closed.wait(LONG), "the thread did not close the stream at its next item"


def test_a_stream_in_a_child_process_is_ended_when_its_claim_is_lost(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scheduler, "MAINTENANCE_INTERVAL", 0.0)
    begun = tmp_path / "begun"

    @pipeline.step(commit_every=10**9, runs_in="process", keep=False)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        until = monotonic() + LONG
        number = 0
        while monotonic() < until:
            yield number
            number += 1
            if number == AT:
                begun.touch()
        (tmp_path / "at its end").touch()

    def decide() -> None:
        wait_for(begun.exists)
        cancel(harness)

    harness.submit("a")
    decider = threading.Thread(target=decide)
    decider.start()
    harness.drain()
    decider.join()
    assert harness.document().state == "cancelled"
    assert not (tmp_path / "at its end").exists()


def test_a_lost_claim_does_not_stop_other_documents(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MAINTENANCE_INTERVAL", 0.0)
    lost = threading.Event()
    ended: list[str] = []

    @pipeline.step(commit_every=10**9)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[Any]:
        if doc.key == "a":
            cancel(harness)
            until = monotonic() + LONG
            while monotonic() < until:
                cursor += 1
                yield holdfast.At(cursor)
            ended.append(doc.key)
        else:
            for number in range(3):
                assert lost.wait(LONG)
                yield number

    harness.submit("a", "b")
    harness.drain(listeners=[lambda events: lost.set() if isinstance(events, LostClaim) else None])
    assert harness.document("a").state == "cancelled"
    assert ended == []
    assert harness.kept("pages", "b") == [0, 1, 2]
