"""A scan finds what nobody takes care of. If it is asked to, it ends and cleans up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast import MaintenanceScan
from holdfast.core.model import DocumentStatus, State
from holdfast.core.orphans import GRACE, Strategy
from holdfast.core.reasons import BATCH_DEADLINE, FOR_REVIEW, LOST_TOO_OFTEN, WORKER_CRASHED, WORKER_GONE, sentence
from holdfast.core.retry import Retry
from holdfast.core.worker_deaths import UNKNOWN_DEATH, WorkerDeath
from holdfast.engine import maintenance
from holdfast.engine.background_task import PeriodicTask
from holdfast.engine.crash_evidence import DeathReports
from holdfast.engine.maintenance import CHILD_CRASH_FACTOR, MANY_WORKERS, WorkerMaintenance
from holdfast.observe.events import BatchClosed, BatchExpired, Event, ScanFindings, Scanned, describe_findings
from holdfast.ops import maintenance_scan
from holdfast.ops.maintenance_scan import find_orphans, resolve_orphans
from holdfast.process_identity import born, this_host
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import SEGFAULT, StoreHarness
from tests.support.polling import wait_for

DAY = timedelta(days=1)
SHORT = timedelta(milliseconds=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path}/scan.db?synchronous=normal"
    store = MemoryStore(clock=clock) if request.param == "memory" else SqliteStore(url, clock=clock)
    yield store
    store.close()


@pytest.fixture
def papers() -> holdfast.Pipeline:
    papers = holdfast.Pipeline("papers")

    @papers.step(retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> str:
        if "bad" in doc.key:
            raise ValueError("not a page")
        if "asks" in doc.key:
            raise holdfast.Pause("which page?")
        return doc.key

    return papers


class Once:
    """A worker that only scans."""

    worker = "ann"

    def __init__(self, papers: holdfast.Pipeline, store: Store) -> None:
        self.pipeline = papers
        self.store = store
        self.plan = store.declare(papers.shape())
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def pause(self, seconds: float) -> None:
        """Do not wait."""


def scan(papers: holdfast.Pipeline, store: Store, task: PeriodicTask) -> ScanFindings | None:
    """Scan once. Return the findings; None if another worker has scanned a short time ago."""
    context = Once(papers, store)
    task.run(context)
    found = [event.findings for event in context.events if isinstance(event, Scanned)]
    return found[0] if found else None


def submit(papers: holdfast.Pipeline, store: Store, *keys: str, batch: str = "march") -> None:
    holdfast.submit(papers, store, batch=batch, documents=[(key, None) for key in keys])
    holdfast.drain(papers, store)


def test_a_scan_finds_what_nobody_takes_care_of(store: Store, papers: holdfast.Pipeline, clock: ManualClock) -> None:
    submit(papers, store, "a", "bad", "asks")
    submit(papers, store, "fine", batch="april")
    plan = store.declare(papers.shape())
    holdfast.submit(papers, store, batch="june", documents=[("stuck", None)])
    dead = store.register_worker(name="bob", host="elsewhere", pid=1, born="", lease=timedelta(seconds=1))
    assert store.claim(plan, dead, limit=1)
    clock.advance(7 * DAY + SHORT)
    submit(papers, store, "new", batch="may")
    store.seal("papers", "april", who="cat")
    holdfast.close(papers, store, batch="april", who="cat")
    findings = scan(papers, store, MaintenanceScan())
    assert findings is not None
    assert [found.batch for found in findings.stale] == ["march"]
    assert findings.dead_letters == {"march": 1}
    assert (findings.ended, findings.closed, findings.cleaned) == ((), (), 0)
    told = "nothing moves in march; 1 dead letter without a decision in march"
    assert describe_findings(findings).startswith(told)
    assert store.balance("papers", "march").paused == 1


def test_a_running_document_without_a_sign_of_life_is_found(
    store: Store, papers: holdfast.Pipeline, clock: ManualClock
) -> None:
    holdfast.submit(papers, store, batch="march", documents=[("a", None)])
    plan = store.declare(papers.shape())
    bob = store.register_worker(name="bob", host="elsewhere", pid=1, born="", lease=timedelta(seconds=1))
    store.claim(plan, bob, limit=1)
    clock.advance(timedelta(hours=2, seconds=2))
    findings = scan(papers, store, MaintenanceScan())
    assert findings is not None
    assert [(orphan.document.key, orphan.sign) for orphan in findings.orphans] == [("a", "silent")]


def test_one_worker_scans_in_each_interval(store: Store, papers: holdfast.Pipeline, clock: ManualClock) -> None:
    task = MaintenanceScan(every=timedelta(hours=1))
    findings = scan(papers, store, task)
    assert findings is not None
    assert findings.is_empty
    assert describe_findings(findings) == "nothing was found"
    assert scan(papers, store, task) is None
    clock.advance(timedelta(hours=1))
    assert scan(papers, store, task) is not None


def test_a_scan_cleans_up_if_it_is_asked_to(store: Store, papers: holdfast.Pipeline, clock: ManualClock) -> None:
    submit(papers, store, "a", "b")
    store.seal("papers", "march", who="cat")
    holdfast.close(papers, store, batch="march", who="cat")
    submit(papers, store, "asks", batch="april")
    clock.advance(31 * DAY)
    findings = scan(papers, store, MaintenanceScan(then="cleanup"))
    assert findings is not None
    assert findings.cleaned == 2
    assert store.batch_counts("papers", "march")[0].gone == 2
    assert store.balance("papers", "april").paused == 1


def test_a_scan_ends_stale_batches_if_it_is_asked_to(
    store: Store, papers: holdfast.Pipeline, clock: ManualClock
) -> None:
    submit(papers, store, "a", "asks", batch="march")
    submit(papers, store, "a", "asks", "bad", batch="april")
    submit(papers, store, "a", batch="may")
    clock.advance(8 * DAY)
    submit(papers, store, "asks", batch="june")
    context = Once(papers, store)
    MaintenanceScan(then="end").run(context)
    (scanned,) = [event.findings for event in context.events if isinstance(event, Scanned)]
    assert scanned.ended == ("march", "april", "may")
    assert scanned.closed == ("march", "may")
    assert scanned.cleaned == 3
    states = {found.batch: (found.state, found.open, found.balances) for found in store.batch_counts("papers")}
    assert states == {
        "march": ("closed", 0, True),
        "april": ("sealed", 0, True),
        "may": ("closed", 0, True),
        "june": ("open", 1, True),
    }
    document = store.document("papers", "april", "asks")
    assert (document.state, document.code) == ("cancelled", BATCH_DEADLINE)
    line = store.batch_journal("papers", "april")[0]
    assert (line.who, line.detail["reason"]) == ("holdfast", "nothing has moved in this batch for 7 days")
    assert {type(event) for event in context.events} == {BatchExpired, BatchClosed, Scanned}


def test_a_stale_batch_with_closing_steps_is_left_to_a_person(
    store: Store, papers: holdfast.Pipeline, clock: ManualClock
) -> None:
    papers.closing(name="notify")(lambda doc: None)
    submit(papers, store, "a")
    clock.advance(8 * DAY)
    findings = scan(papers, store, MaintenanceScan(then="end"))
    assert findings is not None
    assert (findings.ended, findings.closed) == (("march",), ())
    assert store.batch_counts("papers")[0].state == "sealed"


def test_a_worker_scans_in_the_background(store: Store, papers: holdfast.Pipeline, clock: ManualClock) -> None:
    submit(papers, store, "asks")
    clock.advance(8 * DAY)
    scanned: list[Scanned] = []

    def listen(event: Event) -> None:
        if isinstance(event, Scanned):
            scanned.append(event)

    @papers.step
    def wait(doc: holdfast.Document) -> None:
        wait_for(lambda: scanned)

    holdfast.submit(papers, store, batch="april", documents=[("a", None)])
    holdfast.drain(papers, store, maintenance=MaintenanceScan(), listeners=[listen], name="ann")
    assert [found.batch for found in scanned[0].findings.stale] == ["march"]
    assert (scanned[0].pipeline, scanned[0].worker) == ("papers", "ann")


def a_pipeline(strategy: Strategy) -> holdfast.Pipeline:
    papers = holdfast.Pipeline("papers", orphans=strategy)

    @papers.step
    def extract(doc):
        return 1

    return papers


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
    monkeypatch.setattr(maintenance_scan, "MAX_PER_TRANSACTION", 2)
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
    monkeypatch.setattr(maintenance_scan, "MAX_PER_TRANSACTION", 2)
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
