"""Orphans are reclaimed: from workers that are silent or gone, and from steps that are overdue."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.model import Checkpoint, State
from holdfast.core.moves import LOST
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, Desk, dies, waits

INSTANT = timedelta(microseconds=1)


class LivenessConformance(Conformance):
    """What reclaim promises."""

    def test_a_living_worker_keeps_its_documents(self, desk: Desk) -> None:
        claim = desk.take_in()
        assert desk.reclaim() == []
        desk.advance(claim)

    def test_a_document_is_taken_from_a_silent_worker(self, desk: Desk) -> None:
        desk.keep(desk.take_in(), "1", "2")
        desk.clock.advance(LEASE + INSTANT)
        (orphan,) = desk.reclaim()
        assert orphan == desk.standing()
        assert (orphan.state, orphan.holder, orphan.reason) == ("waiting", "", "worker ann is gone")
        assert orphan.checkpoint == Checkpoint(0, "extract", 2, 1)
        assert orphan.due_at == orphan.submitted_at

    def test_what_was_begun_comes_before_what_was_not(self, desk: Desk) -> None:
        desk.submit("a")
        desk.clock.advance(INSTANT)
        desk.submit("b", "c")
        begun = desk.claim_one()
        desk.clock.advance(LEASE + INSTANT)
        desk.reclaim()
        assert desk.claim_one(worker=desk.enlist("bob")).key == begun.key

    def test_a_worker_is_not_silent_until_its_lease_is_over(self, desk: Desk) -> None:
        desk.take_in()
        desk.clock.advance(LEASE)
        assert desk.reclaim() == []

    def test_a_beat_keeps_documents_for_another_lease(self, desk: Desk) -> None:
        desk.take_in()
        desk.clock.advance(LEASE)
        desk.store.beat(desk.worker)
        desk.clock.advance(LEASE)
        assert desk.reclaim() == []

    def test_each_worker_has_its_own_lease(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.claim(limit=1)
        desk.claim(limit=1, worker=desk.enlist("bob", lease=LEASE * 3))
        desk.clock.advance(LEASE * 2)
        assert [orphan.key for orphan in desk.reclaim()] == ["a"]
        assert desk.standing("b").holder == "bob"

    def test_a_document_is_taken_from_a_worker_known_to_be_gone(self, desk: Desk) -> None:
        desk.take_in()
        assert [orphan.key for orphan in desk.reclaim(gone=[desk.worker.id])] == ["a"]
        assert not desk.store.beat(desk.worker)

    def test_a_worker_known_to_be_gone_is_given_up_though_it_holds_nothing(self, desk: Desk) -> None:
        assert desk.reclaim(gone=[desk.worker.id]) == []
        assert desk.store.workers() == []

    def test_only_the_gone_lose_their_documents(self, desk: Desk) -> None:
        desk.submit("a", "b")
        mine = desk.claim_one()
        bob = desk.enlist("bob")
        desk.claim_one(worker=bob)
        assert [orphan.key for orphan in desk.reclaim(gone=[bob.id])] == ["b"]
        desk.advance(mine)

    def test_orphans_come_oldest_first(self, desk: Desk) -> None:
        desk.submit(*"abc")
        bob = desk.enlist("bob")
        desk.claim(limit=1, worker=bob)
        desk.claim(limit=1)
        desk.claim(limit=1, worker=bob)
        desk.clock.advance(LEASE * 2)
        assert [orphan.key for orphan in desk.reclaim()] == ["a", "b", "c"]

    def test_a_worker_alive_but_stuck_loses_an_overdue_document(self, desk: Desk) -> None:
        desk.submit("a")
        stuck = desk.claim_one(timeouts={"extract": SECOND * 10})
        desk.clock.advance(SECOND * 10)
        assert desk.reclaim() == []
        desk.clock.advance(INSTANT)
        desk.store.beat(desk.worker)
        (orphan,) = desk.reclaim()
        assert (orphan.state, orphan.reason) == ("waiting", "overdue at extract")
        assert desk.commit(desk.forward(stuck)) == [LOST]

    def test_a_worker_that_lost_an_overdue_document_stays_at_work(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.claim(limit=1, timeouts={"extract": SECOND})
        other = desk.claim_one()
        desk.clock.advance(SECOND * 2)
        assert [orphan.key for orphan in desk.reclaim()] == ["a"]
        assert desk.store.beat(desk.worker)
        desk.advance(other)

    def test_a_deadline_is_for_the_step_that_names_it(self, desk: Desk) -> None:
        desk.submit("a")
        desk.claim(timeouts={"chunk": SECOND})
        desk.clock.advance(SECOND * 5)
        assert desk.reclaim() == []

    def test_a_move_begins_the_next_deadline(self, desk: Desk) -> None:
        desk.submit("a")
        claim = desk.claim_one(timeouts={"extract": SECOND * 10})
        desk.clock.advance(SECOND * 9)
        claim = desk.advance(claim, timeout=SECOND * 10)
        desk.clock.advance(SECOND * 9)
        assert desk.reclaim() == []
        desk.clock.advance(SECOND * 2)
        assert [orphan.reason for orphan in desk.reclaim()] == ["overdue at chunk"]

    def test_a_move_without_a_deadline_ends_the_last_one(self, desk: Desk) -> None:
        desk.submit("a")
        desk.advance(desk.claim_one(timeouts={"extract": SECOND}))
        desk.clock.advance(SECOND * 2)
        assert desk.reclaim() == []

    def test_a_claim_without_a_deadline_has_none_from_before(self, desk: Desk) -> None:
        desk.submit("a")
        desk.give_back(desk.claim_one(timeouts={"extract": SECOND}))
        desk.claim_one()
        desk.clock.advance(SECOND * 2)
        assert desk.reclaim() == []

    def test_a_lost_worker_counts_as_a_crash_not_as_an_attempt(self, desk: Desk) -> None:
        desk.take_in()
        desk.reclaim(gone=[desk.worker.id])
        assert (desk.standing().attempts, desk.standing().crashes) == (0, 1)

    def test_an_overdue_step_counts_as_an_attempt_not_as_a_crash(self, desk: Desk) -> None:
        desk.submit("a")
        desk.claim(timeouts={"extract": SECOND})
        desk.clock.advance(SECOND * 2)
        desk.reclaim()
        assert (desk.standing().attempts, desk.standing().crashes) == (1, 0)

    def test_an_overdue_document_of_a_lost_worker_counts_as_a_crash(self, desk: Desk) -> None:
        desk.submit("a")
        desk.claim(timeouts={"extract": SECOND})
        desk.clock.advance(LEASE * 2)
        (orphan,) = desk.reclaim()
        assert (orphan.reason, orphan.crashes) == ("worker ann is gone", 1)

    def test_crashes_add_up_until_the_document_moves(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash(times=3)
        assert (desk.standing().attempts, desk.standing().crashes) == (0, 3)

    def test_a_verdict_may_end_an_orphan(self, desk: Desk) -> None:
        desk.take_in()
        (orphan,) = desk.reclaim(gone=[desk.worker.id], verdict=dies)
        assert (orphan.state, orphan.due_at, orphan.reason) == ("dead", None, "worker ann is gone")

    def test_a_verdict_may_keep_an_orphan_for_a_person(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        (orphan,) = desk.reclaim(gone=[desk.worker.id], verdict=lambda *_: ("paused", SECOND))
        assert (orphan.state, orphan.due_at, orphan.error) == ("paused", None, "WorkerGone")
        assert orphan.reason == "kept for review: worker ann is gone"
        assert desk.store.wake(desk.plan, who="bob") == 0
        assert desk.store.resume(desk.plan, [claim.document_id], who="cat", reason="it was the machine")
        place = replace(claim.checkpoint, moves=claim.checkpoint.moves + 1)
        assert desk.claim_one(worker=desk.enlist("bob")).checkpoint == place

    def test_each_orphan_that_workers_keep_for_a_person_is_a_parking_of_its_own(self, desk: Desk) -> None:
        desk.take_in()
        (first,) = desk.reclaim(gone=[desk.worker.id], verdict=lambda *_: ("paused", SECOND))
        seen = {first.id: first.checkpoint.moves}
        assert desk.store.resume(desk.plan, [*seen], at=seen, who="cat", reason="it was the machine")
        bob = desk.enlist("bob")
        desk.claim_one(worker=bob)
        desk.reclaim(gone=[bob.id], verdict=lambda *_: ("paused", SECOND))
        assert desk.store.resume(desk.plan, [*seen], at=seen, who="eve", reason="an old list") == []
        assert desk.store.reject([*seen], at=seen, who="eve", reason="an old list") == []

    def test_a_verdict_may_let_an_orphan_wait(self, desk: Desk) -> None:
        desk.take_in()
        desk.reclaim(gone=[desk.worker.id], verdict=lambda *_: ("waiting", SECOND * 5))
        assert desk.store.next_due(desk.plan) == SECOND * 5

    def test_every_orphan_has_its_own_verdict(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, _ = desk.claim()
        desk.advance(first)
        orphans = desk.reclaim(
            gone=[desk.worker.id], verdict=lambda step, *_: dies(step, 0, 0) if step == "chunk" else waits(step, 0, 0)
        )
        assert [(orphan.key, orphan.state) for orphan in orphans] == [("a", "dead"), ("b", "waiting")]

    def test_a_verdict_hears_what_was_counted(self, desk: Desk) -> None:
        heard = []

        def listens(step: str, attempts: int, crashes: int) -> tuple[State, timedelta]:
            heard.append((step, attempts, crashes))
            return waits(step, attempts, crashes)

        desk.give_back(desk.take_in())
        desk.claim()
        desk.reclaim(gone=[desk.worker.id], verdict=listens)
        assert heard == [("extract", 1, 1)]

    def test_a_verdict_that_fails_takes_the_reclaim_back(self, desk: Desk) -> None:
        def broken(*_: object) -> tuple[str, timedelta]:
            raise RuntimeError

        claim = desk.take_in()
        with pytest.raises(RuntimeError):
            desk.reclaim(gone=[desk.worker.id], verdict=broken)  # type: ignore[arg-type]
        assert desk.store.beat(desk.worker)
        desk.advance(claim)

    def test_a_reclaim_is_journalled(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        desk.reclaim(gone=[desk.worker.id])
        (entry,) = desk.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.step, entry.cursor) == ("reclaim", "bob", "extract", 1)
        assert entry.detail == {
            "from": "ann",
            "was": "running",
            "state": "waiting",
            "reason": "worker ann is gone",
            "attempts": 0,
            "crashes": 1,
        }

    def test_an_orphan_is_reclaimed_once(self, desk: Desk, other: Store) -> None:
        desk.take_in()
        desk.clock.advance(LEASE * 2)
        assert len(desk.reclaim()) == 1
        assert other.reclaim(desk.plan, who="cat", verdict=waits) == []

    def test_a_document_that_is_orphaned_again_is_reclaimed_again(self, desk: Desk) -> None:
        desk.submit("a")
        for name in ("bob", "cat"):
            desk.claim(worker=desk.enlist(name))
            desk.clock.advance(LEASE * 2)
            assert [orphan.reason for orphan in desk.reclaim()] == [f"worker {name} is gone"]

    def test_documents_of_another_pipeline_are_reclaimed_by_their_own(self, desk: Desk, gated: Desk) -> None:
        gated.submit("a")
        gated.claim(worker=desk.worker)
        desk.take_in("b")
        desk.clock.advance(LEASE * 2)
        assert [orphan.key for orphan in desk.reclaim()] == ["b"]
        assert gated.standing().state == "running"
        assert [orphan.key for orphan in gated.reclaim()] == ["a"]

    def test_a_document_held_by_a_worker_that_was_given_up_is_an_orphan(self, desk: Desk, gated: Desk) -> None:
        gated.submit("a")
        gated.claim(worker=desk.worker)
        desk.reclaim(gone=[desk.worker.id])
        assert [orphan.reason for orphan in gated.reclaim()] == ["worker ann is gone"]

    def test_a_clock_that_jumps_forward_costs_claims_but_never_safety(self, desk: Desk) -> None:
        stale = desk.take_in()
        desk.clock.advance(timedelta(days=365))
        desk.reclaim()
        fresh = desk.claim_one(worker=desk.enlist("bob"))
        desk.clock.advance(-timedelta(days=365))
        assert desk.commit(desk.forward(stale)) == [LOST]
        desk.advance(fresh)

    def test_a_clock_that_jumps_back_takes_nothing_from_anybody(self, desk: Desk) -> None:
        desk.submit("a")
        claim = desk.claim_one(timeouts={"extract": SECOND})
        desk.clock.advance(-timedelta(days=365))
        assert desk.reclaim() == []
        assert desk.store.beat(desk.worker)
        desk.advance(claim)

    def test_a_silent_worker_without_documents_is_stale_and_not_given_up(self, desk: Desk) -> None:
        desk.clock.advance(LEASE * 2)
        assert desk.reclaim() == []
        assert desk.store.workers()[0][2]
        assert desk.store.beat(desk.worker)
