"""Future times: after a clock was set back, what it wrote is found and put right, once, and nothing else is changed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from holdfast.core.future_times import CLOCK_TOLERANCE, FutureTimes
from holdfast.core.model import Failure, NewDocument
from holdfast.core.moves import ACCEPTED
from holdfast.core.reasons import AT_GATE, CLOCK_SET_BACK, sentence
from holdfast.stores.protocol import Store, Timeouts
from holdfast.testing.conformance.base import LEASE, NOTHING, SECOND, Conformance, StoreHarness
from holdfast.testing.conformance.races import at_once_in_threads

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
NO_TIMEOUTS: Timeouts = {}
TIMEOUTS: Timeouts = {"extract": HOUR}
AWAY = Failure("ConnectError", "nobody answers", category="unreachable")


def found(harness: StoreHarness) -> FutureTimes:
    """Count what is in the future."""
    return harness.store.future_times(harness.plan.pipeline)


def reset(harness: StoreHarness, *, timeouts: Timeouts = NO_TIMEOUTS, limit: int = 2000) -> FutureTimes:
    """Put times right, as a worker does."""
    return harness.store.reset_future_times(harness.plan, who="bob", timeouts=timeouts, limit=limit)


def set_back(harness: StoreHarness, by: timedelta = DAY) -> None:
    """Set the clock back. The worker of the harness lives, and sends a heartbeat."""
    harness.clock.advance(-by)
    assert harness.store.heartbeat(harness.worker)


def due_in(harness: StoreHarness, key: str = "a") -> timedelta:
    """Return how long a document still waits."""
    due = harness.document(key).due_at
    assert due is not None
    return due - harness.clock()


class FutureWaitConformance(Conformance):
    """Tests of future_times and reset_future_times: documents that wait."""

    def test_a_document_that_was_submitted_in_the_future_is_due_at_once(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        harness.submit("a")
        set_back(harness)
        assert harness.claim() == []
        assert found(harness) == FutureTimes(waiting=1, ahead=DAY)
        assert reset(harness) == FutureTimes(waiting=1, ahead=DAY)
        assert harness.keys_claimed() == ["a"]

    def test_a_wait_starts_again_as_long_as_it_was_meant(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        harness.release(harness.submit_and_claim(), delay=SECOND * 10)
        set_back(harness)
        assert due_in(harness) == DAY + SECOND * 10
        reset(harness)
        assert due_in(harness) == SECOND * 10

    @pytest.mark.parametrize("days", [2, 30, 365])
    def test_a_long_wait_that_began_in_the_past_stays_as_it_is(self, harness: StoreHarness, days: int) -> None:
        harness.release(harness.submit_and_claim(), verb="defer", costs="deferral", delay=DAY * days)
        harness.clock.advance(HOUR + DAY)
        set_back(harness)
        assert found(harness) == reset(harness) == FutureTimes()
        assert due_in(harness) == DAY * days - HOUR

    def test_a_long_wait_that_began_in_the_future_keeps_its_length(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        harness.release(harness.submit_and_claim(), verb="defer", costs="deferral", delay=DAY * 30)
        set_back(harness)
        reset(harness)
        assert due_in(harness) == DAY * 30
        assert harness.claim_one(which=harness.document().id).deferred_for == NOTHING

    def test_each_way_to_put_documents_off_is_put_right(self, harness: StoreHarness, other: Store) -> None:
        keys = ["submitted", "changed", "failed", "reclaimed", "redriven", "resumed", "rewound", "woken"]
        harness.submit(*keys[1:])
        claims = {claim.key: claim for claim in harness.claim()}
        harness.make_dead(claims["redriven"])
        ids = {key: claim.document_id for key, claim in claims.items()}
        harness.clock.advance(DAY)
        harness.submit("submitted")
        harness.submit("changed", fingerprint="new")
        harness.release(claims["failed"], delay=SECOND)
        assert harness.store.redrive([ids["redriven"]], who="cat", reason="fixed", after=SECOND)
        harness.store.rewind_to(harness.plan, [ids["rewound"]], to="extract", who="cat", reason="again")
        harness.store.pause([ids["resumed"]], who="cat", reason="look")
        harness.store.pause([ids["woken"]], who="cat", reason="later", until=harness.clock() - SECOND)
        harness.store.resume(harness.plan, [ids["resumed"]], who="cat", reason="fine")
        assert harness.store.wake(harness.plan, who="bob") == 1
        assert [one.key for one in harness.reclaim(gone=[harness.worker.id])] == ["reclaimed"]
        harness.clock.advance(-DAY)
        late = [one.key for one in other.documents("papers") if one.due_at and one.due_at > harness.clock()]
        assert {*keys} - {*late} == {"reclaimed"}  # it keeps its place in the queue, since its submission
        assert reset(harness).waiting == 7
        harness.clock.advance(SECOND)
        assert {*harness.keys_claimed(worker=harness.register_worker("bob"))} == {*keys}

    def test_redriven_documents_come_one_after_the_other(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        claims = harness.claim()
        for claim in claims:
            harness.make_dead(claim)
        harness.clock.advance(DAY)
        ids = [claim.document_id for claim in claims]
        assert len(harness.store.redrive(ids, who="cat", reason="fixed", every=HOUR)) == 3
        set_back(harness)
        reset(harness)
        assert sorted(due_in(harness, key) for key in "abc") == [NOTHING, HOUR, HOUR * 2]

    def test_the_priority_still_decides_who_comes_first(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        for key, priority in {"low": -5, "usual": 0, "high": 7}.items():
            harness.submit(key, priority=priority)
        set_back(harness)
        assert [reset(harness, limit=1).waiting for _ in range(4)] == [1, 1, 1, 0]
        assert harness.keys_claimed() == ["high", "usual", "low"]

    def test_what_is_given_back_at_once_waits_for_no_submission_in_the_future(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        harness.submit("released", "unknown", "reclaimed", "renamed")
        claims = {claim.key: claim for claim in harness.claim()}
        set_back(harness)
        harness.release(claims["released"], verb="release", costs="nothing")
        renamed = {"renamed": NewDocument("new name", None, "")}
        assert harness.store.rename("papers", "march", renamed, who="cat", reason="it was moved") == ["renamed"]
        kept = [claims["reclaimed"].document_id]
        assert harness.store.release_unknown(harness.worker, keeping=kept) == 1
        assert len(harness.reclaim(gone=[harness.worker.id])) == 1
        assert found(harness).waiting == 0
        assert {*harness.keys_claimed(worker=harness.register_worker("bob"))} == {
            "released",
            "unknown",
            "reclaimed",
            "new name",
        }

    def test_what_was_put_right_is_journalled(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        harness.submit("a")
        set_back(harness)
        reset(harness)
        (line,) = harness.store.journal(harness.document().id)
        assert (line.at, line.verb, line.who, line.code) == (harness.clock(), "restart_wait", "bob", CLOCK_SET_BACK)
        assert line.detail == {"reason": sentence(CLOCK_SET_BACK, ahead="24 h 00 min")}

    def test_what_was_put_right_is_put_right_once(self, harness: StoreHarness, other: Store) -> None:
        harness.clock.advance(DAY)
        claim = harness.submit_and_claim()
        harness.release(claim, delay=HOUR)
        set_back(harness)
        reset(harness)
        harness.clock.advance(HOUR / 2)
        assert other.reset_future_times(harness.plan, who="eve", timeouts={}) == found(harness) == FutureTimes()
        assert due_in(harness) == HOUR / 2
        assert harness.verbs(claim).count("restart_wait") == 1

    def test_a_clock_that_jumps_forward_again_changes_nothing_more(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        claim = harness.submit_and_claim()
        harness.release(claim, delay=DAY * 7)
        set_back(harness)
        reset(harness)
        harness.clock.advance(DAY)
        assert found(harness) == reset(harness) == FutureTimes()
        set_back(harness)
        assert found(harness) == reset(harness) == FutureTimes()
        assert due_in(harness) == DAY * 7
        assert harness.verbs(claim).count("restart_wait") == 1

    def test_a_clock_that_is_set_back_twice_is_put_right_twice(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY * 2)
        harness.release(harness.submit_and_claim(), delay=HOUR)
        for _ in range(2):
            set_back(harness)
            assert reset(harness) == FutureTimes(waiting=1, ahead=DAY)
            assert due_in(harness) == HOUR

    def test_a_slice_that_was_done_stays_done(self, harness: StoreHarness, other: Store) -> None:
        harness.clock.advance(DAY)
        harness.submit(*"abcde")
        set_back(harness)
        assert reset(harness, limit=2).waiting == 2
        assert [one.key for one in other.documents("papers") if one.due_at == harness.clock()] == ["b", "a"]
        assert found(harness) == FutureTimes(waiting=3, ahead=DAY)
        assert [reset(harness, limit=2).waiting for _ in range(3)] == [2, 1, 0]

    def test_two_workers_at_once_put_each_wait_right_once(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other, harness.store, other]
        with at_once_in_threads(4) as at_once:
            for turn in range(5):
                harness.clock.advance(DAY)
                harness.submit(*(f"{turn}-{number}" for number in range(20)))
                set_back(harness)
                parts = at_once(lambda n: stores[n].reset_future_times(harness.plan, who=f"w{n}", timeouts={}))
                assert sum(part.waiting for part in parts) == 20
        lines = Counter(
            line.verb for one in harness.store.documents("papers") for line in harness.store.journal(one.id)
        )
        assert lines == {"restart_wait": 100}

    def test_of_a_claim_and_a_reset_at_once_both_are_whole(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other]
        with at_once_in_threads(2) as at_once:
            for turn in range(5):
                harness.clock.advance(DAY)
                harness.submit(*(f"{turn}-{number}" for number in range(20)))
                set_back(harness)
                harness.submit(*(f"{turn}-due-{number}" for number in range(20)))

                def claim_or_reset(n: int) -> None:
                    if n:
                        stores[n].reset_future_times(harness.plan, who="bob", timeouts={})
                    else:
                        stores[n].claim(harness.plan, harness.worker, limit=100)

                at_once(claim_or_reset)
                reset(harness)
                harness.claim()
                assert harness.balance().running == 40 * (turn + 1)

    def test_a_correction_of_seconds_is_no_setback(self, harness: StoreHarness) -> None:
        harness.clock.advance(CLOCK_TOLERANCE)
        harness.submit("a")
        set_back(harness, CLOCK_TOLERANCE)
        assert found(harness) == reset(harness) == FutureTimes()
        assert due_in(harness) == CLOCK_TOLERANCE

    def test_a_pause_until_a_moment_stays_as_it_was_given(self, harness: StoreHarness) -> None:
        harness.submit("held", "asked")
        claims = {claim.key: claim for claim in harness.claim()}
        harness.clock.advance(DAY)
        until = harness.clock() + HOUR
        harness.store.pause([claims["held"].document_id], who="cat", reason="later", until=until)
        harness.release(claims["asked"], state="paused", verb="pause", until=until)
        set_back(harness)
        assert found(harness) == reset(harness) == FutureTimes()
        assert harness.document("held").due_at == harness.document("asked").due_at == until
        assert harness.document("held").waits_since is harness.document("asked").waits_since is None

    def test_the_time_to_decide_at_a_gate_starts_again(self, gated: StoreHarness) -> None:
        gated.submit("moved", "parked", "older")
        claims = {claim.key: claim for claim in gated.claim()}
        gated.clock.advance(DAY)
        to_gate = gated.forward(claims["moved"], state="paused", code=AT_GATE, timeout=HOUR)
        gated.commit(to_gate)
        gated.release(claims["parked"], state="paused", verb="pause", delay=HOUR, code=AT_GATE)
        gated.park(claims["older"], at="review")
        assert gated.store.set_gate_deadline(gated.plan, "review", within=HOUR) == 1
        set_back(gated)
        assert reset(gated) == FutureTimes(waiting=3, ahead=DAY)
        assert {due_in(gated, key) for key in claims} == {HOUR}
        assert gated.store.overdue_at_gate(gated.plan, "review") == {}
        gated.clock.advance(HOUR)
        assert {*gated.store.overdue_at_gate(gated.plan, "review")} >= {claims["moved"].document_id}

    def test_a_time_to_decide_that_began_in_the_past_stays_as_it_is(self, gated: StoreHarness) -> None:
        claim = gated.submit_and_claim()
        gated.commit(gated.forward(claim, state="paused", code=AT_GATE, timeout=DAY * 30))
        gated.clock.advance(DAY)
        set_back(gated)
        assert found(gated) == reset(gated) == FutureTimes()
        assert due_in(gated) == DAY * 30

    def test_each_pipeline_is_put_right_by_its_own_workers(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.clock.advance(DAY)
        harness.submit("a")
        gated.submit("b")
        set_back(harness)
        set_back(gated, NOTHING)
        assert reset(gated) == FutureTimes(waiting=1, ahead=DAY)
        assert found(harness) == FutureTimes(waiting=1, ahead=DAY)
        assert due_in(harness) == DAY
        assert harness.store.future_times("unknown") == FutureTimes()

    def test_documents_that_wait_too_long_are_a_cause_of_their_own(self, harness: StoreHarness) -> None:
        harness.submit("failed")
        harness.release(harness.claim_one(), delay=DAY * 2, failure=AWAY)
        harness.clock.advance(DAY)
        harness.submit("late", "later")
        set_back(harness)
        kinds = {cause.kind: (cause.documents, cause.error) for cause in harness.store.wait_causes("papers")}
        assert kinds == {"clock": (2, ""), "backoff": (1, "ConnectError")}
        reset(harness)
        assert {cause.kind for cause in harness.store.wait_causes("papers")} == {"due", "backoff"}


class FutureWorkConformance(Conformance):
    """Tests of future_times and reset_future_times: running documents, workers and steps."""

    def test_a_running_document_has_at_most_the_timeout_of_its_step_left(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(DAY)
        claim = harness.claim_one(timeouts=TIMEOUTS)
        set_back(harness)
        assert found(harness) == FutureTimes(running=1, ahead=DAY)
        assert reset(harness, timeouts=TIMEOUTS) == FutureTimes(running=1)
        document = harness.document()
        assert document.deadline_at == harness.clock() + HOUR
        assert document.claimed_at == harness.clock()
        assert found(harness) == FutureTimes()
        harness.finish(claim)

    def test_a_deadline_that_was_set_since_stays_as_it_is(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(DAY)
        claim = harness.claim_one(timeouts=TIMEOUTS)
        set_back(harness)
        harness.commit(harness.within(claim, 1, timeout=HOUR / 2))
        deadline = harness.document().deadline_at
        assert reset(harness, timeouts=TIMEOUTS).running == 1
        assert harness.document().deadline_at == deadline == harness.clock() + HOUR / 2

    def test_without_a_timeout_a_running_document_gets_no_deadline(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        claim = harness.advance(harness.submit_and_claim())
        set_back(harness)
        assert reset(harness, timeouts={**TIMEOUTS, "chunk": HOUR}).running == 1
        document = harness.document()
        assert (document.deadline_at, document.moved_at) == (None, harness.clock())
        harness.finish(claim)

    def test_a_dead_worker_with_a_heartbeat_in_the_future_has_one_lease_left(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(DAY)
        victim = harness.register_worker("victim")
        harness.claim_one(worker=victim)
        set_back(harness)
        harness.clock.advance(LEASE * 2)
        assert harness.reclaim() == []
        assert found(harness) == FutureTimes(running=1, workers=1, ahead=DAY - LEASE * 2)
        assert reset(harness) == FutureTimes(running=1, workers=1)
        assert harness.reclaim() == []
        harness.clock.advance(LEASE + SECOND)
        assert [one.key for one in harness.reclaim()] == ["a"]

    def test_a_living_worker_keeps_its_documents_after_a_reset(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        claim = harness.submit_and_claim()
        harness.store.heartbeat(harness.worker)
        harness.clock.advance(-DAY)
        assert reset(harness).workers == 1
        harness.clock.advance(LEASE / 3)
        assert harness.store.heartbeat(harness.worker)
        harness.clock.advance(LEASE)
        assert harness.reclaim() == []
        harness.finish(claim)

    def test_a_worker_that_is_gone_stays_gone(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        gone = harness.register_worker("gone")
        harness.store.retire_worker(gone)
        set_back(harness)
        assert found(harness) == reset(harness) == FutureTimes()
        assert not harness.store.heartbeat(gone)

    def test_a_step_that_worked_in_the_future_is_no_evidence_when_that_time_has_come(
        self, harness: StoreHarness
    ) -> None:
        harness.clock.advance(DAY)
        harness.store.add_step_times(harness.plan, {"extract": (1, 1.0)})
        set_back(harness)
        claim = harness.submit_and_claim()
        harness.release(claim, failure=AWAY)
        assert found(harness) == FutureTimes(steps=1, ahead=DAY)
        assert reset(harness) == FutureTimes(steps=1)
        harness.clock.advance(DAY * 2)
        assert not harness.store.works_for_others(harness.plan, "extract", claim.document_id)
        assert harness.store.step_times("papers") == {"extract": (1, 1.0)}

    def test_a_move_that_comes_after_the_reset_is_accepted(self, harness: StoreHarness) -> None:
        harness.clock.advance(DAY)
        harness.submit("a", "b")
        claims = harness.claim()
        move = harness.forward(claims[0])
        set_back(harness)
        assert reset(harness).running == 2
        assert harness.commit(move) == [ACCEPTED]
        assert harness.release(claims[1], delay=SECOND)
        assert due_in(harness, "b") == SECOND
