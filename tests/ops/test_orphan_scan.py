"""How workers reclaim orphans, and how a scan finds and resolves them."""

from __future__ import annotations

from datetime import timedelta

import pytest

import holdfast
from holdfast.core.model import DocumentStatus, State
from holdfast.core.orphans import GRACE, Strategy
from holdfast.core.reasons import FOR_REVIEW, LOST_TOO_OFTEN, WORKER_CRASHED, WORKER_GONE, sentence
from holdfast.core.retry import Retry
from holdfast.core.worker_deaths import UNKNOWN_DEATH, WorkerDeath
from holdfast.engine import maintenance
from holdfast.engine.crash_evidence import DeathReports
from holdfast.engine.maintenance import CHILD_CRASH_FACTOR, MANY_WORKERS, WorkerMaintenance
from holdfast.ops import orphan_scan
from holdfast.ops.orphan_scan import find_orphans, resolve_orphans
from holdfast.process_identity import born, this_host
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import SEGFAULT, StoreHarness


def a_pipeline(strategy: Strategy) -> holdfast.Pipeline:
    papers = holdfast.Pipeline("papers", orphans=strategy)

    @papers.step
    def extract(doc):
        return 1

    return papers


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def harness(clock: ManualClock) -> StoreHarness:
    return StoreHarness(MemoryStore(clock=clock), clock, a_pipeline("requeue").shape())


@pytest.mark.parametrize(
    ("strategy", "state"), [("requeue", "waiting"), ("fail", "dead"), ("review", "paused")], ids=str
)
def test_workers_do_with_the_first_orphaning_what_the_pipeline_says(
    harness: StoreHarness, strategy: Strategy, state: State
):
    harness.submit("a")
    harness.claim(worker=harness.register_worker("bob"))
    harness.clock.advance(timedelta(minutes=1))
    me = harness.register_worker("cat")
    worker = WorkerMaintenance(a_pipeline(strategy), harness.store, harness.plan, emit=lambda _: None)
    (reclaimed,) = worker.run(me, [])
    assert (reclaimed.state, reclaimed.losses) == (state, 1)
    assert worker.run(me, []) == []


def crash_or_lose(
    harness: StoreHarness, pipeline: holdfast.Pipeline, death: WorkerDeath, monkeypatch: pytest.MonkeyPatch
) -> list[DocumentStatus]:
    """Lose workers that run the document, until it is a dead letter. Return it as it was after each loss."""
    reports = {}
    monkeypatch.setattr(maintenance, "find_deaths", lambda *_, **__: DeathReports(reports))
    worker = WorkerMaintenance(pipeline, harness.store, harness.plan, emit=lambda _: None)
    seen: list[DocumentStatus] = []
    while not seen or seen[-1].state == "waiting":
        victim = harness.register_worker(f"w{len(seen)}")
        reports[victim.id] = death
        harness.clock.advance(timedelta(minutes=6))
        assert harness.claim(worker=victim) or harness.store.claim(harness.plan, victim, limit=1, which="suspect")
        harness.clock.advance(timedelta(minutes=1))
        seen += worker.run(harness.register_worker("cat"), [])
    return seen


def test_a_document_that_crashes_its_workers_is_a_dead_letter(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch):
    harness.submit("a")
    seen = crash_or_lose(harness, a_pipeline("requeue"), SEGFAULT, monkeypatch)
    assert [here.crashes for here in seen] == [1, 2, 3]
    assert (seen[-1].state, seen[-1].code, seen[-1].losses) == ("dead", WORKER_CRASHED, 0)


def test_a_document_whose_workers_are_lost_is_a_dead_letter_only_after_many(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
):
    harness.submit("a")
    seen = crash_or_lose(harness, a_pipeline("requeue"), UNKNOWN_DEATH, monkeypatch)
    assert [here.losses for here in seen] == [*range(1, 26)]
    assert (seen[-1].state, seen[-1].code, seen[-1].crashes) == ("dead", LOST_TOO_OFTEN, 0)
    assert "25 times" in seen[-1].reason
    assert "with w0, w1" in seen[-1].reason


@pytest.mark.wording
def test_the_reason_of_a_dead_letter_says_how_often_its_worker_was_lost(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
):
    harness.submit("a")
    seen = crash_or_lose(harness, a_pipeline("requeue"), UNKNOWN_DEATH, monkeypatch)
    assert "its worker was lost 25 times at extract" in seen[-1].reason


def test_how_many_losses_are_too_many_can_be_set(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch):
    pipeline = holdfast.Pipeline("p")
    pipeline.step(name="extract", retry=Retry(losses=7))(lambda doc: None)
    harness.submit("a")
    assert len(crash_or_lose(harness, pipeline, UNKNOWN_DEATH, monkeypatch)) == 7


def test_a_document_whose_body_runs_in_a_child_is_hardly_ever_convicted_for_crashed_workers(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
):
    pipeline = holdfast.Pipeline("p")
    pipeline.step(name="extract", runs_in="process")(lambda doc: None)
    harness.submit("a")
    assert len(crash_or_lose(harness, pipeline, SEGFAULT, monkeypatch)) == 3 * CHILD_CRASH_FACTOR


