"""Decisions about single documents: resume, reject, cancel and redrive by people, wake by the clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.document import decided_at_gate
from holdfast.core.model import Checkpoint, Claim, Item
from holdfast.core.moves import LOST, rewound
from holdfast.core.plan import Shape, StepShape
from holdfast.core.reasons import WOKEN, sentence
from holdfast.testing.conformance.base import REVIEWS, SECOND, Conformance, StoreHarness


def _resume(harness: StoreHarness, claim: Claim) -> bool:
    return harness.store.resume(harness.plan, [claim.document_id], who="cat", reason="looks good") == [
        claim.document_id
    ]


def _at_review(gated: StoreHarness) -> Claim:
    """Return a document that is parked at the first gate."""
    claim = gated.submit_and_claim()
    gated.park(claim, at="review")
    return claim


def _at_sign(gated: StoreHarness) -> Claim:
    """Return a document that is parked at the last gate."""
    claim = _at_review(gated)
    _resume(gated, claim)
    gated.park(gated.claim_one(), at="sign")
    return claim


class ResumeAndRejectConformance(Conformance):
    """Tests of resume and reject, at gates and elsewhere."""

    def test_a_resumed_document_continues_where_it_was(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        harness.release(claim, state="paused", reason="ask ann")
        harness.clock.advance(SECOND)
        assert _resume(harness, claim)
        status = harness.document()
        assert (status.state, status.reason, status.due_at) == ("waiting", "", harness.clock())
        assert status.checkpoint == Checkpoint(0, "extract", 2, 2)

    def test_the_age_of_a_cursor_grows_while_its_document_is_paused(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        moved_at = harness.clock()
        harness.release(claim, state="paused", reason="ask ann")
        harness.clock.advance(SECOND * 3600)
        assert _resume(harness, claim)
        assert harness.document().moved_at == moved_at
        assert harness.claim_one().cursor_age == SECOND * 3600

    @pytest.mark.parametrize("reason", ["gate keeper is ill", "gate extract: a person has to decide", "gate "])
    def test_a_body_that_paused_resumes_at_its_own_step_whatever_its_reason_says(
        self, harness: StoreHarness, reason: str
    ) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim, state="paused", verb="pause", reason=reason)
        assert _resume(harness, claim)
        assert harness.document().checkpoint.step == "extract"

    def test_a_resumed_document_moves_past_its_gate(self, gated: StoreHarness) -> None:
        claim = _at_review(gated)
        gated.clock.advance(SECOND)
        assert _resume(gated, claim)
        status = gated.document()
        assert (status.state, status.reason, status.due_at, status.moved_at) == (
            "waiting",
            "",
            gated.clock(),
            gated.clock(),
        )
        assert status.checkpoint == Checkpoint(0, "file", None, 2)

    def test_a_document_released_at_a_gate_moves_past_it_too(self, gated: StoreHarness) -> None:
        claim = gated.advance(gated.submit_and_claim())
        gated.release(claim, state="paused", verb="pause", reason="parked", costs="nothing")
        assert _resume(gated, claim)
        assert gated.document().checkpoint.step == "file"

    def test_a_document_resumed_at_the_last_gate_is_done(self, gated: StoreHarness) -> None:
        claim = _at_sign(gated)
        assert _resume(gated, claim)
        status = gated.document()
        assert (status.state, status.due_at, status.reason) == ("done", None, "")
        assert status.checkpoint == Checkpoint(0, None, None, 4)
        assert gated.balance().done == 1

    def test_a_document_done_past_a_gate_drops_the_items_of_earlier_generations(self, gated: StoreHarness) -> None:
        claim = gated.submit_and_claim()
        claim = gated.advance(claim, items=[Item("read", 0, "1")])
        assert gated.store.rewind(gated.plan, claim, to="read", who="ann", reason="why")
        claim = rewound(claim, to="read", steps=[*gated.plan.step_ids])
        gated.park(claim, at="review")
        _resume(gated, claim)
        gated.park(gated.claim_one(), at="sign")
        read = gated.plan.step_ids["read"]
        assert gated.store.read(claim.document_id, 0, read, 0, 9) == [(0, "1")]
        _resume(gated, claim)
        assert gated.store.read(claim.document_id, 0, read, 0, 9) == []

    def test_a_document_done_past_a_gate_keeps_its_reused_items(self, gated: StoreHarness) -> None:
        claim = gated.advance(gated.submit_and_claim(), items=[Item("read", 0, "1")])
        assert gated.store.rewind(gated.plan, claim, to="review", who="ann", reason="why")
        claim = rewound(claim, to="review", steps=[*gated.plan.step_ids])
        gated.release(claim, state="paused")
        _resume(gated, claim)
        gated.park(gated.claim_one(), at="sign")
        _resume(gated, claim)
        assert gated.document().state == "done"
        assert gated.items(claim) == [("read", 0, "1")]

    def test_a_resume_is_journalled_at_the_step_of_the_document(self, gated: StoreHarness) -> None:
        claim = _at_review(gated)
        _resume(gated, claim)
        (entry,) = gated.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.step, entry.detail) == (
            "resume",
            "cat",
            "review",
            {"reason": "looks good", "was": "paused", "state": "waiting"},
        )

    def test_decisions_at_a_gate_follow_its_new_name(self, gated: StoreHarness, harness: StoreHarness) -> None:
        gated.park(claim := gated.submit_and_claim(), at="review")
        gated.store.resume(gated.plan, [claim.document_id], who="cat", reason="fine", answer=7)
        other = harness.submit_and_claim()
        read, review, file, sign = REVIEWS.steps
        now = Shape("reviews", (read, replace(review, name="legal"), file, sign), {"review": "legal"})
        gated.store.check(now)
        assert decided_at_gate(gated.store.journal(claim.document_id), "review", 0) is not None
        gated.store.declare(now)
        gated.store.declare(now)
        decision = decided_at_gate(gated.store.journal(claim.document_id), "legal", 0)
        assert decision is not None
        assert (decision.who, decision.answer) == ("cat", 7)
        assert harness.store.journal(other.document_id) == []

    def test_journal_lines_of_a_step_of_the_same_name_in_another_pipeline_stay(
        self, gated: StoreHarness, harness: StoreHarness
    ) -> None:
        harness.release(claim := harness.submit_and_claim())
        gated.store.declare(Shape("others", (StepShape("extract", "value"),)))
        gated.store.declare(Shape("others", (StepShape("pull", "value"),), {"extract": "pull"}))
        assert [line.step for line in harness.store.journal(claim.document_id)] == ["extract"]

    def test_only_a_paused_document_is_resumed(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        assert not _resume(harness, claim)
        harness.release(claim)
        assert not _resume(harness, claim)
        harness.finish(harness.claim_one())
        assert not _resume(harness, claim)
        assert harness.verbs(claim) == ["fail"]

    def test_a_document_is_resumed_once(self, gated: StoreHarness) -> None:
        claim = _at_review(gated)
        assert _resume(gated, claim)
        assert not _resume(gated, claim)
        assert gated.document().checkpoint.step == "file"

    def test_an_unknown_document_cannot_be_decided(self, harness: StoreHarness) -> None:
        unknown_id = 10**9
        assert not harness.store.resume(harness.plan, [unknown_id], who="cat", reason="why")
        assert not harness.store.reject([unknown_id], who="cat", reason="why")
        assert not harness.store.cancel([unknown_id], who="cat", reason="why")
        assert not harness.store.redrive([unknown_id], who="cat", reason="why")

    def test_a_worker_that_paused_a_document_cannot_move_it(self, gated: StoreHarness) -> None:
        claim = gated.submit_and_claim()
        gated.park(claim, at="review")
        _resume(gated, claim)
        assert gated.commit(gated.forward(claim)) == [LOST]

    def test_a_rejected_document_is_a_dead_letter(self, gated: StoreHarness) -> None:
        claim = _at_review(gated)
        assert gated.store.reject([claim.document_id], who="cat", reason="off topic")
        status = gated.document()
        assert (status.state, status.reason, status.due_at) == ("dead", "off topic", None)
        assert status.checkpoint.step == "review"
        assert gated.verbs(claim) == ["reject"]

    def test_only_a_paused_document_is_rejected(self, gated: StoreHarness) -> None:
        claim = gated.submit_and_claim()
        assert not gated.store.reject([claim.document_id], who="cat", reason="off topic")
        gated.release(claim)
        assert not gated.store.reject([claim.document_id], who="cat", reason="off topic")
        assert gated.verbs(claim) == ["fail"]

    def test_a_rejected_document_is_at_its_gate_again_after_a_redrive(self, gated: StoreHarness) -> None:
        claim = _at_review(gated)
        gated.store.reject([claim.document_id], who="cat", reason="off topic")
        assert gated.store.redrive([claim.document_id], who="cat", reason="after all")
        assert gated.claim_one().checkpoint.step == "review"


class CancelConformance(Conformance):
    """Tests of cancel."""

    @pytest.mark.parametrize("state", ["waiting", "running", "paused"])
    def test_an_open_document_is_cancelled(self, harness: StoreHarness, state: str) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        if state != "running":
            harness.release(claim, state=state)
        assert harness.store.cancel([claim.document_id], who="cat", reason="withdrawn")
        status = harness.document()
        assert (status.state, status.reason, status.holder, status.due_at) == ("cancelled", "withdrawn", "", None)
        assert status.checkpoint == Checkpoint(0, "extract", 1, 2 if state == "paused" else 1)
        assert harness.balance().cancelled == 1

    def test_cancelling_takes_a_document_from_its_worker(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.store.cancel([claim.document_id], who="cat", reason="withdrawn")
        assert harness.commit(harness.forward(claim)) == [LOST]
        assert not harness.release(claim)
        assert not harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="why")
        assert harness.store.heartbeat(harness.worker)

    def test_a_cancel_is_journalled(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        harness.store.cancel([claim.document_id], who="cat", reason="withdrawn")
        (entry,) = harness.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.step, entry.cursor) == ("cancel", "cat", "extract", 1)
        assert entry.detail == {"reason": "withdrawn", "was": "running", "state": "cancelled"}

    def test_a_finished_document_is_not_cancelled(self, harness: StoreHarness) -> None:
        harness.submit("done", "dead", "gone")
        done, dead, gone = harness.claim()
        harness.finish(done)
        harness.make_dead(dead)
        harness.store.cancel([gone.document_id], who="cat", reason="withdrawn")
        for claim in (done, dead, gone):
            assert not harness.store.cancel([claim.document_id], who="cat", reason="again")
        assert [harness.document(key).state for key in ("done", "dead", "gone")] == ["done", "dead", "cancelled"]

    def test_a_cancelled_document_is_never_overdue(self, harness: StoreHarness) -> None:
        harness.submit("a")
        claim = harness.claim_one(timeouts={"extract": SECOND})
        harness.store.cancel([claim.document_id], who="cat", reason="withdrawn")
        harness.clock.advance(SECOND * 5)
        assert harness.reclaim(gone=[harness.worker.id]) == []


class RedriveConformance(Conformance):
    """Tests of redrive."""

    def test_a_redriven_dead_letter_continues_at_its_checkpoint(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        harness.make_dead(claim)
        harness.clock.advance(SECOND)
        assert harness.store.redrive([claim.document_id], who="cat", reason="the parser is mended")
        status = harness.document()
        assert (status.state, status.reason, status.attempts, status.due_at) == ("waiting", "", 0, harness.clock())
        assert status.checkpoint == Checkpoint(0, "extract", 2, 1)
        assert harness.items(claim) == [("extract", 0, "1"), ("extract", 1, "2")]

    def test_a_redriven_document_keeps_its_items(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        harness.make_dead(claim)
        harness.store.redrive([claim.document_id], who="cat", reason="why")
        again = harness.keep(harness.claim_one(), "2", start=1)
        assert harness.items(again) == [("extract", 0, "1"), ("extract", 1, "2")]

    def test_a_redrive_resets_attempts_and_crashes(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        (claim,) = harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect")
        harness.make_dead(claim)
        harness.store.redrive([claim.document_id], who="cat", reason="why")
        assert harness.claim_one().crashes == 0

    def test_a_redrive_is_added_to_the_journal(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.make_dead(claim)
        harness.store.redrive([claim.document_id], who="cat", reason="why")
        assert harness.verbs(claim) == ["fail", "redrive"]
        detail = {"reason": "why", "was": "dead", "state": "waiting"}
        assert harness.store.journal(claim.document_id)[1].detail == detail

    def test_only_a_dead_letter_is_redriven(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        assert not harness.store.redrive([claim.document_id], who="cat", reason="why")
        harness.store.cancel([claim.document_id], who="cat", reason="no")
        assert not harness.store.redrive([claim.document_id], who="cat", reason="why")
        assert harness.verbs(claim) == ["cancel"]

    def test_the_worker_that_failed_a_document_cannot_move_it_after_a_redrive(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.make_dead(claim)
        harness.store.redrive([claim.document_id], who="cat", reason="why")
        harness.claim_one(worker=harness.register_worker("bob"))
        assert harness.commit(harness.forward(claim)) == [LOST]


class WakeConformance(Conformance):
    """Tests of wake."""

    def test_a_paused_document_wakes_at_its_due_time(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        harness.release(claim, state="paused", reason="office hours", until=harness.clock() + timedelta(hours=1))
        harness.clock.advance(timedelta(hours=1) - timedelta(microseconds=1))
        assert harness.store.wake(harness.plan, who="bob") == 0
        harness.clock.advance(timedelta(microseconds=1))
        assert harness.store.wake(harness.plan, who="bob") == 1
        status = harness.document()
        assert (status.state, status.reason) == ("waiting", "")
        assert status.checkpoint == Checkpoint(0, "extract", 1, 2)
        assert harness.claim_one().checkpoint.cursor == 1

    def test_a_document_paused_without_a_date_does_not_wake(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), state="paused", reason="ask ann")
        harness.clock.advance(timedelta(days=10_000))
        assert harness.store.wake(harness.plan, who="bob") == 0

    def test_a_document_at_a_gate_does_not_wake(self, gated: StoreHarness) -> None:
        _at_review(gated)
        gated.clock.advance(timedelta(days=10_000))
        assert gated.store.wake(gated.plan, who="bob") == 0

    def test_documents_of_another_pipeline_are_not_woken(self, harness: StoreHarness, gated: StoreHarness) -> None:
        gated.release(gated.submit_and_claim(), state="paused", until=gated.clock())
        assert harness.store.wake(harness.plan, who="bob") == 0
        assert gated.store.wake(gated.plan, who="bob") == 1

    def test_a_document_may_be_resumed_before_its_due_time(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim, state="paused", until=harness.clock() + timedelta(hours=1))
        assert _resume(harness, claim)
        assert harness.keys_claimed() == ["a"]

    def test_a_wake_is_journalled(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        harness.release(claim, state="paused", verb="pause", reason="office hours", until=harness.clock() + SECOND)
        harness.clock.advance(2 * SECOND)
        harness.store.wake(harness.plan, who="holdfast")
        line = harness.store.journal(claim.document_id)[-1]
        assert (line.at, line.verb, line.who) == (harness.clock(), "wake", "holdfast")
        assert (line.generation, line.step, line.cursor) == (0, "extract", 1)
        assert line.detail == {"reason": sentence(WOKEN), "was": "paused", "state": "waiting"}

    def test_many_documents_are_woken_in_slices_the_longest_overdue_first(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        for claim, hours in zip(harness.claim(), (3, 1, 2), strict=True):
            harness.release(claim, state="paused", until=harness.clock() + timedelta(hours=hours))
        harness.clock.advance(timedelta(hours=4))
        assert harness.store.wake(harness.plan, who="bob", limit=2) == 2
        assert [harness.document(key).state for key in "abc"] == ["paused", "waiting", "waiting"]
        assert [harness.store.wake(harness.plan, who="bob", limit=2) for _ in range(2)] == [1, 0]
        assert [len(harness.store.journal(harness.document(key).id)) for key in "abc"] == [2, 2, 2]

    def test_a_second_wake_wakes_nothing(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), state="paused", until=harness.clock())
        assert harness.store.wake(harness.plan, who="bob") == 1
        assert harness.store.wake(harness.plan, who="bob") == 0
