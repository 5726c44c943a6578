from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.observe.events import BatchCleaned, BatchClosed
from holdfast.observe.logs import log_events
from holdfast.ops.cleanup import Retention, cleanup, survey
from holdfast.ops.close_batch import closing_document
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store
from holdfast.testing import ManualClock

DAY = timedelta(days=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Iterator[Store]:
    store = MemoryStore(clock=clock)
    yield store
    store.close()


@pytest.fixture
def papers() -> holdfast.Pipeline:
    papers = holdfast.Pipeline("papers", tolerates=0.5)

    @papers.step(retry=holdfast.Retry(attempts=1))
    def read(doc: holdfast.Document) -> str:
        if "bad" in doc.key:
            raise ValueError("not a page")
        return str(doc.key)

    return papers


def ready(papers: holdfast.Pipeline, store: Store, *keys: str, batch: str = "march") -> None:
    holdfast.submit(papers, store, batch=batch, documents=[(key, None) for key in keys])
    holdfast.drain(papers, store)
    store.seal(papers.name, batch, who="cat")


def test_closing_runs_the_closing_steps_with_the_summary_of_the_report(store: Store, papers: holdfast.Pipeline) -> None:
    told: list[Any] = []

    @papers.closing
    def notify(doc: holdfast.Document) -> None:
        told.append((doc.batch, doc.key, doc.payload["done"], doc.payload["dead"]))

    @papers.closing(version=2)
    def swap(doc: holdfast.Document) -> None:
        told.append(doc.step)

    ready(papers, store, "a", "b", "bad")
    report = holdfast.close(papers, store, batch="march", who="cat", reason="all in")
    assert told == [("march", "march", 2, 1), "swap"]
    assert (report.in_all.accepted, report.tolerance) == (1, 0.5)
    last = closing_document(store, "papers", "march")
    assert last is not None
    assert last.state == "done"


def test_closing_again_runs_nothing_again(store: Store, papers: holdfast.Pipeline) -> None:
    told: list[str] = []
    heard: list[Any] = []
    papers.closing(name="notify")(lambda doc: told.append(doc.key))
    ready(papers, store, "a")
    reports = [
        holdfast.close(papers, store, batch="march", who="cat", reason="", listeners=[heard.append]) for _ in range(3)
    ]
    assert told == ["march"]
    assert reports[0] == reports[1] == reports[2]
    assert [event for event in heard if isinstance(event, BatchClosed)] == [BatchClosed("papers", "march", reports[0])]


def test_without_closing_steps_batch_closed_is_emitted_once(store: Store, papers: holdfast.Pipeline) -> None:
    heard: list[Any] = []
    ready(papers, store, "a")
    for _ in range(2):
        report = holdfast.close(papers, store, batch="march", who="cat", listeners=[heard.append])
    assert heard == [BatchClosed("papers", "march", report)]


def test_a_closing_step_that_fails_is_tried_again_by_closing_again(store: Store, papers: holdfast.Pipeline) -> None:
    heard: list[Any] = []
    broken = [True]

    @papers.closing(retry=holdfast.Retry(attempts=1))
    def notify(doc: holdfast.Document) -> None:
        if broken[0]:
            raise OSError("no mail today")

    ready(papers, store, "a")
    report = holdfast.close(papers, store, batch="march", who="cat", listeners=[heard.append])
    last = closing_document(store, "papers", "march")
    assert last is not None
    assert (last.state, last.error) == ("dead", "OSError")
    assert not [event for event in heard if isinstance(event, BatchClosed)]
    broken[0] = False
    store.redrive([last.id], who="cat", reason="mail is back")
    assert holdfast.close(papers, store, batch="march", who="cat", listeners=[heard.append]) == report
    assert len([event for event in heard if isinstance(event, BatchClosed)]) == 1


def test_a_share_of_its_own_goes_before_the_pipelines(store: Store, papers: holdfast.Pipeline) -> None:
    ready(papers, store, "a", "b", "bad")
    with pytest.raises(holdfast.CloseRefused, match="1 dead letter not accepted: bad"):
        holdfast.close(papers, store, batch="march", who="cat", tolerate=0.0)
    assert holdfast.close(papers, store, batch="march", who="cat").state == "closed"


def test_a_refused_close_leaves_nothing_behind(store: Store, papers: holdfast.Pipeline) -> None:
    papers.closing(name="notify")(lambda doc: None)
    ready(papers, store, "a", "bad")
    with pytest.raises(holdfast.CloseRefused, match="1 dead letter not accepted: bad") as refused:
        holdfast.close(papers, store, batch="march", who="cat", tolerate=0.0)
    assert store.pipelines() == ["papers"]
    assert pickle.loads(pickle.dumps(refused.value)).refusal == refused.value.refusal
    holdfast.close(papers, store, batch="march", who="cat")
    assert store.pipelines() == ["papers", "papers.closing"]


def test_a_share_is_between_nothing_and_all() -> None:
    with pytest.raises(
        holdfast.DefinitionError, match=r"tolerates=5 must be between 0 and 1; 0\.05 is five in a hundred"
    ):
        holdfast.Pipeline("papers", tolerates=5)


def test_closing_steps_are_a_pipeline_of_their_own(papers: holdfast.Pipeline) -> None:
    @papers.closing
    def notify(doc: holdfast.Document) -> int:
        return 7

    assert papers.closing.name == "papers.closing"
    assert [step.name for step in papers.closing.steps] == ["notify"]
    assert [step.name for step in papers.steps] == ["read"]
    assert notify(None) == 7  # type: ignore[arg-type]


def test_the_end_of_a_batch_is_worded_for_the_log(
    store: Store, papers: holdfast.Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    ready(papers, store, "a", "bad")
    with caplog.at_level(logging.INFO, "holdfast"):
        holdfast.close(papers, store, batch="march", who="cat", listeners=[log_events])
    assert "batch march of papers is closed: 1 done, 1 dead, 0 cancelled of 2" in caplog.messages


def test_a_cleanup_deletes_what_the_dry_run_counted(
    store: Store, papers: holdfast.Pipeline, clock: ManualClock
) -> None:
    ready(papers, store, *(f"doc-{number}" for number in range(30)))
    holdfast.close(papers, store, batch="march", who="cat")
    holdfast.submit(papers, store, batch="april", documents=[("a", None), ("b", None)])
    holdfast.drain(papers, store)
    clock.advance(31 * DAY)
    said = survey(store)
    assert [(one.batch, one.why, one.documents) for one in said.batches] == [
        ("march", "closed", 30),
        ("april", "finished", 2),
    ]
    assert store.balance("papers", "march").done == 30
    pauses: list[float] = []
    done = cleanup(store, who="cat", pause=pauses.append)
    assert done.batches == said.batches
    assert (done.workers, len(pauses)) == (said.workers, done.slices)
    assert all(pause > 0 for pause in pauses)
    assert cleanup(store, who="cat", pause=bool).documents == 0
    assert store.balance("papers").balances


def test_a_close_may_clean_up_what_it_closed(store: Store, papers: holdfast.Pipeline) -> None:
    events: list[Any] = []
    for batch in ("march", "april"):
        ready(papers, store, "a", "b", batch=batch)
    holdfast.close(papers, store, batch="april", who="cat")
    for _ in range(2):
        report = holdfast.close(papers, store, batch="march", who="cat", cleanup=True, listeners=[events.append])
    assert events == [BatchClosed("papers", "march", report), BatchCleaned("papers", "march", 2, 2)]
    assert [(found.batch, found.gone, found.balances) for found in store.batch_counts("papers")] == [
        ("march", 2, True),
        ("april", 0, True),
    ]
    assert [line.verb for line in store.batch_journal("papers", "march")] == ["seal", "close", "cleanup"]


def test_a_close_cleans_up_nothing_while_closing_steps_are_left(store: Store, papers: holdfast.Pipeline) -> None:
    @papers.closing(retry=holdfast.Retry(attempts=1))
    def notify(doc: holdfast.Document) -> None:
        raise OSError("no mail today")

    ready(papers, store, "a")
    holdfast.close(papers, store, batch="march", who="cat", cleanup=True)
    assert store.batch_counts("papers")[0].gone == 0
    last = closing_document(store, "papers", "march")
    assert last is not None
    store.accept([last.id], who="cat", reason="nobody reads it")
    holdfast.close(papers, store, batch="march", who="cat", cleanup=True)
    assert store.batch_counts("papers")[0].gone == 1


def test_a_cleanup_keeps_to_the_pipeline_and_batch_it_is_asked_for(
    store: Store, papers: holdfast.Pipeline, clock: ManualClock
) -> None:
    for batch in ("march", "april"):
        ready(papers, store, "a", batch=batch)
        holdfast.close(papers, store, batch=batch, who="cat")
    assert survey(store, Retention(pipeline="letters")).documents == 0
    done = cleanup(store, Retention(pipeline="papers", batch="april"), who="cat", pause=bool)
    assert [(one.batch, one.documents) for one in done.batches] == [("april", 1)]


def test_batches_in_which_nothing_moves_are_listed_and_kept(
    store: Store, papers: holdfast.Pipeline, clock: ManualClock
) -> None:
    holdfast.submit(papers, store, batch="march", documents=[("a", None)])
    clock.advance(7 * DAY)
    assert survey(store).stale == ()
    clock.advance(timedelta(seconds=1))
    holdfast.submit(papers, store, batch="april", documents=[("a", None)])
    done = cleanup(store, who="cat", pause=bool)
    assert [found.batch for found in done.stale] == ["march"]
    assert store.balance("papers", "march").waiting == 1


def test_slices_become_smaller_when_they_take_long_and_larger_when_they_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.ops import cleanup as module

    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    pauses: list[float] = []
    slices = module.SliceRunner(pauses.append)
    asked: list[int] = []

    def slice_(limit: int, seconds: float) -> None:
        asked.append(limit)
        now[0] += seconds

    for seconds in (0.001, 0.001, 0.2, 0.2, 0.02):
        slices.run(lambda limit, seconds=seconds: slice_(limit, seconds))
    assert asked[0] < asked[1] < asked[2] > asked[3] > asked[4]
    assert pauses == pytest.approx([0.005, 0.005, 0.2, 0.2, 0.02])
    assert slices.longest == pytest.approx(0.2)
