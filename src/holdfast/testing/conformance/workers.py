"""Workers: they register, send heartbeats, become silent and retire. Their documents are not lost."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core.model import Checkpoint
from holdfast.core.moves import LOST
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, NOTHING, SECOND, Conformance, StoreHarness


class WorkerConformance(Conformance):
    """Tests of register_worker, heartbeat, retire_worker and release_unknown."""

    def test_every_registration_makes_a_new_worker(self, harness: StoreHarness) -> None:
        assert harness.register_worker("ann").id != harness.worker.id

    def test_a_worker_record_has_name_host_and_pid(self, store: Store) -> None:
        worker = store.register_worker(name="w1", host="h", pid=42, born="boot-7", lease=LEASE)
        assert (worker.name, worker.host, worker.pid, worker.born, worker.lease) == ("w1", "h", 42, "boot-7", LEASE)
        assert [one for one, _, _ in store.workers()] == [worker]

    def test_a_worker_record_has_the_time_of_its_registration(self, harness: StoreHarness) -> None:
        registered = harness.clock()
        harness.clock.advance(LEASE)
        harness.store.heartbeat(harness.worker)
        harness.submit("a")
        harness.claim_one()
        assert harness.worker.registered_at == registered
        assert [one.registered_at for one, _, _ in harness.store.workers()] == [registered]
        assert [one.worker for one, _ in harness.store.holders("papers")] == [harness.worker]

    def test_a_lease_of_zero_is_refused(self, harness: StoreHarness) -> None:
        with pytest.raises(self.forbidden):
            harness.register_worker("hasty", lease=NOTHING)

    def test_a_heartbeat_is_renewed(self, harness: StoreHarness) -> None:
        harness.clock.advance(LEASE)
        assert harness.store.heartbeat(harness.worker)
        assert harness.store.workers() == [(harness.worker, harness.clock(), False)]

    def test_a_silent_worker_is_stale_after_its_lease(self, harness: StoreHarness) -> None:
        harness.clock.advance(LEASE)
        assert [stale for _, _, stale in harness.store.workers()] == [False]
        harness.clock.advance(timedelta(microseconds=1))
        assert [stale for _, _, stale in harness.store.workers()] == [True]

    def test_a_stale_worker_that_was_not_given_up_comes_back_with_a_heartbeat(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(LEASE * 2)
        assert harness.store.heartbeat(harness.worker)
        harness.advance(claim)

    def test_the_heartbeat_of_a_worker_that_was_given_up_returns_false(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.clock.advance(LEASE * 2)
        harness.reclaim()
        assert not harness.store.heartbeat(harness.worker)
        assert harness.store.workers() == []

    def test_a_worker_that_was_given_up_claims_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.reclaim(gone=[harness.worker.id])
        assert harness.claim() == []
        harness.crash(times=2)
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect") == []

    def test_the_heartbeat_of_a_retired_worker_returns_false(self, harness: StoreHarness, other: Store) -> None:
        stranger = harness.register_worker("stranger")
        harness.store.retire_worker(stranger)
        assert not other.heartbeat(stranger)

    def test_a_worker_that_retires_releases_its_documents_at_no_cost(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.claim()
        harness.store.retire_worker(harness.worker)
        assert harness.balance().waiting == 2
        status = harness.document()
        assert (status.attempts, status.crashes, status.due_at) == (0, 0, harness.clock())
        assert harness.store.workers() == []
        assert not harness.store.heartbeat(harness.worker)

    def test_a_worker_that_retires_keeps_its_documents_checkpoints(self, harness: StoreHarness) -> None:
        harness.keep(harness.submit_and_claim(), "1", "2")
        harness.store.retire_worker(harness.worker)
        assert harness.document().checkpoint == Checkpoint(0, "extract", 2, 1)

    def test_a_write_of_a_retired_worker_is_lost(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.store.retire_worker(harness.worker)
        assert harness.commit(harness.forward(claim)) == [LOST]
        assert not harness.release(claim)
        harness.claim_one(worker=harness.register_worker("bob"))
        assert harness.commit(harness.forward(claim)) == [LOST]

    def test_retiring_releases_documents_of_every_pipeline(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit_and_claim()
        gated.submit("b")
        gated.claim(worker=harness.worker)
        harness.store.retire_worker(harness.worker)
        assert (harness.balance().waiting, gated.balance().waiting) == (1, 1)

    def test_retiring_does_not_release_documents_of_other_workers(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.store.retire_worker(harness.register_worker("bob"))
        harness.advance(claim)

    def test_release_unknown_releases_claims_that_the_worker_does_not_name(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        first, *_ = harness.claim()
        assert harness.store.release_unknown(harness.worker, keeping=[first.document_id]) == 2
        assert harness.balance().waiting == 2
        assert harness.document("b").attempts == 0
        harness.advance(first)

    def test_release_unknown_with_all_claims_named_changes_nothing(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        assert harness.store.release_unknown(harness.worker, keeping=[claim.document_id]) == 0
        harness.advance(claim)

    def test_release_unknown_does_not_release_documents_of_other_workers(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        assert harness.store.release_unknown(harness.register_worker("bob"), keeping=[]) == 0
        harness.advance(claim)

    def test_a_released_document_keeps_its_place_in_the_queue(self, harness: StoreHarness) -> None:
        harness.submit_and_claim("a")
        harness.clock.advance(SECOND)
        harness.submit("b")
        harness.clock.advance(SECOND)
        harness.store.retire_worker(harness.worker)
        assert harness.claim_one(worker=harness.register_worker("bob")).key == "a"

    def test_a_document_released_by_release_unknown_can_be_claimed_at_once(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.store.release_unknown(harness.worker, keeping=[])
        assert harness.claim_one().attempts == 1

    def test_release_unknown_is_not_journalled_as_a_failure(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.store.release_unknown(harness.worker, keeping=[])
        assert harness.verbs(claim) == []
