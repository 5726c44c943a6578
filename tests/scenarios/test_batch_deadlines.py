"""The deadline of a batch: workers and `close` end what is still open, so that the batch can be closed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.core.reasons import BATCH_DEADLINE
from holdfast.engine import scheduler
from holdfast.observe.events import BatchExpired, Event, GaveBack
from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
from tests.support.polling import wait_for

HOUR = timedelta(hours=1)
SHORT = timedelta(seconds=0.05)
"""A lease: workers look for deadlines once in that time."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    store = SqliteStore(f"sqlite:///{tmp_path}/engine.db", clock=clock)
    yield store
    store.close()


@pytest.fixture
def papers() -> holdfast.Pipeline:
    papers = holdfast.Pipeline("papers")

    @papers.step
    def read(doc: holdfast.Document) -> str:
        if doc.key == "later":
            raise holdfast.RetryLater("not there yet", after=HOUR / 2)
        if doc.key == "asks":
            raise holdfast.Pause("which page?")
        return doc.key

    return papers


def states(store: Store) -> dict[str, tuple[str, str]]:
    return {document.key: (document.state, document.code) for document in store.documents("papers")}


def test_a_worker_ends_what_is_open_at_the_deadline(
    store: Store, papers: holdfast.Pipeline, clock: ManualClock
) -> None:
    expired: list[BatchExpired] = []

    def listen(event: Event) -> None:
        if isinstance(event, GaveBack) and {one.claim.key for one in event.releases} & {"later"}:
            clock.advance(HOUR)
        if isinstance(event, BatchExpired):
            expired.append(event)

    keys = ["a", "later", "asks"]
    holdfast.submit(papers, store, batch="march", documents=[(key, None) for key in keys], deadline=HOUR)
    report = holdfast.drain(papers, store, lease=SHORT, listeners=[listen])
    assert states(store) == {"a": ("done", ""), "later": ("dead", BATCH_DEADLINE), "asks": ("dead", BATCH_DEADLINE)}
    assert (report.done, report.dead, report.stopped_by) == (1, 2, "")
    assert {document.key for event in expired for document in event.expired.documents} == {"later", "asks"}
    assert expired[-1].expired.is_over


def test_a_worker_stops_a_stream_at_the_deadline(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MAINTENANCE_INTERVAL", 0.01)
    papers = holdfast.Pipeline("papers")
    yielded: list[int] = []

    @papers.step
    def read(doc: holdfast.Document, cursor: int = 0) -> Iterator[int]:
        for number in range(cursor, 10):
            yielded.append(number)
            yield number
            if number == 5:
                clock.advance(SHORT / 2)
                wait_for(lambda: store.document("papers", "march", "a").state != "running")

    at = clock() + SHORT / 2  # before others would take it for an orphan
    holdfast.submit(papers, store, batch="march", documents=[("a", None)], deadline=at, at_deadline="cancel")
    report = holdfast.drain(papers, store, lease=SHORT)
    assert states(store) == {"a": ("cancelled", BATCH_DEADLINE)}
    assert report.lost == 1
    assert yielded == [*range(7)]


def test_a_close_ends_what_is_open_at_the_deadline_if_no_worker_did(
    store: Store, papers: holdfast.Pipeline, clock: ManualClock
) -> None:
    documents = [("a", None), ("b", None)]
    holdfast.submit(papers, store, batch="march", documents=documents, deadline=HOUR, at_deadline="cancel")
    with pytest.raises(holdfast.CloseRefused):
        holdfast.close(papers, store, batch="march", who="cat")
    clock.advance(HOUR)
    report = holdfast.close(papers, store, batch="march", who="cat")
    assert (report.in_all.cancelled, report.cancelled) == (2, ("a", "b"))


def test_a_dead_letter_of_a_deadline_is_explained_and_can_be_redriven(
    store: Store, papers: holdfast.Pipeline, clock: ManualClock
) -> None:
    holdfast.submit(papers, store, batch="march", documents=[("a", None)], deadline=HOUR)
    told = str(holdfast.explain_batch(store, "papers", "march"))
    assert "Documents of batch march that are still open at" in told
    clock.advance(HOUR)
    holdfast.drain(papers, store)
    document = store.document("papers", "march", "a")
    assert "ended at the deadline of its batch" in str(holdfast.explain(store, document))
    assert "The deadline of batch march has passed" in str(holdfast.explain_batch(store, "papers", "march"))
    store.redrive([document.id], who="cat", reason="it is needed")
    holdfast.drain(papers, store)
    assert states(store) == {"a": ("done", "")}


def test_a_later_submit_moves_the_deadline(store: Store, papers: holdfast.Pipeline, clock: ManualClock) -> None:
    holdfast.submit(papers, store, batch="march", documents=[("a", None)], deadline=HOUR)
    clock.advance(HOUR / 2)
    holdfast.submit(papers, store, batch="march", documents=[("a", None)], deadline=HOUR)
    clock.advance(HOUR / 2)
    holdfast.drain(papers, store)
    assert states(store) == {"a": ("done", "")}


def test_a_deadline_needs_a_time_zone(store: Store, papers: holdfast.Pipeline) -> None:
    naive = datetime.now(UTC).replace(tzinfo=None)
    with pytest.raises(holdfast.HoldfastError, match="with a time zone"):
        holdfast.submit(papers, store, batch="march", documents=[("a", None)], deadline=naive)
    assert store.batches("papers") == []
