"""Workers come, beat, fall silent and leave; what they held is not lost with them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core.model import Checkpoint
from holdfast.core.moves import LOST
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, NOTHING, SECOND, Conformance, Desk


class WorkerConformance(Conformance):
    """What enlist, beat, retire and surrender promise."""

    def test_every_incarnation_is_another_worker(self, desk: Desk) -> None:
        assert desk.enlist("ann").id != desk.worker.id

    def test_a_worker_says_who_it_is(self, store: Store) -> None:
        worker = store.enlist(name="w1", host="h", pid=42, born="boot-7", lease=LEASE)
        assert (worker.name, worker.host, worker.pid, worker.born, worker.lease) == ("w1", "h", 42, "boot-7", LEASE)
        assert [one for one, _, _ in store.workers()] == [worker]

    def test_a_worker_says_since_when_it_is_there(self, desk: Desk) -> None:
        enlisted = desk.clock()
        desk.clock.advance(LEASE)
        desk.store.beat(desk.worker)
        desk.submit("a")
        desk.claim_one()
        assert desk.worker.enlisted_at == enlisted
        assert [one.enlisted_at for one, _, _ in desk.store.workers()] == [enlisted]
        assert [one.worker for one, _ in desk.store.holders("papers")] == [desk.worker]

    def test_a_lease_of_no_length_is_forbidden(self, desk: Desk) -> None:
        with pytest.raises(self.forbidden):
            desk.enlist("hasty", lease=NOTHING)

    def test_a_beat_renews_the_heartbeat(self, desk: Desk) -> None:
        desk.clock.advance(LEASE)
        assert desk.store.beat(desk.worker)
        assert desk.store.workers() == [(desk.worker, desk.clock(), False)]

    def test_a_silent_worker_is_stale_after_its_lease(self, desk: Desk) -> None:
        desk.clock.advance(LEASE)
        assert [stale for _, _, stale in desk.store.workers()] == [False]
        desk.clock.advance(timedelta(microseconds=1))
        assert [stale for _, _, stale in desk.store.workers()] == [True]

    def test_a_stale_worker_that_nobody_gave_up_comes_back_with_a_beat(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(LEASE * 2)
        assert desk.store.beat(desk.worker)
        desk.advance(claim)

    def test_a_worker_that_was_given_up_is_told_so_at_its_beat(self, desk: Desk) -> None:
        desk.take_in()
        desk.clock.advance(LEASE * 2)
        desk.reclaim()
        assert not desk.store.beat(desk.worker)
        assert desk.store.workers() == []

    def test_a_worker_that_was_given_up_claims_nothing(self, desk: Desk) -> None:
        desk.submit("a")
        desk.reclaim(gone=[desk.worker.id])
        assert desk.claim() == []
        desk.crash(times=2)
        assert desk.store.claim_suspect(desk.plan, desk.worker) == []

    def test_an_unknown_worker_is_told_to_enlist(self, desk: Desk, other: Store) -> None:
        stranger = desk.enlist("stranger")
        desk.store.retire(stranger)
        assert not other.beat(stranger)

    def test_a_worker_that_retires_lets_go_and_it_costs_nothing(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.claim()
        desk.store.retire(desk.worker)
        assert desk.balance().waiting == 2
        here = desk.standing()
        assert (here.attempts, here.crashes, here.due_at) == (0, 0, desk.clock())
        assert desk.store.workers() == []
        assert not desk.store.beat(desk.worker)

    def test_a_worker_that_retires_keeps_its_documents_checkpoints(self, desk: Desk) -> None:
        desk.keep(desk.take_in(), "1", "2")
        desk.store.retire(desk.worker)
        assert desk.standing().checkpoint == Checkpoint(0, "extract", 2, 1)

    def test_what_a_retired_worker_still_writes_is_lost(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.store.retire(desk.worker)
        assert desk.commit(desk.forward(claim)) == [LOST]
        assert not desk.give_back(claim)
        desk.claim_one(worker=desk.enlist("bob"))
        assert desk.commit(desk.forward(claim)) == [LOST]

    def test_retiring_lets_go_of_documents_of_every_pipeline(self, desk: Desk, gated: Desk) -> None:
        desk.take_in()
        gated.submit("b")
        gated.claim(worker=desk.worker)
        desk.store.retire(desk.worker)
        assert (desk.balance().waiting, gated.balance().waiting) == (1, 1)

    def test_retiring_leaves_the_documents_of_others_alone(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.store.retire(desk.enlist("bob"))
        desk.advance(claim)

    def test_a_worker_surrenders_what_it_does_not_have_in_hand(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        first, *_ = desk.claim()
        assert desk.store.surrender(desk.worker, keeping=[first.document_id]) == 2
        assert desk.balance().waiting == 2
        assert desk.standing("b").attempts == 0
        desk.advance(first)

    def test_surrendering_with_everything_in_hand_changes_nothing(self, desk: Desk) -> None:
        claim = desk.take_in()
        assert desk.store.surrender(desk.worker, keeping=[claim.document_id]) == 0
        desk.advance(claim)

    def test_surrendering_leaves_the_documents_of_others_alone(self, desk: Desk) -> None:
        claim = desk.take_in()
        assert desk.store.surrender(desk.enlist("bob"), keeping=[]) == 0
        desk.advance(claim)

    def test_what_a_worker_lets_go_of_keeps_its_place_in_the_queue(self, desk: Desk) -> None:
        desk.take_in("a")
        desk.clock.advance(SECOND)
        desk.submit("b")
        desk.clock.advance(SECOND)
        desk.store.retire(desk.worker)
        assert desk.claim_one(worker=desk.enlist("bob")).key == "a"

    def test_a_surrendered_document_can_be_claimed_at_once(self, desk: Desk) -> None:
        desk.take_in()
        desk.store.surrender(desk.worker, keeping=[])
        assert desk.claim_one().attempts == 1

    def test_a_surrender_is_not_journalled_as_a_failure(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.store.surrender(desk.worker, keeping=[])
        assert desk.verbs(claim) == []