def test_a_document_that_is_hit_by_every_kill_lets_others_go_first_and_longer_each_time(harness: StoreHarness):
    pipeline = holdfast.Pipeline("p")
    pipeline.step(name="extract", runs_in="process", retry=Retry(jitter=0))(lambda doc: None)
    harness.submit("a")
    worker = WorkerMaintenance(pipeline, harness.store, harness.plan, emit=lambda _: None)
    waits = []
    for number in range(5):
        victim = harness.register_worker(f"w{number}")
        assert harness.claim(worker=victim) or harness.store.claim(harness.plan, victim, limit=1, which="suspect")
        harness.clock.advance(timedelta(minutes=1))
        (reclaimed,) = worker.run(harness.register_worker("cat"), [])
        assert reclaimed.due_at is not None
        wait = max(reclaimed.due_at - harness.clock(), timedelta(0))
        waits.append(wait.total_seconds())
        harness.clock.advance(wait)
    assert waits == [0, 1, 2, 4, 8]


def test_a_report_counts_orphans_that_were_kept_for_a_person(harness: StoreHarness):
    harness.submit("a")
    harness.claim(worker=harness.register_worker("bob"))
    harness.clock.advance(timedelta(minutes=1))
    report = holdfast.drain(a_pipeline("review"), harness.store)
    assert (report.reclaimed, report.paused, report.done) == (1, 1, 0)
    assert harness.document().reason == sentence(FOR_REVIEW, why=sentence(WORKER_GONE, worker="bob"))


def test_a_strategy_that_is_none_is_refused_when_written():
    with pytest.raises(holdfast.DefinitionError, match="orphans= must be one of requeue, fail, review, not 'retry'"):
        holdfast.Pipeline("papers", orphans="retry")  # type: ignore[arg-type]


def test_changing_the_strategy_changes_no_plan():
    assert a_pipeline("fail").shape().digest() == a_pipeline("review").shape().digest()


def test_many_orphans_are_resolved_in_slices(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(orphan_scan, "MAX_PER_TRANSACTION", 2)
    slices = []
    real = harness.store.resolve_orphans

    def watched(some, **more):
        slices.append([orphan.document.key for orphan in some])
        return real(some, **more)

    monkeypatch.setattr(harness.store, "resolve_orphans", watched)
    harness.submit(*"abcde")
    harness.claim()
    harness.clock.advance(GRACE * 2)
    taken = resolve_orphans(
        harness.store, find_orphans(harness.store, "papers"), strategy="fail", who="cat", reason="why"
    )
    assert [here.key for here in taken] == [*"abcde"]
    assert slices == [["a", "b"], ["c", "d"], ["e"]]


def test_a_scan_that_was_killed_goes_on_with_the_rest(harness: StoreHarness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(orphan_scan, "MAX_PER_TRANSACTION", 2)
    harness.submit(*"abcde")
    harness.claim()
    harness.clock.advance(GRACE * 2)
    found = find_orphans(harness.store, "papers")
    harness.store.resolve_orphans(found[:2], strategy="fail", who="cat", reason="why")  # the process is killed here
    again = find_orphans(harness.store, "papers")
    assert [orphan.document.key for orphan in again] == [*"cde"]
    assert len(resolve_orphans(harness.store, found, strategy="fail", who="cat", reason="why")) == 3
    assert [len(harness.store.journal(orphan.document.id)) for orphan in found] == [1] * 5


def test_a_process_of_this_machine_that_is_gone_is_not_waited_for(harness: StoreHarness):
    gone = harness.store.register_worker(name="gone", host=this_host(), pid=1, born="never", lease=timedelta(days=1))
    harness.submit("a")
    harness.claim(worker=gone)
    harness.clock.advance(timedelta(seconds=2))
    second = timedelta(seconds=1)
    assert born(1)
    assert [orphan.sign for orphan in harness.store.orphans("papers", grace=second)] == ["stuck"]
    assert [orphan.sign for orphan in find_orphans(harness.store, "papers", grace=second)] == ["silent"]


def test_what_a_fleet_spends_on_looking_does_not_grow_with_the_square_of_its_size(harness: StoreHarness):
    me = harness.register_worker("me")
    worker = WorkerMaintenance(a_pipeline("requeue"), harness.store, harness.plan, emit=lambda _: None)
    worker.run(me, [])
    assert worker.wait_factor == 1.0
    for number in range(10 * MANY_WORKERS - 1):  # one worker is registered already
        harness.register_worker(f"w{number}")
    worker.run(me, [])
    assert (worker.is_due(0.0), worker.wait_factor) == (False, 10.0)


def test_workers_that_are_silent_make_no_crowd(harness: StoreHarness):
    for number in range(4 * MANY_WORKERS):
        harness.register_worker(f"silent-{number}")
    harness.clock.advance(timedelta(days=1))
    last = harness.register_worker("the last")
    worker = WorkerMaintenance(a_pipeline("requeue"), harness.store, harness.plan, emit=lambda _: None)
    worker.run(last, [])
    assert worker.wait_factor == 1
