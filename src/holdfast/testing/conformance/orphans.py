"""Orphans: documents whose worker is silent or stuck are found, and each is resolved once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.model import Checkpoint, State
from holdfast.core.moves import LOST
from holdfast.core.orphans import GRACE, Orphan, Strategy
from holdfast.core.reasons import FOR_REVIEW, ORPHAN_OVERDUE, ORPHAN_SILENT, ORPHAN_STUCK, WORKER_CRASHED, sentence
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, SEGFAULT, Conformance, StoreHarness

INSTANT = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)


def _scan(harness: StoreHarness, *, grace: timedelta = GRACE, **more: object) -> list[Orphan]:
    return harness.store.orphans("papers", grace=grace, **more)  # type: ignore[arg-type]


def _found(harness: StoreHarness, **more: object) -> list[str]:
    return [orphan.document.key for orphan in _scan(harness, **more)]  # type: ignore[arg-type]


def _resolve(harness: StoreHarness, *orphans: Orphan, strategy: Strategy = "requeue") -> list[str]:
    taken = harness.store.resolve_orphans(orphans, strategy=strategy, who="cat", reason="the night shift ended")
    return [status.key for status in taken]


def _orphaned(harness: StoreHarness, key: str = "a") -> Orphan:
    """Submit a document, claim it, and move the clock past the grace without a heartbeat."""
    harness.submit(key)
    harness.claim_one(worker=harness.register_worker("bob"))
    harness.clock.advance(GRACE + INSTANT)
    harness.store.heartbeat(harness.worker)
    (orphan,) = _scan(harness)
    return orphan


class OrphansConformance(Conformance):
    """Tests of orphans."""

    def test_a_document_of_a_silent_worker_is_an_orphan_after_the_grace(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        began = harness.clock()
        harness.clock.advance(GRACE)
        assert _scan(harness) == []
        harness.clock.advance(INSTANT)
        (orphan,) = _scan(harness)
        assert (orphan.document, orphan.sign, orphan.since, orphan.alive) == (
            harness.document(),
            "silent",
            began,
            False,
        )
        assert orphan.why == sentence(ORPHAN_SILENT, worker="ann", since=f"{began:%Y-%m-%d %H:%M:%S} UTC")

    def test_a_document_that_died_in_its_first_step_is_found(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.clock.advance(GRACE * 2)
        assert [(orphan.document.key, orphan.document.checkpoint.moves) for orphan in _scan(harness)] == [("a", 0)]

    def test_the_grace_of_a_silent_worker_counts_from_its_last_heartbeat(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.clock.advance(MINUTE)
        harness.store.heartbeat(harness.worker)
        beat = harness.clock()
        harness.clock.advance(GRACE)
        (orphan,) = _scan(harness)  # its worker is silent, and it has not moved for longer than the grace
        assert (orphan.sign, orphan.since) == ("silent", beat)
        assert _scan(harness, grace=GRACE + MINUTE) == []

    def test_a_worker_within_its_lease_is_not_silent_however_short_the_grace(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.clock.advance(LEASE)
        assert [orphan.sign for orphan in _scan(harness, grace=SECOND)] == ["stuck"]
        harness.clock.advance(INSTANT)
        assert [orphan.sign for orphan in _scan(harness, grace=SECOND)] == ["silent"]

    def test_a_document_of_a_worker_known_to_be_gone_is_an_orphan_within_the_lease(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.clock.advance(SECOND * 2)
        assert [orphan.sign for orphan in _scan(harness, grace=SECOND, gone=[harness.worker.id])] == ["silent"]
        assert _scan(harness, gone=[harness.worker.id]) == []

    def test_a_document_of_a_worker_that_was_given_up_is_an_orphan(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        harness.submit_and_claim()
        gated.reclaim(gone=[harness.worker.id])
        harness.clock.advance(SECOND * 2)
        assert [orphan.alive for orphan in _scan(harness, grace=SECOND)] == [False]

    def test_an_overdue_document_of_a_living_worker_is_an_orphan(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.claim_one(timeouts={"extract": MINUTE})
        deadline = harness.clock() + MINUTE
        harness.clock.advance(MINUTE + GRACE + INSTANT)
        harness.store.heartbeat(harness.worker)
        (orphan,) = _scan(harness)
        assert (orphan.sign, orphan.since, orphan.alive) == ("overdue", deadline, True)
        assert orphan.why == sentence(ORPHAN_OVERDUE, step="extract", since=f"{deadline:%Y-%m-%d %H:%M:%S} UTC")

    def test_a_document_without_progress_is_an_orphan_though_its_worker_lives(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(GRACE)
        harness.keep(claim, "1")
        moved = harness.clock()
        harness.clock.advance(GRACE)
        harness.store.heartbeat(harness.worker)
        assert _scan(harness) == []
        harness.clock.advance(INSTANT)
        (orphan,) = _scan(harness)
        assert (orphan.sign, orphan.since, orphan.alive) == ("stuck", moved, True)
        assert orphan.why == sentence(ORPHAN_STUCK, step="extract", duration="2 h 00 min")

    def test_a_claim_is_a_sign_of_life(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(GRACE * 2)
        harness.store.heartbeat(harness.worker)
        harness.claim()
        assert _scan(harness) == []

    def test_only_running_documents_can_be_orphans(self, harness: StoreHarness) -> None:
        harness.submit(*"abcde")
        a, b, c, d = harness.claim(limit=4)
        harness.finish(a)
        harness.make_dead(b)
        harness.release(c, state="paused")
        harness.store.cancel([d.document_id], who="cat", reason="no")
        harness.clock.advance(GRACE * 2)
        assert _scan(harness) == []

    def test_orphans_are_searched_by_pipeline_and_batch(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit("a", batch="march")
        harness.submit("b", batch="april")
        gated.submit("c")
        harness.claim()
        gated.claim(worker=harness.worker)
        harness.clock.advance(GRACE * 2)
        assert _found(harness) == ["a", "b"]
        assert _found(harness, batch="april") == ["b"]
        assert _found(harness, batch="may") == []
        assert harness.store.orphans("nothing") == []

    def test_a_clock_that_jumps_back_makes_no_orphans(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.claim_one(timeouts={"extract": SECOND})
        harness.clock.advance(-timedelta(days=365))
        assert _scan(harness) == []

    def test_searching_for_orphans_changes_nothing(self, harness: StoreHarness) -> None:
        orphan = _orphaned(harness)
        assert _scan(harness) == [orphan]
        assert harness.document() == orphan.document
        assert harness.store.journal(orphan.document.id) == []


class ResolveOrphansConformance(Conformance):
    """Tests of resolve_orphans."""

    @pytest.mark.parametrize(
        ("strategy", "state"), [("requeue", "waiting"), ("fail", "dead"), ("review", "paused")], ids=str
    )
    def test_a_strategy_decides_the_state_of_an_orphan(
        self, harness: StoreHarness, strategy: Strategy, state: State
    ) -> None:
        orphan = _orphaned(harness)
        (status,) = harness.store.resolve_orphans([orphan], strategy=strategy, who="cat", reason="it burns")
        assert status == harness.document()
        assert (status.state, status.holder, status.error) == (state, "", "WorkerGone")
        was = orphan.document.checkpoint
        assert status.checkpoint == replace(was, moves=was.moves + (state == "paused"))
        assert status.due_at == (status.submitted_at if state == "waiting" else None)
        why = f"{orphan.why} (it burns)"
        assert status.reason == (sentence(FOR_REVIEW, why=why) if state == "paused" else why)

    def test_a_resolved_orphan_is_one_line_in_the_journal(self, harness: StoreHarness) -> None:
        orphan = _orphaned(harness)
        _resolve(harness, orphan, strategy="review")
        (entry,) = harness.store.journal(orphan.document.id)
        assert (entry.verb, entry.who, entry.step, entry.at) == ("reclaim", "cat", "extract", harness.clock())
        assert entry.detail == {
            "from": "bob",
            "host": "here",
            "was": "running",
            "state": "paused",
            "reason": "the night shift ended",
            "found": orphan.why,
            "counts_as": "loss",
            "attempts": 0,
            "crashes": 0,
            "losses": 1,
        }

    def test_each_review_of_an_orphan_has_its_own_parking_number(self, harness: StoreHarness) -> None:
        _resolve(harness, _orphaned(harness), strategy="review")
        seen = {harness.document().id: harness.document().checkpoint.moves}
        assert harness.store.resume(harness.plan, [*seen], at=seen, who="cat", reason="it was the machine")
        harness.claim_one(worker=harness.register_worker("dan"))
        harness.clock.advance(GRACE + INSTANT)
        _resolve(harness, *_scan(harness), strategy="review")
        assert harness.store.resume(harness.plan, [*seen], at=seen, who="eve", reason="an old list") == []
        assert harness.store.reject([*seen], at=seen, who="eve", reason="an old list") == []
        assert harness.document().state == "paused"

    def test_without_a_reason_the_cause_of_the_orphan_is_the_reason(self, harness: StoreHarness) -> None:
        orphan = _orphaned(harness)
        harness.store.resolve_orphans([orphan], strategy="fail", who="cat", reason="")
        assert harness.document().reason == orphan.why
        assert harness.store.journal(orphan.document.id)[0].detail["reason"] == orphan.why

    def test_a_resolved_orphan_continues_at_its_checkpoint(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        harness.clock.advance(GRACE * 2)
        assert _resolve(harness, *_scan(harness)) == ["a"]
        again = harness.claim_one(worker=harness.register_worker("bob"))
        assert again.checkpoint == Checkpoint(0, "extract", 2, 1)
        assert harness.items(claim) == [("extract", 0, "1"), ("extract", 1, "2")]

    def test_the_worker_that_lost_an_orphan_cannot_write(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(GRACE * 2)
        _resolve(harness, *_scan(harness), strategy="review")
        before = harness.document()
        assert harness.store.heartbeat(harness.worker)
        assert harness.commit(harness.forward(claim)) == [LOST]
        assert not harness.release(claim)
        assert not harness.store.rewind(harness.plan, claim, to="extract", who="bob", reason="why")
        assert harness.document() == before

    def test_the_old_claim_cannot_write_an_orphan_that_its_worker_claimed_again(self, harness: StoreHarness) -> None:
        stale = harness.submit_and_claim()
        harness.clock.advance(GRACE * 2)
        _resolve(harness, *_scan(harness))
        fresh = harness.claim_one()
        assert harness.commit(harness.forward(stale)) == [LOST]
        harness.advance(fresh)

    def test_a_lost_worker_counts_as_a_loss_and_a_stuck_step_as_an_attempt(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.claim(limit=1)
        harness.claim(limit=1, worker=harness.register_worker("bob"))
        harness.clock.advance(GRACE * 2)
        harness.store.heartbeat(harness.worker)
        _resolve(harness, *_scan(harness))
        counted = [(status.attempts, status.losses, status.error) for status in map(harness.document, "ab")]
        assert counted == [(1, 0, "NoProgress"), (0, 1, "WorkerGone")]

    def test_a_worker_that_crashed_counts_as_a_crash_in_a_scan_too(self, harness: StoreHarness) -> None:
        orphan = _orphaned(harness)
        deaths = {worker.id: SEGFAULT for worker, _, _ in harness.store.workers()}
        (here,) = harness.store.resolve_orphans([orphan], strategy="requeue", who="cat", reason="", deaths=deaths)
        assert (here.attempts, here.crashes, here.losses) == (0, 1, 0)
        assert (here.code, here.error, here.reason) == (WORKER_CRASHED, "WorkerCrashed", orphan.why)

    def test_an_orphan_is_resolved_once(self, harness: StoreHarness, other: Store) -> None:
        orphan = _orphaned(harness)
        assert _resolve(harness, orphan, orphan) == ["a"]
        assert other.resolve_orphans([orphan], strategy="fail", who="dan", reason="again") == []
        assert harness.document().state == "waiting"
        assert [entry.verb for entry in harness.store.journal(orphan.document.id)] == ["reclaim"]

    def test_an_orphan_that_was_reclaimed_meanwhile_is_not_resolved(self, harness: StoreHarness) -> None:
        orphan = _orphaned(harness)
        harness.reclaim()
        fresh = harness.claim_one()
        assert _resolve(harness, orphan) == []
        harness.advance(fresh)

    def test_an_orphan_that_its_live_worker_released_and_claimed_again_is_not_resolved(
        self, harness: StoreHarness
    ) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(GRACE * 2)
        harness.store.heartbeat(harness.worker)
        (orphan,) = _scan(harness)
        harness.release(claim)
        again = harness.claim_one()
        assert _resolve(harness, orphan) == []
        harness.advance(again)

    def test_an_orphan_that_moved_meanwhile_is_not_resolved(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(GRACE * 2)
        harness.store.heartbeat(harness.worker)
        (orphan,) = _scan(harness)
        harness.keep(claim, "1")
        assert _resolve(harness, orphan) == []
        assert harness.document().state == "running"

    def test_an_orphan_whose_silent_worker_sent_a_heartbeat_is_not_resolved(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(GRACE * 2)
        (orphan,) = _scan(harness)
        harness.store.heartbeat(harness.worker)
        assert _resolve(harness, orphan) == []
        harness.advance(claim)

    def test_a_heartbeat_by_a_clock_that_jumped_back_counts(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(GRACE * 2)
        (orphan,) = _scan(harness)
        harness.clock.advance(-GRACE * 3)
        harness.store.heartbeat(harness.worker)
        assert _resolve(harness, orphan) == []
        harness.advance(claim)

    def test_an_orphan_that_was_cancelled_meanwhile_stays_cancelled(self, harness: StoreHarness) -> None:
        orphan = _orphaned(harness)
        harness.store.cancel([orphan.document.id], who="dan", reason="no")
        assert _resolve(harness, orphan) == []
        assert harness.document().state == "cancelled"

    def test_only_documents_that_are_still_orphans_are_resolved(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        claims = harness.claim()
        harness.clock.advance(GRACE * 2)
        harness.store.heartbeat(harness.worker)
        orphans = _scan(harness)
        harness.keep(claims[1], "1")
        assert _resolve(harness, *reversed(orphans)) == ["a", "c"]
        assert [harness.document(key).state for key in "abc"] == ["waiting", "running", "waiting"]

    def test_resolving_no_orphans_does_nothing(self, harness: StoreHarness) -> None:
        assert _resolve(harness) == []

    def test_a_resolved_orphan_leaves_the_limit_of_its_step(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        assert harness.store.admit(harness.plan, "extract", [claim], limit=1) == [True]
        harness.clock.advance(GRACE * 2)
        _resolve(harness, *_scan(harness))
        bob = harness.register_worker("bob")
        assert harness.store.admit(harness.plan, "extract", [harness.claim_one(worker=bob)], limit=1) == [True]
