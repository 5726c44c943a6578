"""Gates and holds: a decision is made once, and only at the checkpoint that the reviewer saw."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.model import Checkpoint, Claim
from holdfast.core.plan import Shape
from holdfast.core.reasons import AT_GATE, ON_HOLD, sentence
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import LEASE, PAPERS, REVIEWS, SECOND, Conformance, StoreHarness
from holdfast.testing.conformance.bulk_decisions import WHO


def _parked(gated: StoreHarness) -> tuple[Claim, dict[int, int]]:
    """Return a document at the first gate, as a reviewer sees it."""
    claim = gated.submit_and_claim()
    gated.park(claim, at="review")
    return claim, {claim.document_id: gated.document().checkpoint.moves}


class GateDecisionConformance(Conformance):
    """Tests of resume, reject, overdue_at_gate and set_gate_deadline for documents at gates."""

    def test_the_first_of_two_reviewers_decides(self, gated: StoreHarness) -> None:
        claim, seen = _parked(gated)
        assert gated.store.reject([*seen], at=seen, who="cat", reason="off topic")
        assert gated.store.resume(gated.plan, [*seen], at=seen, who="dan", reason="fine") == []
        assert gated.verbs(claim) == ["reject"]

    def test_an_approval_of_one_gate_never_passes_the_next(self, gated: StoreHarness) -> None:
        _, seen = _parked(gated)
        assert gated.store.resume(gated.plan, [*seen], at=seen, **WHO)
        gated.park(gated.claim_one(), at="sign")
        assert gated.store.resume(gated.plan, [*seen], at=seen, **WHO) == []
        assert gated.store.reject([*seen], at=seen, **WHO) == []
        assert gated.document().checkpoint.step == "sign"

    def test_an_approval_of_changed_content_has_no_effect(self, gated: StoreHarness) -> None:
        _, seen = _parked(gated)
        gated.submit("a", fingerprint="changed")
        gated.park(gated.claim_one(), at="review")
        assert gated.store.resume(gated.plan, [*seen], at=seen, **WHO) == []
        assert gated.document().state == "paused"

    def test_an_answer_is_for_the_question_that_was_seen(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), state="paused", verb="pause", reason="which page?")
        seen = {harness.document().id: harness.document().checkpoint.moves}
        assert harness.store.resume(harness.plan, [*seen], at=seen, answer=7, **WHO)
        harness.release(harness.claim_one(), state="paused", verb="pause", reason="which line?")
        assert harness.store.resume(harness.plan, [*seen], at=seen, answer=7, **WHO) == []
        assert harness.document().reason == "which line?"

    def test_a_document_that_was_not_seen_is_not_decided(self, gated: StoreHarness) -> None:
        claim, _ = _parked(gated)
        assert gated.store.resume(gated.plan, [claim.document_id], at={}, **WHO) == []

    @pytest.mark.parametrize("answer", ["yes", {"pages": [1, 2.50]}, 0, False, []])
    def test_an_answer_is_stored_unchanged(self, gated: StoreHarness, answer: Any) -> None:
        claim, seen = _parked(gated)
        gated.store.resume(gated.plan, [*seen], answer=answer, **WHO)
        (line,) = gated.store.journal(claim.document_id)
        assert line.detail == {"reason": "why", "was": "paused", "state": "waiting", "answer": answer}

    def test_documents_at_different_places_are_resumed_together(self, gated: StoreHarness) -> None:
        gated.submit("read", "review", "sign")
        claims = {claim.key: claim for claim in gated.claim()}
        gated.release(claims["read"], state="paused")
        gated.park(claims["review"], at="review")
        gated.park(gated.pass_gate(claims["sign"], at="review"), at="sign")
        ids = [claim.document_id for claim in claims.values()]
        assert gated.store.resume(gated.plan, ids, **WHO) == sorted(ids)
        places = {key: (gated.document(key).state, gated.document(key).checkpoint.step) for key in claims}
        assert places == {"read": ("waiting", "read"), "review": ("waiting", "file"), "sign": ("done", None)}
        states = [gated.store.journal(number)[-1].detail["state"] for number in sorted(ids)]
        assert states == ["waiting", "waiting", "done"]

    def test_a_document_moved_to_a_gate_may_be_undecided_for_a_while(self, gated: StoreHarness) -> None:
        claim = gated.submit_and_claim()
        gated.commit(gated.forward(claim, state="paused", reason="gate review", timeout=LEASE))
        assert gated.document().due_at == gated.clock() + LEASE
        gated.clock.advance(LEASE - SECOND)
        assert gated.store.overdue_at_gate(gated.plan, "review") == {}
        gated.clock.advance(SECOND)
        assert gated.store.overdue_at_gate(gated.plan, "review") == {claim.document_id: 1}
        assert gated.store.overdue_at_gate(gated.plan, "sign") == {}

    def test_a_document_moved_to_a_gate_with_a_time_of_zero_waits_without_end(self, gated: StoreHarness) -> None:
        claim = gated.submit_and_claim()
        gated.commit(gated.forward(claim, state="paused", reason="gate review", timeout=timedelta(0)))
        assert (gated.document().state, gated.document().due_at) == ("paused", None)

    def test_a_document_released_at_a_gate_may_be_undecided_for_a_while(self, gated: StoreHarness) -> None:
        claim = gated.advance(gated.submit_and_claim())
        gated.release(claim, state="paused", verb="pause", costs="nothing", delay=LEASE)
        assert gated.document().due_at == gated.clock() + LEASE
        gated.clock.advance(LEASE)
        assert gated.store.overdue_at_gate(gated.plan, "review") == {claim.document_id: 2}

    def test_a_document_at_a_gate_is_not_woken_after_its_deadline(self, gated: StoreHarness) -> None:
        gated.commit(gated.forward(gated.submit_and_claim(), state="paused", reason="gate review", timeout=SECOND))
        gated.clock.advance(timedelta(days=1))
        assert gated.store.wake(gated.plan, who="bob") == 0
        assert gated.document().state == "paused"

    def test_a_document_at_a_gate_is_not_woken_by_a_plan_without_the_gate(self, gated: StoreHarness) -> None:
        ungated = Shape(REVIEWS.pipeline, tuple(step for step in REVIEWS.steps if step.name != "review"))
        of_another_version = gated.store.declare(ungated)
        gated.commit(gated.forward(gated.submit_and_claim(), state="paused", reason="gate review", timeout=SECOND))
        gated.clock.advance(timedelta(days=1))
        assert gated.store.wake(of_another_version, who="bob") == 0
        assert gated.document().state == "paused"

    def test_overdue_documents_are_returned_longest_undecided_first_up_to_a_limit(self, gated: StoreHarness) -> None:
        for key in "abc":
            gated.commit(gated.forward(gated.submit_and_claim(key), state="paused", timeout=SECOND))
            gated.clock.advance(SECOND)
        ids = [gated.document(key).id for key in "abc"]
        assert [*gated.store.overdue_at_gate(gated.plan, "review")] == ids
        assert [*gated.store.overdue_at_gate(gated.plan, "review", limit=2)] == ids[:2]

    def test_a_decided_document_is_no_longer_undecided(self, gated: StoreHarness) -> None:
        gated.commit(gated.forward(gated.submit_and_claim(), state="paused", timeout=SECOND))
        gated.clock.advance(SECOND)
        late = gated.store.overdue_at_gate(gated.plan, "review")
        assert gated.store.resume(gated.plan, [*late], at=late, **WHO)
        assert gated.store.overdue_at_gate(gated.plan, "review") == {}
        assert gated.document().checkpoint == Checkpoint(0, "file", None, 2)

    def test_a_deadline_added_to_a_gate_applies_to_parked_documents(self, gated: StoreHarness) -> None:
        claim, seen = _parked(gated)
        gated.park(gated.pass_gate(gated.submit_and_claim("b"), at="review"), at="sign")
        parked = gated.clock()
        gated.clock.advance(SECOND)
        assert gated.store.set_gate_deadline(gated.plan, "review", within=LEASE) == 1
        assert gated.document().due_at == parked + LEASE
        assert gated.document("b").due_at is None
        gated.clock.advance(LEASE - 2 * SECOND)
        assert gated.store.overdue_at_gate(gated.plan, "review") == {}
        gated.clock.advance(SECOND)
        assert gated.store.overdue_at_gate(gated.plan, "review") == seen
        assert gated.verbs(claim) == []

    def test_a_gate_deadline_counts_from_the_parking(self, gated: StoreHarness) -> None:
        claim, _ = _parked(gated)
        gated.store.rewind_to(gated.plan, [claim.document_id], to="review", **WHO)
        gated.clock.advance(SECOND)
        again = gated.claim_one()
        gated.release(
            again, state="paused", verb="pause", costs="nothing", reason=sentence(AT_GATE, gate="review"), code=AT_GATE
        )
        assert gated.store.set_gate_deadline(gated.plan, "review", within=LEASE) == 1
        assert gated.document().due_at == gated.clock() + LEASE

    def test_many_documents_get_a_gate_deadline_in_slices(self, gated: StoreHarness) -> None:
        gated.submit("a", "b", "c")
        for claim in gated.claim():
            gated.park(claim, at="review")
        times = [gated.store.set_gate_deadline(gated.plan, "review", within=LEASE, limit=2) for _ in range(3)]
        assert times == [2, 1, 0]
        assert {gated.document(key).due_at for key in "abc"} == {gated.clock() + LEASE}

    def test_a_gate_deadline_that_was_set_stays(self, gated: StoreHarness) -> None:
        move = gated.forward(
            gated.submit_and_claim(),
            state="paused",
            reason=sentence(AT_GATE, gate="review"),
            code=AT_GATE,
            timeout=LEASE,
        )
        gated.commit(move)
        assert gated.store.set_gate_deadline(gated.plan, "review", within=SECOND) == 0
        assert gated.document().due_at == gated.clock() + LEASE

    @pytest.mark.parametrize("reason", ["its checkpoint is damaged: no number", "the work of read is gone again"])
    def test_a_document_parked_at_a_gate_for_another_reason_gets_no_deadline(
        self, gated: StoreHarness, reason: str
    ) -> None:
        claim = gated.advance(gated.submit_and_claim())
        gated.release(claim, state="paused", verb="pause", costs="nothing", reason=reason)
        assert gated.store.set_gate_deadline(gated.plan, "review", within=SECOND) == 0
        assert gated.document().due_at is None

    def test_a_parked_document_has_no_holder(self, gated: StoreHarness) -> None:
        _parked(gated)
        assert gated.store.running(gated.plan) == 0
        assert gated.document().holder == ""
        assert gated.claim(limit=5) == []
        assert gated.store.next_due(gated.plan) is None


class HoldConformance(Conformance):
    """Tests of pause and resume. The end of a hold is no decision at a gate."""

    def _on_hold_at_the_gate(self, gated: StoreHarness, **more: Any) -> int:
        """Make a document that waits at a gate, as after a rewind, and put it on hold before a worker parks it."""
        claim = gated.submit_and_claim()
        gated.park(claim, at="review")
        gated.store.rewind_to(gated.plan, [claim.document_id], to="review", **WHO)
        assert gated.store.pause([claim.document_id], **WHO, **more) == [claim.document_id]
        return claim.document_id

    def test_resuming_a_document_on_hold_at_a_gate_does_not_pass_the_gate(self, gated: StoreHarness) -> None:
        document_id = self._on_hold_at_the_gate(gated)
        assert gated.store.resume(gated.plan, [document_id], **WHO) == [document_id]
        status = gated.document()
        assert (status.state, status.checkpoint.step, status.error) == ("waiting", "review", "")

    def test_the_end_of_a_hold_at_a_gate_is_no_gate_deadline(self, gated: StoreHarness, clock: ManualClock) -> None:
        self._on_hold_at_the_gate(gated, until=clock() + SECOND)
        clock.advance(2 * SECOND)
        assert gated.store.overdue_at_gate(gated.plan, "review") == {}
        assert gated.store.wake(gated.plan, who="bob") == 1
        assert gated.document().state == "waiting"

    def test_a_document_on_hold_at_a_gate_gets_no_gate_deadline(self, gated: StoreHarness) -> None:
        self._on_hold_at_the_gate(gated)
        assert gated.store.set_gate_deadline(gated.plan, "review", within=SECOND) == 0
        assert gated.document().due_at is None

    def test_documents_on_hold_are_found_by_a_filter(self, gated: StoreHarness) -> None:
        gated.submit("b", "c")
        gated.store.pause([gated.document("b").id], **WHO)
        parked = gated.claim_one()
        gated.park(parked, at="review")
        assert [one.key for one in gated.store.documents("reviews", state="paused", code=ON_HOLD)] == ["b"]

    def test_a_dead_letter_at_a_removed_step_is_rewound_and_not_redriven(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        harness.make_dead(claim)
        extract, _, embed = PAPERS.steps
        plan = harness.store.declare(Shape("papers", (extract, replace(embed, over="extract"))))
        assert harness.store.redrive([claim.document_id], **WHO) == []
        assert harness.store.declare(harness.store.shape("papers") or PAPERS) == plan  # workers still start
        assert harness.store.rewind_to(plan, [claim.document_id], to="extract", **WHO) == [claim.document_id]

    def test_the_plan_is_read_without_a_declaration(self, harness: StoreHarness) -> None:
        assert harness.store.plan("papers") == harness.plan
        assert harness.store.plan("letters") is None

    @pytest.mark.parametrize("hold_reason", ["legal hold", ""])
    def test_a_rewind_that_keeps_a_hold_keeps_its_code_and_its_end(
        self, gated: StoreHarness, clock: ManualClock, hold_reason: str
    ) -> None:
        gated.submit("a")
        ids, until = [gated.document().id], clock() + SECOND
        gated.store.pause(ids, who="counsel", reason=hold_reason, until=until)
        assert gated.store.rewind_to(gated.plan, ids, to="read", then="keep_hold", code="x", **WHO) == ids
        status = gated.document()
        assert (status.state, status.reason, status.code, status.due_at) == ("paused", hold_reason, ON_HOLD, until)
        assert gated.store.journal(status.id)[-1].detail["state"] == "paused"

    @pytest.mark.parametrize("state", ["waiting", "running", "dead"])
    def test_a_rewind_that_keeps_holds_lets_others_wait(self, gated: StoreHarness, state: str) -> None:
        gated.submit("a")
        if state != "waiting":
            claim = gated.claim_one()
            if state == "dead":
                gated.make_dead(claim)
        ids = [gated.document().id]
        assert gated.store.rewind_to(gated.plan, ids, to="read", then="keep_hold", code="x", **WHO) == ids
        status = gated.document()
        assert (status.state, status.reason, status.code) == ("waiting", "", "")
        assert gated.store.journal(status.id)[-1].detail["state"] == "waiting"

    def test_a_rewind_that_parks_for_another_reason_ends_the_hold(
        self, gated: StoreHarness, clock: ManualClock
    ) -> None:
        gated.submit("a")
        ids = [gated.document().id]
        gated.store.pause(ids, who="counsel", reason="legal hold", until=clock() + SECOND)
        assert (
            gated.store.rewind_to(
                gated.plan, ids, to="read", then="park", code="look", who="ann", reason="to be looked at"
            )
            == ids
        )
        status = gated.document()
        assert (status.state, status.reason, status.code, status.due_at) == ("paused", "to be looked at", "look", None)

    def test_a_rewind_without_parking_ends_the_hold(self, gated: StoreHarness, clock: ManualClock) -> None:
        gated.submit("a")
        ids = [gated.document().id]
        gated.store.pause(ids, who="counsel", reason="", until=clock() + SECOND)
        assert gated.store.rewind_to(gated.plan, ids, to="read", **WHO) == ids
        assert (gated.document().state, gated.document().code, gated.document().due_at) == ("waiting", "", clock())
