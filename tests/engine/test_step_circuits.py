"""Circuits of steps in the engine: when they open, which documents pay, and what happens to documents in the middle."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.core.circuit import CircuitStatus
from holdfast.core.model import Failure
from holdfast.engine import maintenance, scheduler
from holdfast.observe.events import CircuitClosed, CircuitOpened, Event
from holdfast.stores.sqlite.dialect import moment
from tests.support.pipeline_harness import SOON, PipelineHarness
from tests.support.polling import wait_for

HOUR = timedelta(hours=1)
NEVER = holdfast.Circuit(failures=2, probe=HOUR, ceiling=HOUR, patience=timedelta(0))
"""Opens after two failures. Nothing is tried after that, and drain does not wait."""
QUICK = holdfast.Circuit(probe=timedelta(milliseconds=5), ceiling=timedelta(milliseconds=20))


def away() -> ConnectionRefusedError:
    return ConnectionRefusedError("nobody is there")


def circuit_of(harness: PipelineHarness) -> CircuitStatus:
    (circuit,) = harness.store.circuits("p")
    return circuit


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers read circuits in each tick."""
    monkeypatch.setattr(scheduler, "MAINTENANCE_INTERVAL", 0.0)
    monkeypatch.setattr(maintenance, "MAINTENANCE_INTERVAL", 0.0)


# when it opens


