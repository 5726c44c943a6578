"""Reclaim: claims of workers that are silent or gone, and of steps that are overdue."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.model import Checkpoint
from holdfast.core.moves import LOST
from holdfast.core.reasons import FOR_REVIEW, LOST_TOO_OFTEN, OVERDUE, WORKER_CRASHED, WORKER_GONE, sentence
from holdfast.core.worker_deaths import UNKNOWN_DEATH, WorkerDeath
from holdfast.stores.protocol import OrphanCounts, OrphanVerdict, Store
from holdfast.testing.conformance.base import LEASE, SECOND, SEGFAULT, Conformance, StoreHarness, dies, waits

INSTANT = timedelta(microseconds=1)


def _counts(harness: StoreHarness, key: str = "a") -> tuple[int, int, int]:
    status = harness.document(key)
    return status.attempts, status.crashes, status.losses


class ReclaimConformance(Conformance):
    """Tests of reclaim."""

    def test_a_living_worker_keeps_its_documents(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        assert harness.reclaim() == []
        harness.advance(claim)

    def test_a_document_is_taken_from_a_silent_worker(self, harness: StoreHarness) -> None:
        harness.keep(harness.submit_and_claim(), "1", "2")
        harness.clock.advance(LEASE + INSTANT)
        (orphan,) = harness.reclaim()
        assert orphan == harness.document()
        assert (orphan.state, orphan.holder) == ("waiting", "")
        assert (orphan.code, orphan.reason) == (WORKER_GONE, sentence(WORKER_GONE, worker="ann"))
        assert orphan.checkpoint == Checkpoint(0, "extract", 2, 1)
        assert orphan.due_at == orphan.submitted_at

    def test_reclaimed_documents_are_claimed_before_new_ones(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(INSTANT)
        harness.submit("b", "c")
        begun = harness.claim_one()
        harness.clock.advance(LEASE + INSTANT)
        harness.reclaim()
        assert harness.claim_one(worker=harness.register_worker("bob")).key == begun.key

    def test_a_worker_is_not_silent_until_its_lease_is_over(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.clock.advance(LEASE)
        assert harness.reclaim() == []

    def test_a_heartbeat_keeps_documents_for_another_lease(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.clock.advance(LEASE)
        harness.store.heartbeat(harness.worker)
        harness.clock.advance(LEASE)
        assert harness.reclaim() == []

    def test_each_worker_has_its_own_lease(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.claim(limit=1)
        harness.claim(limit=1, worker=harness.register_worker("bob", lease=LEASE * 3))
        harness.clock.advance(LEASE * 2)
        assert [orphan.key for orphan in harness.reclaim()] == ["a"]
        assert harness.document("b").holder == "bob"

    def test_a_document_is_taken_from_a_worker_known_to_be_gone(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        assert [orphan.key for orphan in harness.reclaim(gone=[harness.worker.id])] == ["a"]
        assert not harness.store.heartbeat(harness.worker)

    def test_a_worker_known_to_be_gone_is_given_up_even_if_it_holds_nothing(self, harness: StoreHarness) -> None:
        assert harness.reclaim(gone=[harness.worker.id]) == []
        assert harness.store.workers() == []

    def test_only_workers_that_are_gone_lose_their_documents(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        mine = harness.claim_one()
        bob = harness.register_worker("bob")
        harness.claim_one(worker=bob)
        assert [orphan.key for orphan in harness.reclaim(gone=[bob.id])] == ["b"]
        harness.advance(mine)

    def test_orphans_are_reclaimed_oldest_first(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        bob = harness.register_worker("bob")
        harness.claim(limit=1, worker=bob)
        harness.claim(limit=1)
        harness.claim(limit=1, worker=bob)
        harness.clock.advance(LEASE * 2)
        assert [orphan.key for orphan in harness.reclaim()] == ["a", "b", "c"]

    def test_a_live_worker_loses_an_overdue_document(self, harness: StoreHarness) -> None:
        harness.submit("a")
        stuck = harness.claim_one(timeouts={"extract": SECOND * 10})
        harness.clock.advance(SECOND * 10)
        assert harness.reclaim() == []
        harness.clock.advance(INSTANT)
        harness.store.heartbeat(harness.worker)
        (orphan,) = harness.reclaim()
        assert (orphan.state, orphan.code) == ("waiting", OVERDUE)
        assert orphan.reason == sentence(OVERDUE, step="extract")
        assert harness.commit(harness.forward(stuck)) == [LOST]

    def test_a_worker_that_lost_an_overdue_document_keeps_the_others(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.claim(limit=1, timeouts={"extract": SECOND})
        other = harness.claim_one()
        harness.clock.advance(SECOND * 2)
        assert [orphan.key for orphan in harness.reclaim()] == ["a"]
        assert harness.store.heartbeat(harness.worker)
        harness.advance(other)

    def test_a_deadline_is_for_the_step_that_names_it(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.claim(timeouts={"chunk": SECOND})
        harness.clock.advance(SECOND * 5)
        assert harness.reclaim() == []

    def test_a_move_sets_the_next_deadline(self, harness: StoreHarness) -> None:
        harness.submit("a")
        claim = harness.claim_one(timeouts={"extract": SECOND * 10})
        harness.clock.advance(SECOND * 9)
        claim = harness.advance(claim, timeout=SECOND * 10)
        harness.clock.advance(SECOND * 9)
        assert harness.reclaim() == []
        harness.clock.advance(SECOND * 2)
        assert [orphan.reason for orphan in harness.reclaim()] == [sentence(OVERDUE, step="chunk")]

    def test_a_move_without_a_deadline_removes_the_last_one(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.advance(harness.claim_one(timeouts={"extract": SECOND}))
        harness.clock.advance(SECOND * 2)
        assert harness.reclaim() == []

    def test_a_claim_without_a_deadline_has_no_earlier_deadline(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.release(harness.claim_one(timeouts={"extract": SECOND}))
        harness.claim_one()
        harness.clock.advance(SECOND * 2)
        assert harness.reclaim() == []

    def test_a_worker_that_crashed_counts_as_a_crash_not_as_an_attempt(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash()
        assert _counts(harness) == (0, 1, 0)
        assert (harness.document().code, harness.document().error) == (WORKER_CRASHED, "WorkerCrashed")
        assert harness.document().reason == sentence(WORKER_CRASHED, worker="victim", step="extract", sign="SIGSEGV")

    def test_a_lost_worker_without_evidence_counts_as_a_loss(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.reclaim(gone=[harness.worker.id])
        assert _counts(harness) == (0, 0, 1)
        assert (harness.document().code, harness.document().error) == (WORKER_GONE, "WorkerGone")

    def test_only_documents_that_were_running_are_charged(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        _, running, _ = harness.claim()
        death = WorkerDeath("memory", "memory ran out", frozenset([running.document_id]))
        harness.reclaim(gone=[harness.worker.id], deaths={harness.worker.id: death})
        assert [_counts(harness, key) for key in "abc"] == [(0, 0, 0), (0, 1, 0), (0, 0, 0)]
        assert [harness.document(key).code for key in "abc"] == [WORKER_GONE, WORKER_CRASHED, WORKER_GONE]

    def test_without_evidence_too_only_documents_that_were_running_are_charged(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        _, running, _ = harness.claim()
        death = WorkerDeath(running=frozenset([running.document_id]))
        harness.reclaim(gone=[harness.worker.id], deaths={harness.worker.id: death})
        assert [_counts(harness, key) for key in "abc"] == [(0, 0, 0), (0, 0, 1), (0, 0, 0)]

    def test_all_documents_are_charged_if_none_was_running(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.claim()
        harness.reclaim(gone=[harness.worker.id], deaths={harness.worker.id: WorkerDeath(running=frozenset())})
        assert [_counts(harness, key) for key in "ab"] == [(0, 0, 1), (0, 0, 1)]

    def test_what_is_known_of_a_death_is_kept_for_other_pipelines(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        gated.submit("a", "b")
        running, _ = gated.claim(worker=harness.worker)
        death = WorkerDeath("exit", "os._exit(3)", frozenset([running.document_id]))
        harness.reclaim(gone=[harness.worker.id], deaths={harness.worker.id: death})
        gated.reclaim()
        assert [_counts(gated, key) for key in "ab"] == [(0, 1, 0), (0, 0, 0)]

    def test_the_death_of_one_worker_says_nothing_about_another(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.claim(limit=1)
        bob = harness.register_worker("bob")
        harness.claim(worker=bob)
        harness.reclaim(gone=[harness.worker.id, bob.id], deaths={bob.id: SEGFAULT})
        assert [_counts(harness, key) for key in "ab"] == [(0, 0, 1), (0, 1, 0)]

    def test_losses_add_up_until_the_document_moves(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.lose(times=3)
        assert _counts(harness) == (0, 0, 3)
        harness.advance(harness.claim_one())
        assert _counts(harness) == (1, 0, 0)

    def test_losses_and_crashes_are_counted_apart(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.lose(times=2)
        harness.crash()
        harness.lose()
        assert _counts(harness) == (0, 1, 3)

    def test_an_overdue_step_counts_as_an_attempt_not_as_a_crash(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.claim(timeouts={"extract": SECOND})
        harness.clock.advance(SECOND * 2)
        harness.reclaim()
        assert (harness.document().attempts, harness.document().crashes) == (1, 0)

    def test_an_overdue_document_of_a_lost_worker_counts_as_a_loss(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.claim(timeouts={"extract": SECOND})
        harness.clock.advance(LEASE * 2)
        (orphan,) = harness.reclaim()
        assert (orphan.reason, orphan.losses) == (sentence(WORKER_GONE, worker="ann"), 1)

    def test_crashes_add_up_until_the_document_moves(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=3)
        assert (harness.document().attempts, harness.document().crashes) == (0, 3)

    def test_a_verdict_may_make_an_orphan_a_dead_letter(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        (orphan,) = harness.reclaim(gone=[harness.worker.id], decide=dies)
        assert (orphan.state, orphan.due_at) == ("dead", None)
        assert orphan.reason == sentence(WORKER_GONE, worker="ann")

    def test_a_verdict_may_park_an_orphan_for_a_person(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        (orphan,) = harness.reclaim(gone=[harness.worker.id], decide=lambda _: OrphanVerdict("paused", SECOND))
        assert (orphan.state, orphan.due_at, orphan.error) == ("paused", None, "WorkerGone")
        assert orphan.reason == sentence(FOR_REVIEW, why=sentence(WORKER_GONE, worker="ann"))
        assert harness.store.wake(harness.plan, who="bob") == 0
        assert harness.store.resume(harness.plan, [claim.document_id], who="cat", reason="it was the machine")
        place = replace(claim.checkpoint, moves=claim.checkpoint.moves + 1)
        assert harness.claim_one(worker=harness.register_worker("bob")).checkpoint == place

    def test_each_parking_of_an_orphan_has_its_own_number(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        (first,) = harness.reclaim(gone=[harness.worker.id], decide=lambda _: OrphanVerdict("paused", SECOND))
        seen = {first.id: first.checkpoint.moves}
        assert harness.store.resume(harness.plan, [*seen], at=seen, who="cat", reason="it was the machine")
        bob = harness.register_worker("bob")
        harness.claim_one(worker=bob)
        harness.reclaim(gone=[bob.id], decide=lambda _: OrphanVerdict("paused", SECOND))
        assert harness.store.resume(harness.plan, [*seen], at=seen, who="eve", reason="an old list") == []
        assert harness.store.reject([*seen], at=seen, who="eve", reason="an old list") == []

    def test_a_verdict_may_let_an_orphan_wait(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.reclaim(gone=[harness.worker.id], decide=lambda _: OrphanVerdict("waiting", SECOND * 5))
        assert harness.store.next_due(harness.plan) == SECOND * 5

    def test_every_orphan_has_its_own_verdict(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, _ = harness.claim()
        harness.advance(first)
        orphans = harness.reclaim(
            gone=[harness.worker.id],
            decide=lambda counts: dies(counts) if counts.step == "chunk" else waits(counts),
        )
        assert [(orphan.key, orphan.state) for orphan in orphans] == [("a", "dead"), ("b", "waiting")]

    def test_a_verdict_is_called_with_the_counts(self, harness: StoreHarness) -> None:
        calls = []

        def listens(counts: OrphanCounts) -> OrphanVerdict:
            calls.append(counts)
            return waits(counts)

        harness.release(harness.submit_and_claim())
        for death in (SEGFAULT, UNKNOWN_DEATH):
            victim = harness.register_worker("victim")
            harness.claim(worker=victim)
            harness.reclaim(gone=[victim.id], deaths={victim.id: death}, decide=listens)
        harness.claim(timeouts={"extract": SECOND})
        harness.clock.advance(SECOND * 2)
        harness.reclaim(decide=listens)
        assert calls == [("extract", 1, 1, 0, "crash"), ("extract", 1, 1, 1, "loss"), ("extract", 2, 1, 1, "attempt")]

    def test_a_verdict_may_name_the_reason_for_a_dead_letter(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.lose(times=2)
        harness.clock.advance(SECOND * 90)
        third = harness.register_worker("third", host="far/boot/ns")
        harness.claim_one(worker=third)
        (orphan,) = harness.reclaim(gone=[third.id], decide=lambda _: OrphanVerdict("dead", code=LOST_TOO_OFTEN))
        assert (orphan.code, orphan.error) == (LOST_TOO_OFTEN, "WorkerGone")
        assert orphan.reason == sentence(
            LOST_TOO_OFTEN,
            times="3 times",
            step="extract",
            where="with victim, third on here, far",
            last=f"the last one, third, sent its last heartbeat at {harness.clock():%Y-%m-%d %H:%M:%S} UTC",
        )

    def test_a_verdict_that_raises_rolls_back_the_reclaim(self, harness: StoreHarness) -> None:
        def broken(*_: object) -> tuple[str, timedelta]:
            raise RuntimeError

        claim = harness.submit_and_claim()
        with pytest.raises(RuntimeError):
            harness.reclaim(gone=[harness.worker.id], decide=broken)  # type: ignore[arg-type]
        assert harness.store.heartbeat(harness.worker)
        harness.advance(claim)

    def test_a_reclaim_is_journalled(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        harness.reclaim(gone=[harness.worker.id])
        (entry,) = harness.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.step, entry.cursor) == ("reclaim", "bob", "extract", 1)
        assert entry.detail == {
            "from": "ann",
            "host": "here",
            "was": "running",
            "state": "waiting",
            "reason": sentence(WORKER_GONE, worker="ann"),
            "counts_as": "loss",
            "attempts": 0,
            "crashes": 0,
            "losses": 1,
        }

    def test_a_crash_is_journalled_with_its_evidence(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash()
        (entry,) = harness.store.journal(harness.document().id)
        assert entry.code == WORKER_CRASHED
        known = {name: entry.detail[name] for name in ("counts_as", "evidence", "sign", "traceback")}
        assert known == {
            "counts_as": "crash",
            "evidence": "signal",
            "sign": "SIGSEGV",
            "traceback": "Fatal Python error: Segmentation fault",
        }

    def test_an_orphan_is_reclaimed_once(self, harness: StoreHarness, other: Store) -> None:
        harness.submit_and_claim()
        harness.clock.advance(LEASE * 2)
        assert len(harness.reclaim()) == 1
        assert other.reclaim(harness.plan, who="cat", decide=waits) == []

    def test_a_document_that_is_orphaned_again_is_reclaimed_again(self, harness: StoreHarness) -> None:
        harness.submit("a")
        for name in ("bob", "cat"):
            harness.claim(worker=harness.register_worker(name))
            harness.clock.advance(LEASE * 2)
            assert [orphan.reason for orphan in harness.reclaim()] == [sentence(WORKER_GONE, worker=name)]

    def test_documents_of_another_pipeline_are_reclaimed_by_their_own(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        gated.submit("a")
        gated.claim(worker=harness.worker)
        harness.submit_and_claim("b")
        harness.clock.advance(LEASE * 2)
        assert [orphan.key for orphan in harness.reclaim()] == ["b"]
        assert gated.document().state == "running"
        assert [orphan.key for orphan in gated.reclaim()] == ["a"]

    def test_a_document_held_by_a_worker_that_was_given_up_is_an_orphan(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        gated.submit("a")
        gated.claim(worker=harness.worker)
        harness.reclaim(gone=[harness.worker.id])
        assert [orphan.reason for orphan in gated.reclaim()] == [sentence(WORKER_GONE, worker="ann")]

    def test_a_clock_that_jumps_forward_costs_claims_but_never_safety(self, harness: StoreHarness) -> None:
        stale = harness.submit_and_claim()
        harness.clock.advance(timedelta(days=365))
        harness.reclaim()
        fresh = harness.claim_one(worker=harness.register_worker("bob"))
        harness.clock.advance(-timedelta(days=365))
        assert harness.commit(harness.forward(stale)) == [LOST]
        harness.advance(fresh)

    def test_a_clock_that_jumps_back_reclaims_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a")
        claim = harness.claim_one(timeouts={"extract": SECOND})
        harness.clock.advance(-timedelta(days=365))
        assert harness.reclaim() == []
        assert harness.store.heartbeat(harness.worker)
        harness.advance(claim)

    def test_a_silent_worker_without_documents_is_stale_and_not_given_up(self, harness: StoreHarness) -> None:
        harness.clock.advance(LEASE * 2)
        assert harness.reclaim() == []
        assert harness.store.workers()[0][2]
        assert harness.store.heartbeat(harness.worker)
