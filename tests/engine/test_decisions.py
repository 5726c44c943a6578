"""What people decide, and what becomes of work that somebody decided about meanwhile."""

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
from holdfast.core.decisions import spoken
from holdfast.engine import rounds
from holdfast.engine.events import Decided, Event, LostClaim
from holdfast.engine.hand import InHand
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock, document
from tests.engine.conftest import SOON, Bench

DAY = timedelta(days=1)
LONG = 20.0
"""Seconds after which a stream that nobody stops gives up, so that a test fails rather than hangs."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    store = SqliteStore(f"sqlite:///{tmp_path}/engine.db", clock=clock)
    yield store
    store.close()


def resume(bench: Bench, key: str = "a", **said: Any) -> list[int]:
    plan = bench.store.declare(bench.pipeline.shape())
    return bench.store.resume(plan, [bench.standing(key).id], **{"who": "ada", "reason": "fine"} | said)


# What bodies read of it


@pytest.mark.parametrize("runs_in", ["thread", "process"])
def test_a_body_reads_what_was_decided_at_a_gate(
    pipeline: holdfast.Pipeline, bench: Bench, clock: ManualClock, runs_in: Any
) -> None:
    gate = pipeline.gate("human_review")

    @pipeline.step(runs_in=runs_in)
    def publish(doc: holdfast.Document) -> dict[str, Any]:
        decision = doc.decision(gate)
        assert decision is not None
        return {"who": decision.who, "why": decision.reason, "answer": decision.answer, "at": decision.at.isoformat()}

    bench.submit("a")
    bench.drain()
    clock.advance(DAY)
    resume(bench, answer={"title": "Offer", "price": 10**20})
    assert bench.drain().done == 1
    answer = {"title": "Offer", "price": 10**20}
    assert bench.kept("publish") == [{"who": "ada", "why": "fine", "answer": answer, "at": clock().isoformat()}]


@pytest.mark.parametrize("runs_in", ["thread", "process"])
def test_a_body_that_paused_reads_the_answer(pipeline: holdfast.Pipeline, bench: Bench, runs_in: Any) -> None:
    @pipeline.step(runs_in=runs_in)
    def ask(doc: holdfast.Document) -> Any:
        decision = doc.decision()
        if decision is None:
            raise holdfast.Pause("which page?")
        return decision.answer

    bench.submit("a")
    assert bench.drain().paused == 1
    resume(bench, answer=7)
    bench.drain()
    assert bench.kept("ask") == [7]


def test_the_last_answer_is_the_one_that_counts(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def ask(doc: holdfast.Document) -> Any:
        decision = doc.decision()
        if decision is None or decision.answer != "yes":
            raise holdfast.Pause("may I?")
        return decision.answer

    bench.submit("a")
    for answer in ("no", "yes"):
        assert bench.drain().paused == 1
        resume(bench, answer=answer)
    assert bench.drain().done == 1


def test_a_resume_after_an_operators_pause_answers_nothing(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def ask(doc: holdfast.Document) -> None:
        if doc.decision() is None:
            raise holdfast.Pause("may I send it?")

    bench.submit("a")
    bench.store.pause([bench.standing().id], who="eve", reason="maintenance")
    resume(bench, who="eve", reason="over")
    assert bench.drain().paused == 1
    assert bench.standing().reason == "may I send it?"


def test_a_resume_of_work_that_was_gone_answers_nothing(pipeline: holdfast.Pipeline, bench: Bench) -> None:
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

    bench.submit("a")
    bench.drain()
    assert "is gone again" in bench.standing().reason
    resume(bench)
    bench.drain()
    bench.drain()
    assert bench.standing().reason == "may I send it?"


def test_a_decision_is_kept_by_a_rewind_to_a_later_step_and_not_by_one_before(
    pipeline: holdfast.Pipeline, bench: Bench
) -> None:
    pipeline.step(name="draft")(lambda doc: "draft")
    gate = pipeline.gate("approval")
    read: list[str | None] = []

    @pipeline.step
    def publish(doc: holdfast.Document) -> None:
        decision = doc.decision(gate)
        read.append(decision and decision.who)

    bench.submit("a")
    bench.drain()
    resume(bench)
    bench.drain()
    plan, ids = bench.store.declare(pipeline.shape()), [bench.standing().id]
    bench.store.rewind_to(plan, ids, to="publish", who="eve", reason="again")
    assert bench.drain().done == 1
    bench.store.rewind_to(plan, ids, to="draft", who="eve", reason="again")
    assert bench.drain().paused == 1
    resume(bench, who="bob")
    bench.drain()
    assert read == ["ada", "ada", "bob"]


def test_other_content_is_decided_anew(pipeline: holdfast.Pipeline, bench: Bench) -> None:
    @pipeline.step
    def ask(doc: holdfast.Document) -> None:
        if doc.decision() is None:
            raise holdfast.Pause("may I?")

    bench.submit("a")
    bench.drain()
    resume(bench)
    bench.drain()
    holdfast.submit(pipeline, bench.store, batch="b", documents=[("a", {"name": "changed"})])
    assert bench.drain().paused == 1


def test_a_unit_test_gives_decisions_to_a_body(pipeline: holdfast.Pipeline, clock: ManualClock) -> None:
    gate = pipeline.gate("approval")

    @pipeline.step
    def publish(doc: holdfast.Document) -> list[str | None]:
        return [one and one.who for one in (doc.decision(gate), doc.decision())]

    yes, own = holdfast.Decision("ada", "fine", None, clock()), holdfast.Decision("bob", "so", 7, clock())
    assert publish(document()) == [None, None]
    assert publish(document(decisions={gate: yes, publish: own}, step=publish)) == ["ada", "bob"]


# Time to decide


@pytest.mark.parametrize(("otherwise", "state"), [("approve", "done"), ("reject", "dead")])
@pytest.mark.parametrize("place", ["moved to", "first"])
def test_what_nobody_decides_in_time_is_decided_for_everybody(
    pipeline: holdfast.Pipeline, bench: Bench, clock: ManualClock, otherwise: Any, state: str, place: str
) -> None:
    if place == "moved to":
        pipeline.step(name="draft")(lambda doc: "draft")
    gate = pipeline.gate("human_review", within=3 * DAY, otherwise=otherwise)
    by: list[str] = []

    @pipeline.step
    def publish(doc: holdfast.Document) -> None:
        decision = doc.decision(gate)
        by.append(decision.who if decision else "")

    bench.submit("a", "b")
    assert bench.drain().paused == 2
    assert bench.standing().due_at == clock() + 3 * DAY
    clock.advance(3 * DAY - timedelta(seconds=1))
    bench.drain()
    assert bench.standing().state == "paused"
    clock.advance(timedelta(seconds=1))
    said: list[Event] = []
    bench.drain(listeners=[said.append])
    assert [bench.standing(key).state for key in "ab"] == [state, state]
    decisions = [line for line in bench.store.journal(bench.standing().id) if line.verb in ("resume", "reject")]
    assert [(line.who, line.detail["reason"]) for line in decisions] == [
        ("holdfast", "nobody decided at human_review within 3 days")
    ]
    assert [len(one.documents) for one in said if isinstance(one, Decided)] == [2]
    assert by == (["holdfast"] * 2 if otherwise == "approve" else [])


def test_what_a_person_decided_in_time_stays_decided(
    pipeline: holdfast.Pipeline, bench: Bench, clock: ManualClock
) -> None:
    pipeline.gate("human_review", within=DAY, otherwise="reject")
    pipeline.step(name="publish")(lambda doc: "published")
    bench.submit("a")
    bench.drain()
    clock.advance(2 * DAY)
    resume(bench)  # late, but before any worker looked
    assert bench.drain().done == 1
    assert bench.verbs().count("reject") == 0


def test_workers_that_look_at_once_decide_once(pipeline: holdfast.Pipeline, bench: Bench, clock: ManualClock) -> None:
    pipeline.gate("human_review", within=DAY, otherwise="approve")
    pipeline.step(name="publish")(lambda doc: "published")
    bench.submit(*map(str, range(50)))
    bench.drain()
    clock.advance(2 * DAY)
    workers = [threading.Thread(target=bench.drain) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [bench.verbs(str(n)).count("resume") for n in range(50)] == [1] * 50
    assert bench.store.balance("p").done == 50


@pytest.mark.parametrize("place", ["moved to", "first"])
def test_a_gate_that_gets_a_time_later_has_it_for_those_that_wait_there(
    bench: Bench, clock: ManualClock, place: str
) -> None:
    def version(**late: Any) -> holdfast.Pipeline:
        pipeline = holdfast.Pipeline("p")
        if place == "moved to":
            pipeline.step(name="draft")(lambda doc: "draft")
        pipeline.gate("human_review", **late)
        return pipeline

    bench.pipeline = version()
    bench.submit("a")
    assert bench.drain().paused == 1
    clock.advance(DAY)
    bench.pipeline = version(within=3 * DAY, otherwise="reject")
    bench.drain()
    assert (bench.standing().state, bench.standing().due_at) == ("paused", clock() + 2 * DAY)
    clock.advance(2 * DAY)
    bench.drain()
    assert bench.standing().state == "dead"


def test_a_gate_without_a_time_waits_for_ever(pipeline: holdfast.Pipeline, bench: Bench, clock: ManualClock) -> None:
    pipeline.gate("human_review")
    bench.submit("a")
    bench.drain()
    assert bench.standing().due_at is None
    clock.advance(10_000 * DAY)
    bench.drain()
    assert bench.standing().state == "paused"


@pytest.mark.parametrize(
    ("late", "says"),
    [
        ({"within": DAY}, "goes with otherwise="),
        ({"otherwise": "reject"}, "goes with otherwise="),
        ({"within": timedelta(0), "otherwise": "reject"}, "longer than nothing"),
        ({"within": 3, "otherwise": "reject"}, "longer than nothing"),
        ({"within": DAY, "otherwise": "shrug"}, "not 'shrug'"),
    ],
)
def test_a_gate_whose_time_makes_no_sense_is_refused(
    pipeline: holdfast.Pipeline, late: dict[str, Any], says: str
) -> None:
    with pytest.raises(holdfast.DefinitionError, match=says):
        pipeline.gate("human_review", **late)


def test_a_step_has_no_time_to_be_decided(pipeline: holdfast.Pipeline) -> None:
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
def test_a_span_is_spoken_in_the_largest_unit_that_says_it(span: timedelta, says: str) -> None:
    assert spoken(span) == says


def test_a_document_that_waits_for_a_decision_holds_no_claim_and_no_memory(
    pipeline: holdfast.Pipeline, bench: Bench
) -> None:
    found: list[tuple[int, int]] = []

    @pipeline.step
    def draft(doc: holdfast.Document) -> str:
        if doc.key == "last":
            gc.collect()
            in_hand = [one for one in gc.get_objects() if isinstance(one, InHand) and one.pipeline is pipeline]
            plan = bench.store.declare(pipeline.shape())
            found.append((len(in_hand), bench.store.running(plan)))
        return "x" * 1000

    pipeline.gate("human_review")
    bench.submit(*map(str, range(100)))
    bench.submit("last")
    assert bench.drain(threads=1, concurrency=1).paused == 101
    assert found == [(1, 1)]


# Seen at the next item


def cancel(bench: Bench) -> None:
    bench.store.cancel([bench.standing().id], who="eve", reason="withdrawn")


def pause(bench: Bench) -> None:
    bench.store.pause([bench.standing().id], who="eve", reason="not now")


def rewind(bench: Bench) -> None:
    plan = bench.store.declare(bench.pipeline.shape())
    bench.store.rewind_to(plan, [bench.standing().id], to="pages", who="eve", reason="why", parked="looked at")


def change(bench: Bench) -> None:
    holdfast.submit(bench.pipeline, bench.store, batch="b", documents=[("a", {"name": "changed"})])
    pause(bench)


AT = 5
"""The item at which somebody decides."""


@pytest.mark.parametrize("decide", [cancel, pause, rewind, change])
@pytest.mark.parametrize("shape", ["thread", "async"])
def test_a_stream_ends_at_its_next_item_when_its_document_is_somebody_elses(
    pipeline: holdfast.Pipeline,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    decide: Callable[[Bench], None],
    shape: str,
) -> None:
    monkeypatch.setattr(rounds, "UPKEEP", 0.0)
    ended: list[str] = []
    closed = threading.Event()

    def items() -> Iterator[int]:
        until = monotonic() + LONG
        number = 0
        while monotonic() < until:
            yield number
            number += 1
            if number == AT:
                decide(bench)
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

    bench.submit("a")
    said: list[Event] = []
    bench.drain(listeners=[said.append])
    assert "at its end" not in ended
    assert [one.claim.key for one in said if isinstance(one, LostClaim)] == ["a"]
    assert bench.standing().state in ("cancelled", "paused")
    assert shape != "thread" or closed.wait(LONG), "its thread did not leave it at its next item"


def test_a_stream_in_a_process_is_ended_when_its_document_is_somebody_elses(
    pipeline: holdfast.Pipeline, bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(rounds, "UPKEEP", 0.0)
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
        until = monotonic() + LONG
        while not begun.exists() and monotonic() < until:
            threading.Event().wait(0.01)
        cancel(bench)

    bench.submit("a")
    decider = threading.Thread(target=decide)
    decider.start()
    bench.drain()
    decider.join()
    assert bench.standing().state == "cancelled"
    assert not (tmp_path / "at its end").exists()


def test_one_document_lost_does_not_stop_the_others(
    pipeline: holdfast.Pipeline, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "UPKEEP", 0.0)
    lost = threading.Event()
    ended: list[str] = []

    @pipeline.step(commit_every=10**9)
    def pages(doc: holdfast.Document, cursor: int = 0) -> Iterator[Any]:
        if doc.key == "a":
            cancel(bench)
            until = monotonic() + LONG
            while monotonic() < until:
                cursor += 1
                yield holdfast.At(cursor)
            ended.append(doc.key)
        else:
            for number in range(3):
                assert lost.wait(LONG)
                yield number

    bench.submit("a", "b")
    bench.drain(listeners=[lambda said: lost.set() if isinstance(said, LostClaim) else None])
    assert bench.standing("a").state == "cancelled"
    assert ended == []
    assert bench.kept("pages", "b") == [0, 1, 2]
