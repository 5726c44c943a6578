"""A clock that was a day ahead and is set back: people are told, and a real worker on SQLite puts it right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.core.future_times import FutureTimes
from holdfast.core.reasons import CLOCK_SET_BACK
from holdfast.observe.events import ClockSetBack, Event, GaveBack
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock

DAY = timedelta(days=1)
ENOUGH = timedelta(seconds=60)
"""A budget: without it, a mistake would make a worker wait until tomorrow."""
SHORT = timedelta(seconds=0.05)
"""A lease: workers look for times in the future once in that time."""


def a_day_ahead() -> datetime:
    return datetime.now(UTC) + DAY


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/engine.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """The store with the right clock, that of this machine."""
    with holdfast.open(url) as store:
        yield store


@pytest.fixture
def ahead(url: str) -> Iterator[Store]:
    """The same database, with a clock that is a day ahead."""
    store = SqliteStore(url, clock=a_day_ahead)
    yield store
    store.close()


@pytest.fixture
def papers() -> holdfast.Pipeline:
    papers, began = holdfast.Pipeline("papers"), Counter[str]()

    @papers.step(retry=holdfast.Retry(base=timedelta(seconds=0.01), jitter=0))
    def read(doc: holdfast.Document) -> str:
        began[doc.key] += 1
        if doc.key == "failing" and began[doc.key] == 1:
            raise ConnectionError("nobody answers")
        if doc.key == "month" and began[doc.key] == 1:
            raise holdfast.RetryLater("not there yet", after=30 * DAY)
        return doc.key

    return papers


def submit(papers: holdfast.Pipeline, store: Store, *keys: str) -> None:
    holdfast.submit(papers, store, batch="march", documents=[(key, None) for key in keys])


def drain(papers: holdfast.Pipeline, store: Store, **options: object) -> list[ClockSetBack]:
    """Let a worker process everything. Return what it told about the clock."""
    told: list[ClockSetBack] = []

    def listen(event: Event) -> None:
        if isinstance(event, ClockSetBack):
            told.append(event)

    holdfast.drain(papers, store, **{"budget": ENOUGH, "listeners": [listen], **options})  # type: ignore[arg-type]
    return told


def about(found: FutureTimes) -> tuple[int, int, int]:
    return found.waiting, found.running, found.workers


def test_documents_that_were_submitted_tomorrow_are_processed_today(
    papers: holdfast.Pipeline, ahead: Store, store: Store
) -> None:
    submit(papers, ahead, *(f"doc-{number}" for number in range(5)))
    assert holdfast.explain(store, store.document("papers", "march", "doc-0")).facts["cause"] == "clock"
    (told,) = drain(papers, store)
    assert about(told.reset) == (5, 0, 0)
    assert timedelta(hours=23) < told.reset.ahead < DAY
    assert store.balance("papers").done == 5
    lines = [store.journal(one.id) for one in store.documents("papers")]
    assert [[(line.verb, line.code) for line in journal] for journal in lines] == [
        [("restart_wait", CLOCK_SET_BACK)]
    ] * 5


def test_a_store_whose_clock_was_never_wrong_is_left_alone(papers: holdfast.Pipeline, store: Store) -> None:
    submit(papers, store, "a", "failing")
    assert drain(papers, store) == []
    assert store.balance("papers").done == 2


def test_a_wait_of_thirty_days_stays_one(papers: holdfast.Pipeline, ahead: Store, store: Store) -> None:
    submit(papers, store, "month")
    holdfast.drain(papers, store, budget=timedelta(seconds=1))
    before = store.document("papers", "march", "month").due_at
    submit(papers, ahead, "late")
    holdfast.drain(papers, store, budget=timedelta(seconds=2))
    assert store.document("papers", "march", "late").state == "done"
    assert store.document("papers", "march", "month").due_at == before


def test_a_worker_notices_it_while_it_runs(papers: holdfast.Pipeline, url: str) -> None:
    clock = ManualClock()
    told: list[FutureTimes] = []

    def listen(event: Event) -> None:
        if isinstance(event, GaveBack):
            clock.advance(-DAY)
        if isinstance(event, ClockSetBack):
            told.append(event.reset)
            clock.advance(timedelta(seconds=1))  # what waits 10 ms is due

    with closing(SqliteStore(url, clock=clock)) as store:
        submit(papers, store, "failing", "other")
        holdfast.drain(papers, store, budget=ENOUGH, lease=SHORT, listeners=[listen])
        assert store.balance("papers").done == 2
        assert [found.waiting for found in told] == [1]
        verbs = [line.verb for line in store.journal(store.document("papers", "march", "failing").id)]
        assert verbs == ["fail", "restart_wait"]


def test_a_worker_of_another_machine_that_died_tomorrow_loses_its_documents_today(
    papers: holdfast.Pipeline, ahead: Store, store: Store
) -> None:
    submit(papers, ahead, "a")
    plan = ahead.plan("papers")
    assert plan is not None
    victim = ahead.register_worker(name="victim", host="elsewhere", pid=1, born="then", lease=SHORT)
    assert len(ahead.claim(plan, victim, limit=1)) == 1
    told = str(holdfast.explain(store, store.document("papers", "march", "a")))
    assert "That heartbeat is in the future, because the clock was set back by at least 2" in told
    (event,) = drain(papers, store, lease=SHORT)
    assert about(event.reset) == (0, 1, 1)
    here = store.document("papers", "march", "a")
    assert (here.state, here.losses) == ("done", 0)
    assert [line.verb for line in store.journal(here.id)] == ["reclaim"]


def test_two_workers_tell_it_once(papers: holdfast.Pipeline, ahead: Store, store: Store) -> None:
    submit(papers, ahead, *(f"doc-{number}" for number in range(5)))
    assert len(drain(papers, store) + drain(papers, store)) == 1
