"""A scan finds what nobody takes care of. If it is asked to, it ends and cleans up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast import MaintenanceScan
from holdfast.core.reasons import BATCH_DEADLINE
from holdfast.engine.background_task import PeriodicTask
from holdfast.observe.events import BatchClosed, BatchExpired, Event, ScanFindings, Scanned, describe_findings
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
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
