"""Claims: which documents a worker gets, in which order, and how many may be in a step at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.model import Checkpoint
from holdfast.core.reasons import OVERDUE, sentence
from holdfast.core.retry import SUSPECT_LOSSES
from holdfast.stores.protocol import OrphanVerdict, Store
from holdfast.testing.conformance.base import SECOND, SEGFAULT, Conformance, StoreHarness


class ClaimConformance(Conformance):
    """Tests of claim."""

    def test_a_claim_has_everything_that_a_worker_needs(self, harness: StoreHarness) -> None:
        harness.submit("a", payload={"path": "a.pdf"}, fingerprint="f1")
        harness.clock.advance(SECOND)
        claim = harness.claim_one()
        assert claim.document_id == harness.document().id
        assert (claim.batch, claim.key, claim.fingerprint) == ("march", "a", "f1")
        assert claim.payload == {"path": "a.pdf"}
        assert claim.checkpoint == Checkpoint(0, "extract", None, 0)
        assert (claim.attempts, claim.crashes, claim.reuses) == (1, 0, None)
        assert claim.cursor_age == SECOND

    def test_a_claim_says_whether_a_worker_had_the_document_before(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim()
        assert not first.held_before
        harness.release(first, verb="release", costs="nothing")
        assert harness.claim_one().held_before
        harness.submit("a", fingerprint="changed")
        assert not harness.claim_one().held_before

    @pytest.mark.parametrize("end", ["crash", "lose"])
    def test_a_document_that_was_lost_with_its_worker_was_held_before(self, harness: StoreHarness, end: str) -> None:
        harness.submit("a")
        getattr(harness, end)()
        assert harness.claim_one().held_before

    def test_a_document_that_began_again_was_not_held_before(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        harness.release(claim)
        ids = [claim.document_id]
        assert harness.store.rewind_to(harness.plan, ids, to="extract", who="cat", reason="again") == ids
        assert not harness.claim_one().held_before

    def test_a_document_that_was_paused_in_a_step_was_held_before(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim, state="paused", verb="pause", costs="nothing", reason="which page?")
        harness.store.resume(harness.plan, [claim.document_id], who="cat", reason="page 3")
        assert harness.claim_one().held_before

    def test_no_worker_had_a_document_at_the_step_after_its_gate(self, gated: StoreHarness) -> None:
        claim = gated.submit_and_claim()
        gated.park(claim, at="review")
        gated.store.resume(gated.plan, [claim.document_id], who="cat", reason="fine")
        after = gated.claim_one()
        assert not after.held_before
        gated.release(after, verb="release", costs="nothing")
        assert gated.claim_one().held_before

    def test_a_claimed_document_is_running_with_its_worker(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        status = harness.document()
        assert (status.state, status.holder, status.attempts, status.due_at) == ("running", "ann", 1, None)

    def test_a_claimed_document_is_not_claimed_again(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        assert harness.claim() == []
        assert harness.claim(worker=harness.register_worker("bob")) == []

    def test_a_claim_returns_at_most_its_limit(self, harness: StoreHarness) -> None:
        harness.submit(*"abcde")
        assert harness.keys_claimed(limit=2) == ["a", "b"]
        assert harness.keys_claimed(limit=2) == ["c", "d"]
        assert harness.keys_claimed(limit=2) == ["e"]
        assert harness.keys_claimed(limit=2) == []

    def test_a_claim_with_limit_zero_returns_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert harness.claim(limit=0) == []
        assert harness.document().state == "waiting"

    def test_claims_are_ordered_by_priority(self, harness: StoreHarness) -> None:
        harness.submit("low", priority=-1)
        harness.submit("usual")
        harness.submit("high", priority=5)
        assert harness.keys_claimed() == ["high", "usual", "low"]

    def test_a_high_priority_is_served_before_an_older_document(self, harness: StoreHarness) -> None:
        harness.submit("old")
        harness.clock.advance(SECOND * 3600)
        harness.submit("high", priority=1)
        assert [harness.claim_one().key, harness.claim_one().key] == ["high", "old"]

    def test_within_a_priority_the_oldest_comes_first(self, harness: StoreHarness) -> None:
        for key in ("first", "second", "third"):
            harness.submit(key, priority=2)
            harness.clock.advance(SECOND)
        assert [harness.claim_one().key for _ in range(3)] == ["first", "second", "third"]

    def test_documents_due_at_the_same_time_are_claimed_in_the_order_of_submission(self, harness: StoreHarness) -> None:
        harness.submit("z", "m", "a")
        assert harness.keys_claimed() == ["z", "m", "a"]

    def test_a_delayed_document_is_claimed_after_those_due_before_it(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.release(harness.claim_one(), delay=SECOND)
        harness.clock.advance(SECOND * 2)
        assert [harness.claim_one().key, harness.claim_one().key] == ["b", "a"]

    def test_only_due_documents_are_claimed(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), delay=SECOND * 10)
        harness.clock.advance(SECOND * 10 - timedelta(microseconds=1))
        assert harness.claim() == []
        harness.clock.advance(timedelta(microseconds=1))
        assert harness.keys_claimed() == ["a"]

    def test_a_clock_that_jumps_back_makes_documents_wait_longer_and_loses_none(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(-SECOND * 60)
        assert harness.claim() == []
        assert harness.store.next_due(harness.plan) == SECOND * 60
        harness.clock.advance(SECOND * 60)
        assert harness.keys_claimed() == ["a"]

    def test_only_the_requested_batch_is_claimed(self, harness: StoreHarness) -> None:
        harness.submit("a", batch="march")
        harness.submit("b", batch="april")
        assert harness.keys_claimed(batch="april") == ["b"]
        assert harness.keys_claimed(batch="april") == []
        assert harness.keys_claimed() == ["a"]

    def test_an_unknown_batch_has_nothing_to_claim(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert harness.claim(batch="never") == []

    def test_only_documents_of_the_pipeline_are_claimed(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit("a")
        gated.submit("b")
        assert gated.keys_claimed() == ["b"]
        assert harness.keys_claimed() == ["a"]

    @pytest.mark.parametrize("state", ["paused", "dead"])
    def test_a_document_that_is_not_waiting_is_not_claimed(self, harness: StoreHarness, state: str) -> None:
        harness.release(harness.submit_and_claim(), state=state)
        assert harness.claim() == []
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect") == []

    def test_done_and_cancelled_documents_are_not_claimed(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.finish(first)
        harness.store.cancel([second.document_id], who="ann", reason="no")
        assert harness.claim() == []

    def test_the_fence_grows_with_each_claim(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim()
        harness.release(first)
        second = harness.claim_one()
        assert second.fence > first.fence

    def test_a_claim_continues_where_the_last_one_stopped(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2", "3")
        harness.release(claim)
        assert harness.claim_one().checkpoint == Checkpoint(0, "extract", 3, 1)

    @pytest.mark.parametrize("cursor", [0, 7, "page-7", {"next": 3, "done": [[5, 9]]}, [1, "x", None], "ü\x00", 1.5])
    def test_a_cursor_may_be_any_json(self, harness: StoreHarness, cursor: object) -> None:
        claim = harness.submit_and_claim()
        harness.commit(harness.within(claim, cursor))
        assert harness.document().checkpoint.cursor == cursor
        harness.store.retire_worker(harness.worker)
        assert harness.claim_one(worker=harness.register_worker("bob")).checkpoint.cursor == cursor

    def test_the_age_of_a_cursor_is_counted_from_the_last_move(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(SECOND * 5)
        harness.release(harness.keep(claim, "1"))
        harness.clock.advance(SECOND * 7)
        assert harness.claim_one().cursor_age == SECOND * 7

    def test_a_big_claim_returns_every_document(self, harness: StoreHarness) -> None:
        keys = [f"doc-{number:04}" for number in range(700)]
        harness.submit(*keys)
        assert harness.keys_claimed(limit=1000) == keys


class AttemptCountConformance(Conformance):
    """Tests of the counts of attempts and crashes, and of when they are reset."""

    def test_an_attempt_is_counted_at_the_claim(self, harness: StoreHarness) -> None:
        assert harness.submit_and_claim().attempts == 1
        assert harness.document().attempts == 1

    def test_a_failed_attempt_stays_counted(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim())
        assert harness.document().attempts == 1
        assert harness.claim_one().attempts == 2

    def test_an_interruption_is_refunded(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), verb="release", costs="nothing")
        assert harness.document().attempts == 0
        assert harness.claim_one().attempts == 1

    def test_a_crash_is_counted_separately(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), costs="crash")
        assert (harness.document().attempts, harness.document().crashes) == (0, 1)
        claim = harness.claim_one()
        assert (claim.attempts, claim.crashes) == (1, 1)

    def test_a_move_resets_the_count(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), costs="crash")
        harness.release(harness.claim_one())
        claim = harness.claim_one()
        assert (claim.attempts, claim.crashes) == (2, 1)
        harness.advance(claim)
        assert (harness.document().attempts, harness.document().crashes) == (1, 0)

    def test_a_move_within_a_step_resets_the_count(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim())
        harness.keep(harness.claim_one(), "1")
        assert harness.document().attempts == 1

    def test_an_interruption_after_a_move_leaves_no_attempt(self, harness: StoreHarness) -> None:
        harness.release(harness.keep(harness.submit_and_claim(), "1"), verb="release", costs="nothing")
        assert harness.document().attempts == 0

    def test_attempts_are_never_negative(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), costs="nothing")
        harness.release(harness.claim_one(), costs="crash")
        harness.store.retire_worker(harness.worker)
        assert harness.document().attempts == 0


class ClaimSuspectConformance(Conformance):
    """Tests of claims of suspects, and of suspects_due.

    A suspect is a document that crashed its workers, or whose workers were lost many times.
    """

    def test_a_document_that_crashed_once_is_claimed_as_usual(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash()
        assert not harness.store.suspects_due(harness.plan)
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect") == []
        assert harness.claim_one().crashes == 1

    def test_a_suspect_is_claimed_only_if_it_is_asked_for(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        assert harness.claim() == []
        (claim,) = harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect")
        assert (claim.key, claim.crashes) == ("a", 2)

    def test_a_document_that_lost_a_few_workers_is_claimed_as_usual(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.lose(times=SUSPECT_LOSSES - 1)
        assert not harness.store.suspects_due(harness.plan)
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect") == []
        assert harness.claim_one().losses == SUSPECT_LOSSES - 1

    def test_a_document_that_lost_many_workers_is_a_suspect(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.lose(times=SUSPECT_LOSSES)
        assert harness.claim() == []
        assert harness.store.suspects_due(harness.plan)
        (claim,) = harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect")
        assert (claim.key, claim.crashes, claim.losses) == ("a", 0, SUSPECT_LOSSES)
        harness.release(harness.advance(claim))
        assert harness.claim_one().losses == 0

    def test_suspects_are_claimed_one_at_a_time(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.crash(times=2)
        assert len(harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect")) == 1
        assert len(harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect")) == 1
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect") == []

    def test_suspects_of_the_requested_batch_are_claimed(self, harness: StoreHarness) -> None:
        harness.submit("a", batch="march")
        harness.submit("b", batch="april")
        harness.crash(times=2)
        (claim,) = harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect", batch="april")
        assert claim.key == "b"

    def test_a_suspect_of_another_batch_is_not_due(self, harness: StoreHarness) -> None:
        harness.submit("a", batch="march")
        harness.submit("b", batch="april")
        harness.crash()
        harness.finish(harness.claim_one(batch="april"))
        harness.crash()
        assert harness.store.suspects_due(harness.plan)
        assert harness.store.suspects_due(harness.plan, batch="march")
        assert not harness.store.suspects_due(harness.plan, batch="april")
        assert not harness.store.suspects_due(harness.plan, batch="may")

    def test_a_suspect_at_a_step_that_the_plan_lacks_is_not_due(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        later = {name: number for name, number in harness.plan.step_ids.items() if name != "extract"}
        assert not harness.store.suspects_due(replace(harness.plan, step_ids=later))

    def test_a_suspect_is_due_at_its_due_time(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash()
        victim = harness.register_worker("victim")
        harness.claim(worker=victim)
        later = OrphanVerdict("waiting", SECOND)
        harness.reclaim(gone=[victim.id], decide=lambda _: later, deaths={victim.id: SEGFAULT})
        assert not harness.store.suspects_due(harness.plan)
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect") == []
        harness.clock.advance(SECOND)
        assert harness.store.suspects_due(harness.plan)
        assert len(harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect")) == 1

    def test_a_suspect_is_not_due_while_it_is_running(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect")
        assert not harness.store.suspects_due(harness.plan)

    def test_suspects_of_other_pipelines_are_not_claimed(self, harness: StoreHarness, gated: StoreHarness) -> None:
        gated.submit("a")
        gated.crash(times=2)
        assert gated.store.suspects_due(gated.plan)
        assert not harness.store.suspects_due(harness.plan)
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect") == []

    def test_a_suspect_that_moves_is_no_longer_a_suspect(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        (claim,) = harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect")
        harness.release(harness.advance(claim))
        assert harness.claim_one().crashes == 0

    def test_a_suspect_is_overdue_by_its_own_deadline(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect", timeouts={"extract": SECOND})
        harness.clock.advance(SECOND * 2)
        assert [orphan.reason for orphan in harness.reclaim()] == [sentence(OVERDUE, step="extract")]


class ClaimDocumentConformance(Conformance):
    """Tests of claims of one document."""

    def test_a_document_is_claimed_by_its_id(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        (claim,) = harness.store.claim(harness.plan, harness.worker, limit=1, which=harness.document("b").id)
        assert (claim.key, claim.fence, claim.attempts) == ("b", 1, 1)
        assert harness.document("b").holder == "ann"
        assert harness.keys_claimed() == ["a", "c"]

    def test_a_claim_by_id_takes_a_document_that_is_not_due(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim, delay=SECOND)
        assert harness.claim() == []
        (again,) = harness.store.claim(harness.plan, harness.worker, limit=1, which=claim.document_id)
        assert again.fence == claim.fence + 1

    def test_a_claim_by_id_is_limited_to_the_batch(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.submit("b", batch="april")
        number = harness.document("a").id
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which=number, batch="april") == []
        assert len(harness.store.claim(harness.plan, harness.worker, limit=1, which=number, batch="march")) == 1

    def test_a_claim_by_id_takes_a_suspect(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        (claim,) = harness.store.claim(harness.plan, harness.worker, limit=1, which=harness.document("a").id)
        assert claim.crashes == 2

    def test_a_claim_by_id_takes_only_a_waiting_document(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which=claim.document_id) == []
        harness.finish(claim)
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which=claim.document_id) == []
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which=404) == []

    def test_a_claim_by_id_takes_no_document_of_another_pipeline(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        gated.submit("a")
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which=gated.document("a").id) == []

    def test_a_claim_by_id_takes_nothing_for_a_worker_that_was_given_up(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.retire_worker(harness.worker)
        assert harness.store.claim(harness.plan, harness.worker, limit=1, which=harness.document("a").id) == []


class StepLimitConformance(Conformance):
    """Tests of admit."""

    def test_no_more_than_the_limit_are_admitted(self, harness: StoreHarness) -> None:
        harness.submit(*"abcd")
        assert harness.store.admit(harness.plan, "extract", harness.claim(), limit=2) == [True, True, False, False]

    def test_no_more_than_the_limit_are_admitted_over_two_workers(self, harness: StoreHarness, other: Store) -> None:
        harness.submit(*"abcd")
        mine = harness.claim(limit=2)
        theirs = harness.claim(limit=2, worker=harness.register_worker("bob"))
        assert harness.store.admit(harness.plan, "extract", mine, limit=3) == [True, True]
        assert other.admit(harness.plan, "extract", theirs, limit=3) == [True, False]

    def test_an_admitted_document_stays_admitted(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        assert harness.store.admit(harness.plan, "extract", [first], limit=1) == [True]
        assert harness.store.admit(harness.plan, "extract", [second, first], limit=1) == [False, True]

    def test_a_move_within_the_step_keeps_the_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.admit(harness.plan, "extract", [first], limit=1)
        first = harness.keep(first, "1")
        assert harness.store.admit(harness.plan, "extract", [second], limit=1) == [False]

    def test_a_move_to_the_next_step_returns_the_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.admit(harness.plan, "extract", [first], limit=1)
        harness.advance(first)
        assert harness.store.admit(harness.plan, "extract", [second], limit=1) == [True]

    def test_a_release_returns_the_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.admit(harness.plan, "extract", [first], limit=1)
        harness.release(first)
        assert harness.store.admit(harness.plan, "extract", [second], limit=1) == [True]

    def test_a_cancel_returns_the_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.admit(harness.plan, "extract", [first], limit=1)
        harness.store.cancel([first.document_id], who="ann", reason="no")
        assert harness.store.admit(harness.plan, "extract", [second], limit=1) == [True]

    def test_a_reclaim_returns_the_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.store.admit(harness.plan, "extract", [harness.claim_one()], limit=1)
        harness.reclaim(gone=[harness.worker.id])
        bob = harness.register_worker("bob")
        claims = harness.claim(worker=bob)
        assert harness.store.admit(harness.plan, "extract", claims[1:], limit=1) == [True]

    def test_a_reclaimed_document_needs_a_new_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.admit(harness.plan, "extract", [first], limit=1)
        harness.release(first)
        harness.store.admit(harness.plan, "extract", [second], limit=1)
        again = harness.claim_one()
        assert harness.store.admit(harness.plan, "extract", [again], limit=1) == [False]

    def test_a_stale_claim_takes_no_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        stale, second = harness.claim()
        harness.release(stale)
        harness.store.admit(harness.plan, "extract", [stale], limit=1)
        assert harness.store.admit(harness.plan, "extract", [second], limit=1) == [True]

    def test_a_stale_claim_is_not_admitted_and_frees_no_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        stale, second = harness.claim()
        harness.release(stale)
        (again,) = harness.claim()
        assert harness.store.admit(harness.plan, "extract", [stale, again], limit=1) == [False, True]
        assert harness.store.admit(harness.plan, "extract", [stale, second], limit=1) == [False, False]
        assert harness.store.admit(harness.plan, "extract", [again], limit=1) == [True]

    def test_each_step_has_its_own_permits(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        second = harness.advance(second)
        assert harness.store.admit(harness.plan, "extract", [first], limit=1) == [True]
        assert harness.store.admit(harness.plan, "chunk", [second], limit=1) == [True]

    def test_a_raised_limit_admits_more(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        claims = harness.claim()
        assert harness.store.admit(harness.plan, "extract", claims, limit=1) == [True, False]
        assert harness.store.admit(harness.plan, "extract", claims, limit=2) == [True, True]

    def test_a_lowered_limit_takes_no_permit_back(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        *inside, outside = harness.claim()
        harness.store.admit(harness.plan, "extract", inside, limit=2)
        assert harness.store.admit(harness.plan, "extract", [*inside, outside], limit=1) == [True, True, False]

    def test_admitting_no_claims_returns_nothing(self, harness: StoreHarness) -> None:
        assert harness.store.admit(harness.plan, "extract", [], limit=1) == []
