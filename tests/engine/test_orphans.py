"""What a fleet does with orphans by itself, as their pipeline says; and a scan, slice by slice."""

from __future__ import annotations

from datetime import timedelta

import pytest

import holdfast
from holdfast.core.model import State
from holdfast.core.orphans import GRACE, Strategy
from holdfast.core.retry import Retry
from holdfast.engine import orphans
from holdfast.engine.caretaker import CROWD, INNOCENT, Caretaker
from holdfast.engine.hosts import born, this_host
from holdfast.engine.orphans import find_orphans, resolve_orphans
from holdfast.stores.memory import MemoryStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import Desk


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
def desk(clock: ManualClock) -> Desk:
    return Desk(MemoryStore(clock=clock), clock, a_pipeline("requeue").shape())


@pytest.mark.parametrize(
    ("strategy", "state"), [("requeue", "waiting"), ("fail", "dead"), ("review", "paused")], ids=str
)
def test_workers_do_with_the_first_orphaning_what_the_pipeline_says(desk: Desk, strategy: Strategy, state: State):
    desk.submit("a")
    desk.claim(worker=desk.enlist("bob"))
    desk.clock.advance(timedelta(minutes=1))
    me = desk.enlist("cat")
    caretaker = Caretaker(a_pipeline(strategy), desk.store, desk.plan, say=lambda _: None)
    (reclaimed,) = caretaker.look_after(me, [])
    assert (reclaimed.state, reclaimed.crashes) == (state, 1)
    assert caretaker.look_after(me, []) == []


def test_an_orphan_that_is_requeued_too_often_is_a_dead_letter(desk: Desk):
    desk.submit("a")
    caretaker = Caretaker(a_pipeline("requeue"), desk.store, desk.plan, say=lambda _: None)
    states = []
    for number in range(3):
        victim = desk.enlist(f"w{number}")
        assert desk.claim(worker=victim) or desk.store.claim_suspect(desk.plan, victim)
        desk.clock.advance(timedelta(minutes=1))
        states += [here.state for here in caretaker.look_after(desk.enlist("cat"), [])]
        desk.clock.advance(timedelta(minutes=10))
    assert states == ["waiting", "waiting", "dead"]


def test_a_document_whose_body_runs_in_a_child_is_hardly_ever_convicted_for_dead_workers(desk: Desk):
    pipeline = holdfast.Pipeline("p")
    pipeline.step(name="extract", runs_in="process")(lambda doc: None)
    desk.submit("a")
    caretaker = Caretaker(pipeline, desk.store, desk.plan, say=lambda _: None)
    states = []
    for number in range(3 * INNOCENT):
        victim = desk.enlist(f"w{number}")
        desk.clock.advance(timedelta(minutes=5))
        assert desk.claim(worker=victim) or desk.store.claim_suspect(desk.plan, victim)
        desk.clock.advance(timedelta(minutes=1))
        states += [here.state for here in caretaker.look_after(desk.enlist("cat"), [])]
    assert states == ["waiting"] * (3 * INNOCENT - 1) + ["dead"]


def test_a_document_that_is_hit_by_every_kill_lets_others_go_first_and_longer_each_time(desk: Desk):
    pipeline = holdfast.Pipeline("p")
    pipeline.step(name="extract", runs_in="process", retry=Retry(jitter=0))(lambda doc: None)
    desk.submit("a")
    caretaker = Caretaker(pipeline, desk.store, desk.plan, say=lambda _: None)
    waits = []
    for number in range(5):
        victim = desk.enlist(f"w{number}")
        assert desk.claim(worker=victim) or desk.store.claim_suspect(desk.plan, victim)
        desk.clock.advance(timedelta(minutes=1))
        (reclaimed,) = caretaker.look_after(desk.enlist("cat"), [])
        assert reclaimed.due_at is not None
        wait = max(reclaimed.due_at - desk.clock(), timedelta(0))
        waits.append(wait.total_seconds())
        desk.clock.advance(wait)
    assert waits == [0, 1, 2, 4, 8]