def test_failures_with_successes_in_between_open_no_circuit(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    """One in ten fails. Quick bodies end so fast that one tick gets many results, with more than five failures."""
    calls: Counter[str] = Counter()

    @pipeline.step(retry=SOON)
    def call(doc: holdfast.Document) -> None:
        calls[doc.key] += 1
        if doc.key.endswith("0") and calls[doc.key] == 1:
            raise TimeoutError("no answer")

    harness.submit(*[f"d{number:04}" for number in range(2000)])
    assert harness.drain(threads=1).done == 2000
    assert harness.store.circuits("p") == []
    assert calls.total() == 2200


def test_errors_of_effects_and_of_verify_open_no_circuit(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    @pipeline.step(retry=SOON)
    def call(doc: holdfast.Document) -> None: ...

    @call.effect
    def write(tx: holdfast.Tx, doc: holdfast.Document, value: None) -> None:
        raise away()

    harness.submit(*"abcdefg")
    assert harness.drain().dead == 7
    assert harness.store.circuits("p") == []


def test_a_window_that_worked_counts_as_a_success(pipeline: holdfast.Pipeline, harness: PipelineHarness) -> None:
    calls: Counter[int] = Counter()

    @pipeline.step
    def parts(doc: holdfast.Document) -> list[int]:
        return [1, 2, 3, 4]

    @pipeline.step(over=parts, retry=SOON, circuit=holdfast.Circuit(failures=2))
    def call(doc: holdfast.Document, part: int) -> int:
        calls[part] += 1
        if calls[part] == 1:
            raise away()
        return part

    harness.submit("a")
    assert harness.drain().done == 1
    assert set(calls.values()) == {2}
    assert harness.store.circuits("p") == []


# what it costs


def test_a_document_gets_back_exactly_the_attempts_of_the_outage(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    """The first failure of a was its own: the step worked for b after it."""
    calls: list[str] = []

    @pipeline.step(retry=holdfast.Retry(attempts=9, base=timedelta(milliseconds=1)), circuit=NEVER)
    def call(doc: holdfast.Document) -> None:
        if doc.key == "b":
            wait_for(lambda: "fail" in harness.verbs("a"))
            return
        calls.append(doc.key)
        if len(calls) == 2:
            wait_for(lambda: harness.document("b").state == "done")
        raise away()

    harness.submit("a", "b")
    harness.drain()
    assert len(calls) == 3
    assert (circuit_of(harness).is_open, circuit_of(harness).failures) == (True, 2)
    assert harness.document("a").attempts == 1


def test_an_outage_does_not_take_the_last_attempt_of_a_document_that_failed_by_itself(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    """The step worked for others after its own failures. That says nothing about an outage that began later."""
    calls: list[str] = []

    @pipeline.step(retry=SOON, circuit=holdfast.Circuit(failures=100, patience=timedelta(0)))
    def call(doc: holdfast.Document) -> None:
        if doc.key != "a":
            wait_for(lambda: "fail" in harness.verbs("a"))
            return
        calls.append(doc.key)
        if len(calls) < 3:
            raise ValueError("not a page")
        wait_for(lambda: harness.document("c").state == "done")
        raise away()

    harness.submit("a", "b", "c")  # c begins after b has seen the failure of a
    report = harness.drain(threads=2)
    assert (len(calls), report.done, report.dead) == (3, 2, 0)
    assert harness.document("a").state == "waiting"


def test_a_body_that_began_before_the_outage_is_no_evidence(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    """The service answered slow before it went away. Its document passes after a has failed."""
    began, failed, calls = threading.Event(), threading.Event(), []

    @pipeline.step(retry=SOON, circuit=holdfast.Circuit(failures=100, patience=timedelta(0)))
    def call(doc: holdfast.Document) -> None:
        if doc.key == "slow":
            began.set()
            assert failed.wait(30)
            return
        assert began.wait(30)
        calls.append(doc.key)
        if len(calls) == 3:
            wait_for(lambda: harness.document("slow").state == "done")
        if len(calls) == 2:
            failed.set()
        raise away()

    harness.submit("slow", "a")
    report = harness.drain(threads=2)
    assert (len(calls), report.done, report.dead) == (3, 1, 0)
    assert harness.document("a").state == "waiting"
    assert circuit_of(harness).is_open


@pytest.mark.usefixtures("often")
def test_attempts_that_were_given_back_count_also_for_a_body_that_runs(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    """The last call of a began in the outage, and fails when the circuit was opened and closed again."""
    calls: Counter[str] = Counter()
    saw: list[str] = []
    quick = timedelta(milliseconds=1)

    @pipeline.step(
        retry=holdfast.Retry(attempts=3, base=quick, ceiling=quick),
        circuit=holdfast.Circuit(failures=3, probe=HOUR, ceiling=HOUR, patience=timedelta(0)),
    )
    def call(doc: holdfast.Document) -> None:
        calls[doc.key] += 1
        if doc.key == "b" and calls["b"] > 1:
            return
        if doc.key == "b":
            wait_for(lambda: calls["a"] == 3)
        if doc.key == "a" and calls["a"] == 3:
            wait_for(lambda: any(one.is_open for one in harness.store.circuits("p")))
            saw.append("opened")
            harness.store.close_circuit("p", "call", who="ann", reason="it works again")
            wait_for(lambda: harness.document("b").state == "done")
            saw.append("works for b")
        if doc.key == "b" or calls["a"] <= 3:
            raise away()

    harness.submit("a", "b")
    report = harness.drain()
    assert saw == ["opened", "works for b"]
    assert (report.done, report.dead) == (2, 0)


def test_it_counts_when_a_body_began_also_if_the_store_is_slow(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    """The store waits for a lock before it writes when bodies worked. That makes them no later."""
    pipeline.step(name="call")(lambda doc: None)
    harness.submit("a")
    store, before = harness.store, []
    add, real = store.add_step_times, store.now

    def slow(*args: Any, **more: Any) -> None:
        before.append(real())
        store._clock = lambda: before[0] + HOUR  # type: ignore[attr-defined]
        add(*args, **more)

    store.add_step_times = slow  # type: ignore[method-assign]
    harness.drain()
    with closing(sqlite3.connect(store.url.removeprefix("sqlite:///"))) as db:
        ((worked_at,),) = db.execute("select worked_at from hf_step_time").fetchall()
    assert moment(worked_at) <= before[0]


@pytest.mark.parametrize("runs_in", ["thread", "process"])
def test_an_error_that_is_an_outage_ends_no_document_even_if_the_step_works_for_others(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, runs_in: Any
) -> None:
    """Not every document calls the service. Those that do must not die while the others pass."""

    @pipeline.step(retry=SOON, runs_in=runs_in)
    def call(doc: holdfast.Document) -> None:
        if doc.key == "calls":
            error = away()
            error.is_outage = True  # type: ignore[attr-defined]
            raise error

    harness.submit("calls")
    budget = holdfast.Budget()
    worker = threading.Thread(target=lambda: harness.drain(threads=1, budget=budget))
    with holdfast.open(harness.store.url) as seen:  # workers with child processes close their connections
        other = PipelineHarness(seen, pipeline)
        worker.start()
        for number in range(1000):
            if other.document("calls").deferrals >= 2:
                break
            other.submit(f"n{number}")
            wait_for(lambda number=number: other.document(f"n{number}").state == "done")
        budget.stop("the test is over")
        worker.join()
        here = other.document("calls")
    assert (here.state, here.deferrals >= 2, here.attempts < 3) == ("waiting", True, True)


def test_an_error_that_is_an_outage_pauses_its_document_at_the_limit(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    class Away(Exception):
        is_outage = True

    limited = holdfast.Retry(attempts=1, deferrals=2, base=timedelta(milliseconds=1), ceiling=timedelta(milliseconds=1))

    @pipeline.step(retry=limited, circuit=holdfast.Circuit(failures=100, patience=timedelta(0)))
    def call(doc: holdfast.Document) -> None:
        raise Away("the cache has nothing")

    harness.submit("a")
    harness.drain()
    here = harness.document("a")
    assert (here.state, here.code) == ("paused", "deferred_too_long")


def test_without_a_circuit_an_error_that_is_an_outage_ends_its_document(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    class Away(Exception):
        is_outage = True

    @pipeline.step(retry=SOON, circuit=None)
    def call(doc: holdfast.Document) -> None:
        raise Away("gone")

    harness.submit("a")
    assert harness.drain().dead == 1


# documents in the middle


@pytest.mark.usefixtures("often")
def test_a_document_that_was_stopped_in_the_middle_goes_on_after_a_short_outage(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    """Its second window was taken back while the first one ran. Before that one ended, the step went on."""
    began, goes_on = threading.Event(), threading.Event()

    @pipeline.step
    def parts(doc: holdfast.Document) -> list[int]:
        return [1, 2, 3]

    @pipeline.step(over=parts, parallel=2)
    def call(doc: holdfast.Document, part: int) -> int:
        began.set()
        assert goes_on.wait(30)
        return part

    harness.submit("a")
    budget = holdfast.Budget()
    worker = threading.Thread(target=lambda: harness.drain(threads=1, budget=budget))
    worker.start()
    assert began.wait(30)
    plan = harness.store.plan("p")
    assert plan is not None
    ticks = Counter[str]()
    look = harness.store.circuits

    def counted(name: str) -> Any:
        ticks[name] += 1
        return look(name)

    harness.store.circuits = counted  # type: ignore[method-assign]
    assert harness.store.open_circuit(plan, "call", Failure("E", "away"), failures=1, wait=HOUR, who="ann")
    wait_for(lambda: ticks["p"] > 3)
    assert harness.store.close_circuit("p", "call", who="ann", reason="it is back")
    ticks.clear()
    wait_for(lambda: ticks["p"] > 3)
    goes_on.set()
    worker.join(20)
    budget.stop("the test is over")
    worker.join()
    assert harness.document("a").state == "done"


def test_documents_that_are_in_the_step_while_it_is_paused_end_as_usual(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    """Four are in the body. Two fail and open the circuit; then one works, and one fails too."""
    inside, opened = threading.Barrier(4), threading.Event()
    open_circuit = harness.store.open_circuit

    def told(*args: Any, **more: Any) -> bool:
        answer = open_circuit(*args, **more)
        opened.set()
        return answer

    harness.store.open_circuit = told  # type: ignore[method-assign]

    @pipeline.step(retry=holdfast.Retry(attempts=1), circuit=NEVER)
    def call(doc: holdfast.Document) -> str:
        inside.wait(30)
        if doc.key in "ab":
            raise away()
        assert opened.wait(30)
        if doc.key == "c":
            raise away()
        return "done"

    harness.submit(*"abcd")
    report = harness.drain(threads=4)
    assert (report.done, report.dead) == (1, 0)
    assert [harness.document(key).state for key in "abcd"] == ["waiting"] * 3 + ["done"]
    assert {harness.document(key).attempts for key in "abc"} == {0}


# what is tried


def test_a_document_that_always_fails_does_not_keep_the_step_paused(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    """The first two of the queue have servers of their own that are gone. The others work."""
    retry = holdfast.Retry(attempts=1, base=timedelta(milliseconds=1))

    @pipeline.step(retry=retry, circuit=QUICK)
    def call(doc: holdfast.Document) -> str:
        if doc.key in ("bad1", "bad2"):
            raise away()
        return "done"

    harness.submit("bad1", "bad2", "good1", "good2")
    bad = [harness.document(key).id for key in ("bad1", "bad2")]
    harness.store.prioritise(bad, priority=9, who="ann", reason="they are urgent")
    report = harness.drain(threads=1)
    assert (report.done, report.dead) == (2, 2)


def test_a_document_with_a_fault_of_its_own_is_tried_and_ends(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    is_away = [True]

    @pipeline.step(retry=holdfast.Retry(attempts=1, base=timedelta(milliseconds=1)), circuit=QUICK)
    def call(doc: holdfast.Document) -> str:
        if doc.key == "b":
            is_away[0] = False
            raise ValueError("not a page")
        if is_away[0]:
            raise away()
        return "done"

    harness.submit("a", "b", "c")
    events: list[Event] = []
    report = harness.drain(threads=1, listeners=[events.append])
    assert (report.done, report.dead) == (2, 1)
    assert harness.document("b").error == "ValueError"
    assert [type(one) for one in events if isinstance(one, (CircuitOpened, CircuitClosed))] == [
        CircuitOpened,
        CircuitClosed,
    ]


@pytest.mark.parametrize("decision", ["cancel", "pause", "rewind"])
def test_if_a_person_takes_the_document_that_is_tried_another_one_is_tried(
    pipeline: holdfast.Pipeline, harness: PipelineHarness, decision: str
) -> None:
    began, decided, is_away = threading.Event(), threading.Event(), [True]

    @pipeline.step(retry=holdfast.Retry(attempts=1, base=timedelta(milliseconds=1)), circuit=QUICK)
    def call(doc: holdfast.Document) -> str:
        if is_away[0]:
            is_away[0] = False
            raise away()
        if doc.key == "b":
            began.set()
            assert decided.wait(30)
        return "done"

    harness.submit("a", "b", "c")

    def decide() -> None:
        assert began.wait(30)
        ids, why, plan = [harness.document("b").id], {"who": "ann", "reason": "why"}, harness.store.plan("p")
        assert plan is not None
        if decision == "rewind":
            harness.store.rewind_to(plan, ids, to="call", **why)
        else:
            getattr(harness.store, decision)(ids, **why)
        decided.set()

    person = threading.Thread(target=decide)
    person.start()
    report = harness.drain(threads=1)
    person.join()
    assert report.done == (3 if decision == "rewind" else 2)
    assert harness.document("b").state == {"cancel": "cancelled", "pause": "paused", "rewind": "done"}[decision]
    assert not circuit_of(harness).is_open


def test_a_suspect_that_is_tried_is_alone_also_if_another_step_is_paused(
    pipeline: holdfast.Pipeline, harness: PipelineHarness
) -> None:
    beside: list[str] = []

    @pipeline.step
    def first(doc: holdfast.Document) -> None:
        if doc.key == "suspect":
            beside.append(harness.document("other").state)

    @pipeline.step
    def second(doc: holdfast.Document) -> None: ...

    harness.submit("suspect", "other")
    plan = harness.store.declare(pipeline.shape())
    place = {"suspect": ("first", 2), "other": ("second", 0)}
    with harness.store.transaction() as tx:
        for key, (step, crashes) in place.items():
            row = (plan.step_ids[step], crashes, key)
            tx.execute("update hf_document set step_id = ?, crashes = ? where key = ?", row)
    for step in ("first", "second"):
        more: dict[str, Any] = {"failures": 5, "wait": timedelta(0), "who": "ann"}
        harness.store.open_circuit(plan, step, Failure("E", "away", category="unreachable"), **more)
    assert harness.drain().done == 2
    assert beside == ["waiting"]


# pipelines that changed


def test_a_circuit_of_a_step_that_has_none_any_more_is_closed(harness: PipelineHarness) -> None:
    def pipeline(circuit: holdfast.Circuit | None) -> holdfast.Pipeline:
        made = holdfast.Pipeline("p")

        @made.step(retry=SOON, circuit=circuit)
        def call(doc: holdfast.Document) -> None:
            raise away()

        return made

    harness.pipeline = pipeline(NEVER)
    harness.submit(*"abc")
    harness.drain(threads=1)
    assert circuit_of(harness).is_open
    harness.pipeline = pipeline(None)
    assert harness.drain(threads=1).dead == 3
    assert not circuit_of(harness).is_open
    assert harness.store.gauges("p").paused_steps == ()


def test_a_circuit_of_a_step_that_was_removed_is_closed(harness: PipelineHarness) -> None:
    before = holdfast.Pipeline("p")

    @before.step
    def read(doc: holdfast.Document) -> None: ...

    @before.step(retry=SOON, circuit=NEVER)
    def call(doc: holdfast.Document) -> None:
        raise away()

    harness.pipeline = before
    harness.submit(*"abc")
    harness.drain(threads=1)
    assert harness.store.gauges("p").paused_steps == ("call",)
    harness.store.cancel([harness.document(key).id for key in "abc"], who="ann", reason="the step is removed")
    after = holdfast.Pipeline("p")
    after.step(name="read")(lambda doc: None)
    harness.pipeline = after
    harness.drain(threads=1)
    assert harness.store.gauges("p").paused_steps == ()
