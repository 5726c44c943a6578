"""The ETA uses the history of the pipeline, so it is known from the start."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

import pytest

import holdfast
from holdfast.cli.ui.eta import Eta
from holdfast.cli.ui.progress import format_progress, progress_as_json
from holdfast.cli.ui.progress_counts import ProgressCounts
from holdfast.core.moves import Release
from holdfast.stores.protocol import StepTimes, Store
from tests.cli.conftest import Run


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def papers(*names: str) -> holdfast.Pipeline:
    made = holdfast.Pipeline("papers")
    for name in names:
        if name == "gate":
            made.gate("gate")
        else:
            made.step(name=name)(lambda doc: None)
    return made


QUICK_THEN_SLOW: StepTimes = {"quick": (100, 100.0), "slow": (100, 900.0)}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def eta(clock: Clock) -> Eta:
    made = Eta(papers("quick", "slow"), threads=8, clock=clock)
    made.update(QUICK_THEN_SLOW, remaining=80)
    return made


def test_a_second_run_has_an_eta_before_anything_has_ended(eta: Eta) -> None:
    assert eta.seconds_left({"quick": 80, "slow": 0}, 80) == 80 * (1 + 9) / 8


def test_a_first_run_has_none(clock: Clock) -> None:
    eta = Eta(papers("quick", "slow"), threads=8, clock=clock)
    eta.update({}, remaining=80)
    assert eta.seconds_left({"quick": 80, "slow": 0}, 80) is None


def test_documents_before_the_slow_steps_are_shown_with_them(eta: Eta) -> None:
    """All 80 documents passed the quick step: no document is done, but a tenth of the work is."""
    assert eta.seconds_left({"quick": 0, "slow": 80}, 80) == 90.0
    assert eta.seconds_left({"quick": 40, "slow": 40}, 80) == (40 * 10 + 40 * 9) / 8


def test_what_this_run_achieves_takes_the_place_of_a_guess(eta: Eta, clock: Clock) -> None:
    clock.now = 10.0
    eta.update({"quick": (110, 110.0), "slow": (100, 910.0)}, remaining=80)
    assert eta.seconds_left({"slow": 80}, 80) == pytest.approx(80 * 9.1 / 2)


def test_bodies_that_are_still_running_do_not_slow_the_eta_down(eta: Eta, clock: Clock) -> None:
    """Eight bodies take a minute each. Nothing ends in between, and the speed stays the same."""
    clock.now = 60.0
    eta.update({"quick": (100, 100.0), "slow": (108, 1380.0)}, remaining=72)
    told = eta.seconds_left({"slow": 72}, 72)
    clock.now = 119.0
    eta.update({"quick": (100, 100.0), "slow": (108, 1380.0)}, remaining=72)
    assert eta.seconds_left({"slow": 72}, 72) == told


def test_a_step_that_became_faster_is_believed_after_a_while(eta: Eta, clock: Clock) -> None:
    clock.now = 100.0
    eta.update({"quick": (100, 100.0), "slow": (120, 920.0)}, remaining=10)
    assert eta.seconds_left({"slow": 10}, 10) == pytest.approx(10 * 1.0 / 0.2)


def test_what_waits_behind_a_gate_is_not_counted(clock: Clock) -> None:
    eta = Eta(papers("quick", "gate", "slow"), threads=1, clock=clock)
    eta.update(QUICK_THEN_SLOW, remaining=10)
    assert eta.seconds_left({"quick": 10, "gate": 500}, 10) == 10.0


def test_documents_that_are_paused_are_not_worked_on(eta: Eta) -> None:
    assert eta.seconds_left({"slow": 80}, 20) == 20 * 9 / 8


def test_one_document_is_processed_by_one_thread(eta: Eta) -> None:
    assert eta.seconds_left({"slow": 1}, 1) == 9.0


def test_nothing_left_needs_no_eta(eta: Eta) -> None:
    assert eta.seconds_left({"quick": 0, "slow": 0}, 0) is None


def test_a_rest_does_not_count_as_slowness(eta: Eta, clock: Clock) -> None:
    clock.now = 3600.0
    eta.update(QUICK_THEN_SLOW, remaining=0)
    eta.update(QUICK_THEN_SLOW, remaining=80)
    clock.now = 3610.0
    eta.update({"quick": (120, 180.0), "slow": (100, 900.0)}, remaining=80)
    assert eta.seconds_left({"slow": 80}, 80) == pytest.approx(80 * 9 / 8)


def test_a_step_without_a_history_makes_no_eta(clock: Clock) -> None:
    eta = Eta(papers("quick", "slow", "new"), threads=8, clock=clock)
    eta.update(QUICK_THEN_SLOW, remaining=10)
    assert eta.seconds_left({"quick": 10}, 10) is None


def test_without_a_history_documents_per_second_tell_as_before() -> None:
    with holdfast.open("memory://") as store:
        holdfast.submit(papers("quick"), store, batch="b", documents=[(str(n), None) for n in range(10)])
        counts = ProgressCounts(papers("quick"), store, batch=None, threads=8)
        counts.recount()
        assert counts.seconds_left(0.0) is None
        assert counts.seconds_left(2.0) == 5.0


def test_the_history_of_one_run_is_the_eta_of_the_next() -> None:
    pipeline = papers("quick", "slow")
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline, store, batch="b", documents=[(str(n), None) for n in range(5)])
        holdfast.drain(pipeline, store, budget=timedelta(seconds=30))
        holdfast.submit(pipeline, store, batch="b", documents=[(f"x{n}", None) for n in range(5)])
        counts = ProgressCounts(pipeline, store, batch=None, threads=8)
        counts.recount()
        left = counts.seconds_left(0.0)
        assert left is not None
        assert 0 < left < 5


def test_documents_that_are_due_later_are_not_promised() -> None:
    pipeline = papers("quick", "slow")
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline, store, batch="b", documents=[(str(n), None) for n in range(5)])
        holdfast.drain(pipeline, store, budget=timedelta(seconds=30))
        ids = put_off(pipeline, store, "later")
        counts = ProgressCounts(pipeline, store, batch=None, threads=8)
        counts.recount()
        assert (counts.due_later, counts.remaining) == (1, 1)
        assert counts.seconds_left(2.0) is None, "nothing can be worked on"
        assert "1 due later" in format_progress(counts)
        assert progress_as_json(counts)["due_later"] == 1
        holdfast.submit(pipeline, store, batch="b", documents=[("now", None)])
        counts.recount()
        alone = counts.seconds_left(0.0)
        store.cancel(ids, who="cat", reason="so that only the other is left")
        counts.recount()
        assert alone == counts.seconds_left(0.0)


def test_documents_that_are_paused_at_slow_steps_are_not_counted_with_those_at_quick_ones() -> None:
    pipeline = papers("quick", "slow")
    with holdfast.open("memory://") as store:
        plan = store.declare(pipeline.shape())
        holdfast.submit(pipeline, store, batch="b", documents=[("a", None), ("b", None)])
        store.add_step_times(plan, QUICK_THEN_SLOW)
        counts = ProgressCounts(pipeline, store, batch=None, threads=8)
        counts.recount()
        assert counts.seconds_left(0.0) == 2 * (1 + 9) / 2
        store.pause([store.document("papers", "b", "a").id], who="cat", reason="wait")
        counts.recount()
        assert counts.seconds_left(0.0) == 1 + 9


def test_an_estimate_that_has_proved_wrong_is_not_shown(clock: Clock) -> None:
    pipeline = papers("quick", "slow")
    with holdfast.open("memory://") as store:
        plan = store.declare(pipeline.shape())
        holdfast.submit(pipeline, store, batch="b", documents=[("large", None)])
        store.add_step_times(plan, QUICK_THEN_SLOW)
        counts = ProgressCounts(pipeline, store, batch=None, threads=8, clock=clock)
        counts.recount()
        assert counts.seconds_left(0.0) == 1 + 9
        clock.now = 11.0
        assert counts.seconds_left(0.0) is None
        assert "left" not in format_progress(counts)
        counts.at_step = {"quick": 0, "slow": 1}
        assert counts.seconds_left(0.0) == 9, "it has moved"


def test_the_rate_after_a_resume_counts_only_what_this_run_did(clock: Clock) -> None:
    pipeline = papers("quick", "slow")
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline, store, batch="b", documents=[(str(n), None) for n in range(50)])
        holdfast.drain(pipeline, store)
        holdfast.submit(pipeline, store, batch="b", documents=[(f"x{n}", None) for n in range(10)])
        counts = ProgressCounts(pipeline, store, batch=None, threads=8, clock=clock)
        counts.recount()
        assert counts.rates() == (0.0, 0.0)
        clock.now = 2.0
        holdfast.drain(pipeline, store, listeners=[counts])
        assert counts.rates()[0] == 10 / 2.0


class SlowlyCounted(ProgressCounts):
    """Counts whose total is looked at while they are read, as by a display in another thread."""

    seen: ClassVar[list[tuple[int, int]]] = []

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "total" and value:
            self.seen.append((self.total, self.done))


def test_a_display_never_sees_the_total_of_a_resumed_run_without_what_was_done_before() -> None:
    pipeline = papers("quick")
    with holdfast.open("memory://") as store:
        holdfast.submit(pipeline, store, batch="b", documents=[(str(n), None) for n in range(5)])
        holdfast.drain(pipeline, store)
        counts = SlowlyCounted(pipeline, store, batch=None, threads=8)
        counts.recount()
    assert counts.seen == [(5, 5)]


def put_off(pipeline: holdfast.Pipeline, store: Store, key: str) -> list[int]:
    """Submit a document that is tried again in an hour."""
    plan = store.declare(pipeline.shape())
    holdfast.submit(pipeline, store, batch="b", documents=[(key, None)])
    worker = store.register_worker(name="ann", host="h", pid=1, born="", lease=timedelta(minutes=1))
    (claim,) = store.claim(plan, worker, limit=1)
    store.release([Release(claim, "ann", "waiting", "defer", costs="nothing", delay=timedelta(hours=1))])
    return [claim.document_id]


def test_status_shows_how_long_steps_take(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    said = holdfast("status", "papers").stdout
    assert "average time per document: extract" in said
    assert "judge" in said.partition("time per document:")[2]