def test_a_report_counts_orphans_that_were_kept_for_a_person(desk: Desk):
    desk.submit("a")
    desk.claim(worker=desk.enlist("bob"))
    desk.clock.advance(timedelta(minutes=1))
    report = holdfast.drain(a_pipeline("review"), desk.store)
    assert (report.reclaimed, report.paused, report.done) == (1, 1, 0)
    assert desk.standing().reason == "kept for review: worker bob is gone"


def test_a_strategy_that_is_none_is_refused_when_written():
    with pytest.raises(holdfast.DefinitionError, match="orphans= is one of requeue, fail, review, not 'retry'"):
        holdfast.Pipeline("papers", orphans="retry")  # type: ignore[arg-type]


def test_changing_the_strategy_changes_no_plan():
    assert a_pipeline("fail").shape().digest() == a_pipeline("review").shape().digest()


def test_many_orphans_are_resolved_in_slices(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(orphans, "SLICE", 2)
    slices = []
    real = desk.store.resolve_orphans

    def watched(some, **more):
        slices.append([orphan.standing.key for orphan in some])
        return real(some, **more)

    monkeypatch.setattr(desk.store, "resolve_orphans", watched)
    desk.submit(*"abcde")
    desk.claim()
    desk.clock.advance(GRACE * 2)
    taken = resolve_orphans(desk.store, find_orphans(desk.store, "papers"), strategy="fail", who="cat", reason="why")
    assert [here.key for here in taken] == [*"abcde"]
    assert slices == [["a", "b"], ["c", "d"], ["e"]]


def test_a_scan_that_was_killed_goes_on_with_the_rest(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(orphans, "SLICE", 2)
    desk.submit(*"abcde")
    desk.claim()
    desk.clock.advance(GRACE * 2)
    found = find_orphans(desk.store, "papers")
    desk.store.resolve_orphans(found[:2], strategy="fail", who="cat", reason="why")  # and here it is killed
    again = find_orphans(desk.store, "papers")
    assert [orphan.standing.key for orphan in again] == [*"cde"]
    assert len(resolve_orphans(desk.store, found, strategy="fail", who="cat", reason="why")) == 3
    assert [len(desk.store.journal(orphan.standing.id)) for orphan in found] == [1] * 5


def test_a_process_of_this_machine_that_is_gone_is_not_waited_for(desk: Desk):
    gone = desk.store.enlist(name="gone", host=this_host(), pid=1, born="never", lease=timedelta(days=1))
    desk.submit("a")
    desk.claim(worker=gone)
    desk.clock.advance(timedelta(seconds=2))
    second = timedelta(seconds=1)
    assert born(1)
    assert [orphan.sign for orphan in desk.store.orphans("papers", grace=second)] == ["stuck"]
    assert [orphan.sign for orphan in find_orphans(desk.store, "papers", grace=second)] == ["silent"]


def test_what_a_fleet_spends_on_looking_does_not_grow_with_the_square_of_its_size(desk: Desk):
    me = desk.enlist("me")
    caretaker = Caretaker(a_pipeline("requeue"), desk.store, desk.plan, say=lambda _: None)
    caretaker.look_after(me, [])
    assert caretaker.crowd == 1.0
    for number in range(10 * CROWD - 1):  # one is there already
        desk.enlist(f"w{number}")
    caretaker.look_after(me, [])
    assert (caretaker.is_due(0.0), caretaker.crowd) == (False, 10.0)


def test_workers_that_are_silent_make_no_crowd(desk: Desk):
    for number in range(4 * CROWD):
        desk.enlist(f"silent-{number}")
    desk.clock.advance(timedelta(days=1))
    last = desk.enlist("the last")
    caretaker = Caretaker(a_pipeline("requeue"), desk.store, desk.plan, say=lambda _: None)
    caretaker.look_after(last, [])
    assert caretaker.crowd == 1
