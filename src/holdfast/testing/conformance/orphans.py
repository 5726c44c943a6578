"""Orphans are found by their last sign of life, and each is resolved once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.model import Checkpoint, State
from holdfast.core.moves import LOST
from holdfast.core.orphans import GRACE, Orphan, Strategy
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, Desk

INSTANT = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)


def _scan(desk: Desk, *, grace: timedelta = GRACE, **more: object) -> list[Orphan]:
    return desk.store.orphans("papers", grace=grace, **more)  # type: ignore[arg-type]


def _found(desk: Desk, **more: object) -> list[str]:
    return [orphan.standing.key for orphan in _scan(desk, **more)]  # type: ignore[arg-type]


def _resolve(desk: Desk, *orphans: Orphan, strategy: Strategy = "requeue") -> list[str]:
    taken = desk.store.resolve_orphans(orphans, strategy=strategy, who="cat", reason="the night shift ended")
    return [here.key for here in taken]


def _orphaned(desk: Desk, key: str = "a") -> Orphan:
    """Submits a document and lets the worker that holds it fall silent for longer than the grace."""
    desk.submit(key)
    desk.claim_one(worker=desk.enlist("bob"))
    desk.clock.advance(GRACE + INSTANT)
    desk.store.beat(desk.worker)
    (orphan,) = _scan(desk)
    return orphan


class OrphanConformance(Conformance):
    """What a scan finds."""

    def test_a_document_of_a_silent_worker_is_an_orphan_after_the_grace(self, desk: Desk) -> None:
        desk.take_in()
        began = desk.clock()
        desk.clock.advance(GRACE)
        assert _scan(desk) == []
        desk.clock.advance(INSTANT)
        (orphan,) = _scan(desk)
        assert (orphan.standing, orphan.sign, orphan.since, orphan.alive) == (desk.standing(), "silent", began, False)
        assert orphan.why == f"worker ann is silent since {began:%Y-%m-%d %H:%M:%S} UTC"

    def test_a_document_that_died_in_its_first_step_is_found(self, desk: Desk) -> None:
        desk.take_in()
        desk.clock.advance(GRACE * 2)
        assert [(orphan.standing.key, orphan.standing.checkpoint.moves) for orphan in _scan(desk)] == [("a", 0)]

    def test_the_grace_of_a_silent_worker_counts_from_its_last_heartbeat(self, desk: Desk) -> None:
        desk.take_in()
        desk.clock.advance(MINUTE)
        desk.store.beat(desk.worker)
        beat = desk.clock()
        desk.clock.advance(GRACE)
        (orphan,) = _scan(desk)  # it has not moved for longer than the grace, and nobody lives who could
        assert (orphan.sign, orphan.since) == ("silent", beat)
        assert _scan(desk, grace=GRACE + MINUTE) == []

    def test_a_worker_within_its_lease_is_not_silent_however_short_the_grace(self, desk: Desk) -> None:
        desk.take_in()
        desk.clock.advance(LEASE)
        assert [orphan.sign for orphan in _scan(desk, grace=SECOND)] == ["stuck"]
        desk.clock.advance(INSTANT)
        assert [orphan.sign for orphan in _scan(desk, grace=SECOND)] == ["silent"]

    def test_a_document_of_a_worker_known_to_be_gone_is_an_orphan_within_the_lease(self, desk: Desk) -> None:
        desk.take_in()
        desk.clock.advance(SECOND * 2)
        assert [orphan.sign for orphan in _scan(desk, grace=SECOND, gone=[desk.worker.id])] == ["silent"]
        assert _scan(desk, gone=[desk.worker.id]) == []

    def test_a_document_of_a_worker_that_was_given_up_is_an_orphan(self, desk: Desk, gated: Desk) -> None:
        desk.take_in()
        gated.reclaim(gone=[desk.worker.id])
        desk.clock.advance(SECOND * 2)
        assert [orphan.alive for orphan in _scan(desk, grace=SECOND)] == [False]

    def test_an_overdue_document_of_a_living_worker_is_an_orphan(self, desk: Desk) -> None:
        desk.submit("a")
        desk.claim_one(timeouts={"extract": MINUTE})
        deadline = desk.clock() + MINUTE
        desk.clock.advance(MINUTE + GRACE + INSTANT)
        desk.store.beat(desk.worker)
        (orphan,) = _scan(desk)
        assert (orphan.sign, orphan.since, orphan.alive) == ("overdue", deadline, True)
        assert orphan.why == f"overdue at extract since {deadline:%Y-%m-%d %H:%M:%S} UTC"

    def test_a_document_without_progress_is_an_orphan_though_its_worker_lives(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(GRACE)
        desk.keep(claim, "1")
        moved = desk.clock()
        desk.clock.advance(GRACE)
        desk.store.beat(desk.worker)
        assert _scan(desk) == []
        desk.clock.advance(INSTANT)
        (orphan,) = _scan(desk)
        assert (orphan.sign, orphan.since, orphan.alive) == ("stuck", moved, True)
        assert orphan.why == "no progress at extract for 2 h 00 min"

    def test_a_claim_is_a_sign_of_life(self, desk: Desk) -> None:
        desk.submit("a")
        desk.clock.advance(GRACE * 2)
        desk.store.beat(desk.worker)
        desk.claim()
        assert _scan(desk) == []

    def test_only_running_documents_are_orphans(self, desk: Desk) -> None:
        desk.submit(*"abcde")
        a, b, c, d = desk.claim(limit=4)
        desk.finish(a)
        desk.bury(b)
        desk.give_back(c, state="paused")
        desk.store.cancel([d.document_id], who="cat", reason="no")
        desk.clock.advance(GRACE * 2)
        assert _scan(desk) == []

    def test_orphans_are_looked_for_in_a_pipeline_and_a_batch(self, desk: Desk, gated: Desk) -> None:
        desk.submit("a", batch="march")
        desk.submit("b", batch="april")
        gated.submit("c")
        desk.claim()
        gated.claim(worker=desk.worker)
        desk.clock.advance(GRACE * 2)
        assert _found(desk) == ["a", "b"]
        assert _found(desk, batch="april") == ["b"]
        assert _found(desk, batch="may") == []
        assert desk.store.orphans("nothing") == []

    def test_a_clock_that_jumps_back_makes_no_orphans(self, desk: Desk) -> None:
        desk.submit("a")
        desk.claim_one(timeouts={"extract": SECOND})
        desk.clock.advance(-timedelta(days=365))
        assert _scan(desk) == []

    def test_looking_changes_nothing(self, desk: Desk) -> None:
        orphan = _orphaned(desk)
        assert _scan(desk) == [orphan]
        assert desk.standing() == orphan.standing
        assert desk.store.journal(orphan.standing.id) == []


class ResolveConformance(Conformance):
    """What becomes of orphans."""

    @pytest.mark.parametrize(
        ("strategy", "state"), [("requeue", "waiting"), ("fail", "dead"), ("review", "paused")], ids=str
    )
    def test_a_strategy_says_what_becomes_of_an_orphan(self, desk: Desk, strategy: Strategy, state: State) -> None:
        orphan = _orphaned(desk)
        (here,) = desk.store.resolve_orphans([orphan], strategy=strategy, who="cat", reason="it burns")
        assert here == desk.standing()
        assert (here.state, here.holder, here.error) == (state, "", "WorkerGone")
        was = orphan.standing.checkpoint
        assert here.checkpoint == replace(was, moves=was.moves + (state == "paused"))
        assert here.due_at == (here.submitted_at if state == "waiting" else None)
        said = f"{orphan.why} (it burns)"
        assert here.reason == (f"kept for review: {said}" if state == "paused" else said)

    def test_a_resolved_orphan_is_one_line_in_the_journal(self, desk: Desk) -> None:
        orphan = _orphaned(desk)
        _resolve(desk, orphan, strategy="review")
        (entry,) = desk.store.journal(orphan.standing.id)
        assert (entry.verb, entry.who, entry.step, entry.at) == ("reclaim", "cat", "extract", desk.clock())
        assert entry.detail == {
            "from": "bob",
            "was": "running",
            "state": "paused",
            "reason": "the night shift ended",
            "found": orphan.why,
            "attempts": 0,
            "crashes": 1,
        }

    def test_each_orphan_that_is_kept_for_review_is_a_parking_of_its_own(self, desk: Desk) -> None:
        _resolve(desk, _orphaned(desk), strategy="review")
        seen = {desk.standing().id: desk.standing().checkpoint.moves}
        assert desk.store.resume(desk.plan, [*seen], at=seen, who="cat", reason="it was the machine")
        desk.claim_one(worker=desk.enlist("dan"))
        desk.clock.advance(GRACE + INSTANT)
        _resolve(desk, *_scan(desk), strategy="review")
        assert desk.store.resume(desk.plan, [*seen], at=seen, who="eve", reason="an old list") == []
        assert desk.store.reject([*seen], at=seen, who="eve", reason="an old list") == []
        assert desk.standing().state == "paused"

    def test_without_a_reason_the_finding_is_the_reason(self, desk: Desk) -> None:
        orphan = _orphaned(desk)
        desk.store.resolve_orphans([orphan], strategy="fail", who="cat", reason="")
        assert desk.standing().reason == orphan.why
        assert desk.store.journal(orphan.standing.id)[0].detail["reason"] == orphan.why

    def test_an_orphan_goes_on_at_its_checkpoint(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2")
        desk.clock.advance(GRACE * 2)
        assert _resolve(desk, *_scan(desk)) == ["a"]
        again = desk.claim_one(worker=desk.enlist("bob"))
        assert again.checkpoint == Checkpoint(0, "extract", 2, 1)
        assert desk.items(claim) == [("extract", 0, "1"), ("extract", 1, "2")]

    def test_the_worker_that_lost_an_orphan_cannot_write(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(GRACE * 2)
        _resolve(desk, *_scan(desk), strategy="review")
        before = desk.standing()
        assert desk.store.beat(desk.worker)
        assert desk.commit(desk.forward(claim)) == [LOST]
        assert not desk.give_back(claim)
        assert not desk.store.rewind(desk.plan, claim, to="extract", who="bob", reason="why")
        assert desk.standing() == before

    def test_an_orphan_that_comes_back_to_its_old_worker_is_not_open_to_the_old_claim(self, desk: Desk) -> None:
        stale = desk.take_in()
        desk.clock.advance(GRACE * 2)
        _resolve(desk, *_scan(desk))
        fresh = desk.claim_one()
        assert desk.commit(desk.forward(stale)) == [LOST]
        desk.advance(fresh)

    def test_a_lost_worker_is_a_crash_and_a_stuck_step_an_attempt(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.claim(limit=1)
        desk.claim(limit=1, worker=desk.enlist("bob"))
        desk.clock.advance(GRACE * 2)
        desk.store.beat(desk.worker)
        _resolve(desk, *_scan(desk))
        counted = [(here.attempts, here.crashes, here.error) for here in map(desk.standing, "ab")]
        assert counted == [(1, 0, "NoProgress"), (0, 1, "WorkerGone")]

    def test_an_orphan_is_resolved_once(self, desk: Desk, other: Store) -> None:
        orphan = _orphaned(desk)
        assert _resolve(desk, orphan, orphan) == ["a"]
        assert other.resolve_orphans([orphan], strategy="fail", who="dan", reason="again") == []
        assert desk.standing().state == "waiting"
        assert [entry.verb for entry in desk.store.journal(orphan.standing.id)] == ["reclaim"]

    def test_an_orphan_that_was_reclaimed_meanwhile_is_left_alone(self, desk: Desk) -> None:
        orphan = _orphaned(desk)
        desk.reclaim()
        fresh = desk.claim_one()
        assert _resolve(desk, orphan) == []
        desk.advance(fresh)

    def test_an_orphan_that_its_living_worker_gave_back_and_took_again_is_left_alone(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(GRACE * 2)
        desk.store.beat(desk.worker)
        (orphan,) = _scan(desk)
        desk.give_back(claim)
        again = desk.claim_one()
        assert _resolve(desk, orphan) == []
        desk.advance(again)

    def test_an_orphan_that_moved_meanwhile_is_left_alone(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(GRACE * 2)
        desk.store.beat(desk.worker)
        (orphan,) = _scan(desk)
        desk.keep(claim, "1")
        assert _resolve(desk, orphan) == []
        assert desk.standing().state == "running"

    def test_an_orphan_whose_silent_worker_was_heard_again_is_left_alone(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(GRACE * 2)
        (orphan,) = _scan(desk)
        desk.store.beat(desk.worker)
        assert _resolve(desk, orphan) == []
        desk.advance(claim)

    def test_a_worker_that_is_heard_again_by_a_clock_that_jumped_back_is_heard(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(GRACE * 2)
        (orphan,) = _scan(desk)
        desk.clock.advance(-GRACE * 3)
        desk.store.beat(desk.worker)
        assert _resolve(desk, orphan) == []
        desk.advance(claim)

    def test_an_orphan_that_was_cancelled_meanwhile_stays_cancelled(self, desk: Desk) -> None:
        orphan = _orphaned(desk)
        desk.store.cancel([orphan.standing.id], who="dan", reason="no")
        assert _resolve(desk, orphan) == []
        assert desk.standing().state == "cancelled"

    def test_of_many_orphans_those_that_still_are_ones_are_resolved(self, desk: Desk) -> None:
        desk.submit(*"abc")
        claims = desk.claim()
        desk.clock.advance(GRACE * 2)
        desk.store.beat(desk.worker)
        orphans = _scan(desk)
        desk.keep(claims[1], "1")
        assert _resolve(desk, *reversed(orphans)) == ["a", "c"]
        assert [desk.standing(key).state for key in "abc"] == ["waiting", "running", "waiting"]

    def test_nothing_to_resolve_is_nothing_done(self, desk: Desk) -> None:
        assert _resolve(desk) == []

    def test_a_resolved_orphan_leaves_the_limit_of_its_step(self, desk: Desk) -> None:
        claim = desk.take_in()
        assert desk.store.admit(desk.plan, "extract", [claim], limit=1) == [True]
        desk.clock.advance(GRACE * 2)
        _resolve(desk, *_scan(desk))
        bob = desk.enlist("bob")
        assert desk.store.admit(desk.plan, "extract", [desk.claim_one(worker=bob)], limit=1) == [True]
