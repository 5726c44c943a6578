"""People decide: resume, reject, cancel, redrive. And time does: wake."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.decisions import decided_at_gate
from holdfast.core.model import Checkpoint, Claim, Item
from holdfast.core.moves import LOST, rewound
from holdfast.core.plan import Shape, StepShape
from holdfast.testing.conformance.base import REVIEWS, SECOND, Conformance, Desk


def _resume(desk: Desk, claim: Claim) -> bool:
    return desk.store.resume(desk.plan, [claim.document_id], who="cat", reason="looks good") == [claim.document_id]


def _at_review(gated: Desk) -> Claim:
    """A document that is parked at the first gate."""
    claim = gated.take_in()
    gated.park(claim, at="review")
    return claim


def _at_sign(gated: Desk) -> Claim:
    """A document that is parked at the last gate."""
    claim = _at_review(gated)
    _resume(gated, claim)
    gated.park(gated.claim_one(), at="sign")
    return claim


class DecisionConformance(Conformance):
    """What pausing, gates, cancelling and redriving promise."""

    def test_a_paused_document_goes_on_where_it_was(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2")
        desk.give_back(claim, state="paused", reason="ask ann")
        desk.clock.advance(SECOND)
        assert _resume(desk, claim)
        here = desk.standing()
        assert (here.state, here.reason, here.due_at) == ("waiting", "", desk.clock())
        assert here.checkpoint == Checkpoint(0, "extract", 2, 2)

    def test_a_cursor_ages_on_while_its_document_is_paused_and_resumed(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2")
        moved_at = desk.clock()
        desk.give_back(claim, state="paused", reason="ask ann")
        desk.clock.advance(SECOND * 3600)
        assert _resume(desk, claim)
        assert desk.standing().moved_at == moved_at
        assert desk.claim_one().cursor_age == SECOND * 3600

    @pytest.mark.parametrize("reason", ["gate keeper is ill", "gate extract: a person has to decide", "gate "])
    def test_a_body_that_paused_goes_on_at_its_own_step_whatever_it_said(self, desk: Desk, reason: str) -> None:
        claim = desk.take_in()
        desk.give_back(claim, state="paused", verb="pause", reason=reason)
        assert _resume(desk, claim)
        assert desk.standing().checkpoint.step == "extract"

    def test_a_resumed_document_moves_past_its_gate(self, gated: Desk) -> None:
        claim = _at_review(gated)
        gated.clock.advance(SECOND)
        assert _resume(gated, claim)
        here = gated.standing()
        assert (here.state, here.reason, here.due_at, here.moved_at) == (
            "waiting",
            "",
            gated.clock(),
            gated.clock(),
        )
        assert here.checkpoint == Checkpoint(0, "file", None, 2)

    def test_a_document_given_back_at_a_gate_moves_past_it_too(self, gated: Desk) -> None:
        claim = gated.advance(gated.take_in())
        gated.give_back(claim, state="paused", verb="pause", reason="parked", costs="nothing")
        assert _resume(gated, claim)
        assert gated.standing().checkpoint.step == "file"

    def test_a_document_resumed_at_the_last_gate_is_done(self, gated: Desk) -> None:
        claim = _at_sign(gated)
        assert _resume(gated, claim)
        here = gated.standing()
        assert (here.state, here.due_at, here.reason) == ("done", None, "")
        assert here.checkpoint == Checkpoint(0, None, None, 4)
        assert gated.balance().done == 1

    def test_a_document_done_past_a_gate_drops_the_items_of_earlier_generations(self, gated: Desk) -> None:
        claim = gated.take_in()
        claim = gated.advance(claim, items=[Item("read", 0, "1")])
        assert gated.store.rewind(gated.plan, claim, to="read", who="ann", reason="why")
        claim = rewound(claim, to="read", before=[])
        gated.park(claim, at="review")
        _resume(gated, claim)
        gated.park(gated.claim_one(), at="sign")
        read = gated.plan.step_ids["read"]
        assert gated.store.read(claim.document_id, 0, read, 0, 9) == [(0, "1")]
        _resume(gated, claim)
        assert gated.store.read(claim.document_id, 0, read, 0, 9) == []

    def test_a_document_done_past_a_gate_keeps_the_items_it_reuses(self, gated: Desk) -> None:
        claim = gated.advance(gated.take_in(), items=[Item("read", 0, "1")])
        assert gated.store.rewind(gated.plan, claim, to="review", who="ann", reason="why")
        claim = rewound(claim, to="review", before=["read"])
        gated.give_back(claim, state="paused")
        _resume(gated, claim)
        gated.park(gated.claim_one(), at="sign")
        _resume(gated, claim)
        assert gated.standing().state == "done"
        assert gated.items(claim) == [("read", 0, "1")]

    def test_a_resume_is_journalled_where_the_document_stood(self, gated: Desk) -> None:
        claim = _at_review(gated)
        _resume(gated, claim)
        (entry,) = gated.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.step, entry.detail) == (
            "resume",
            "cat",
            "review",
            {"reason": "looks good", "was": "paused", "state": "waiting"},
        )

    def test_what_was_decided_at_a_gate_follows_its_new_name(self, gated: Desk, desk: Desk) -> None:
        gated.park(claim := gated.take_in(), at="review")
        gated.store.resume(gated.plan, [claim.document_id], who="cat", reason="fine", answer=7)
        other = desk.take_in()
        read, review, file, sign = REVIEWS.steps
        now = Shape("reviews", (read, replace(review, name="legal"), file, sign), {"review": "legal"})
        gated.store.check(now)
        assert decided_at_gate(gated.store.journal(claim.document_id), "review", 0) is not None
        gated.store.declare(now)
        gated.store.declare(now)
        decision = decided_at_gate(gated.store.journal(claim.document_id), "legal", 0)
        assert decision is not None
        assert (decision.who, decision.answer) == ("cat", 7)
        assert desk.store.journal(other.document_id) == []

    def test_the_lines_of_a_step_of_the_same_name_elsewhere_stay(self, gated: Desk, desk: Desk) -> None:
        desk.give_back(claim := desk.take_in())
        gated.store.declare(Shape("others", (StepShape("extract", "value"),)))
        gated.store.declare(Shape("others", (StepShape("pull", "value"),), {"extract": "pull"}))
        assert [line.step for line in desk.store.journal(claim.document_id)] == ["extract"]

    def test_only_a_paused_document_is_resumed(self, desk: Desk) -> None:
        claim = desk.take_in()
        assert not _resume(desk, claim)
        desk.give_back(claim)
        assert not _resume(desk, claim)
        desk.finish(desk.claim_one())
        assert not _resume(desk, claim)
        assert desk.verbs(claim) == ["fail"]

    def test_a_document_is_resumed_once(self, gated: Desk) -> None:
        claim = _at_review(gated)
        assert _resume(gated, claim)
        assert not _resume(gated, claim)
        assert gated.standing().checkpoint.step == "file"

    def test_a_document_that_never_was_cannot_be_decided(self, desk: Desk) -> None:
        nobody = 10**9
        assert not desk.store.resume(desk.plan, [nobody], who="cat", reason="why")
        assert not desk.store.reject([nobody], who="cat", reason="why")
        assert not desk.store.cancel([nobody], who="cat", reason="why")
        assert not desk.store.redrive([nobody], who="cat", reason="why")

    def test_a_worker_that_paused_a_document_cannot_move_it(self, gated: Desk) -> None:
        claim = _at_review(gated)
        _resume(gated, claim)
        assert gated.commit(gated.forward(claim)) == [LOST]

    def test_a_rejected_document_is_a_dead_letter(self, gated: Desk) -> None:
        claim = _at_review(gated)
        assert gated.store.reject([claim.document_id], who="cat", reason="off topic")
        here = gated.standing()
        assert (here.state, here.reason, here.due_at) == ("dead", "off topic", None)
        assert here.checkpoint.step == "review"
        assert gated.verbs(claim) == ["reject"]

    def test_only_a_paused_document_is_rejected(self, gated: Desk) -> None:
        claim = gated.take_in()
        assert not gated.store.reject([claim.document_id], who="cat", reason="off topic")
        gated.give_back(claim)
        assert not gated.store.reject([claim.document_id], who="cat", reason="off topic")
        assert gated.verbs(claim) == ["fail"]

    def test_a_rejected_document_stands_at_its_gate_when_it_is_redriven(self, gated: Desk) -> None:
        claim = _at_review(gated)
        gated.store.reject([claim.document_id], who="cat", reason="off topic")
        assert gated.store.redrive([claim.document_id], who="cat", reason="after all")
        assert gated.claim_one().checkpoint.step == "review"


class CancelConformance(Conformance):
    """What cancel promises."""

    @pytest.mark.parametrize("state", ["waiting", "running", "paused"])
    def test_an_open_document_is_cancelled(self, desk: Desk, state: str) -> None:
        claim = desk.keep(desk.take_in(), "1")
        if state != "running":
            desk.give_back(claim, state=state)
        assert desk.store.cancel([claim.document_id], who="cat", reason="withdrawn")
        here = desk.standing()
        assert (here.state, here.reason, here.holder, here.due_at) == ("cancelled", "withdrawn", "", None)
        assert here.checkpoint == Checkpoint(0, "extract", 1, 2 if state == "paused" else 1)
        assert desk.balance().cancelled == 1

    def test_cancelling_takes_a_document_from_its_worker(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.store.cancel([claim.document_id], who="cat", reason="withdrawn")
        assert desk.commit(desk.forward(claim)) == [LOST]
        assert not desk.give_back(claim)
        assert not desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason="why")
        assert desk.store.beat(desk.worker)

    def test_a_cancel_is_journalled(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        desk.store.cancel([claim.document_id], who="cat", reason="withdrawn")
        (entry,) = desk.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.step, entry.cursor) == ("cancel", "cat", "extract", 1)
        assert entry.detail == {"reason": "withdrawn", "was": "running", "state": "cancelled"}

    def test_a_document_that_ended_is_not_cancelled(self, desk: Desk) -> None:
        desk.submit("done", "dead", "gone")
        done, dead, gone = desk.claim()
        desk.finish(done)
        desk.bury(dead)
        desk.store.cancel([gone.document_id], who="cat", reason="withdrawn")
        for claim in (done, dead, gone):
            assert not desk.store.cancel([claim.document_id], who="cat", reason="again")
        assert [desk.standing(key).state for key in ("done", "dead", "gone")] == ["done", "dead", "cancelled"]

    def test_a_cancelled_document_is_never_overdue(self, desk: Desk) -> None:
        desk.submit("a")
        claim = desk.claim_one(timeouts={"extract": SECOND})
        desk.store.cancel([claim.document_id], who="cat", reason="withdrawn")
        desk.clock.advance(SECOND * 5)
        assert desk.reclaim(gone=[desk.worker.id]) == []


class RedriveConformance(Conformance):
    """What redrive promises."""

    def test_a_dead_letter_is_tried_again_from_its_checkpoint(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2")
        desk.bury(claim)
        desk.clock.advance(SECOND)
        assert desk.store.redrive([claim.document_id], who="cat", reason="the parser is mended")
        here = desk.standing()
        assert (here.state, here.reason, here.attempts, here.due_at) == ("waiting", "", 0, desk.clock())
        assert here.checkpoint == Checkpoint(0, "extract", 2, 1)
        assert desk.items(claim) == [("extract", 0, "1"), ("extract", 1, "2")]

    def test_a_redriven_document_goes_on_beside_what_it_kept(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        desk.bury(claim)
        desk.store.redrive([claim.document_id], who="cat", reason="why")
        again = desk.keep(desk.claim_one(), "2", start=1)
        assert desk.items(again) == [("extract", 0, "1"), ("extract", 1, "2")]

    def test_a_redrive_forgets_attempts_and_crashes(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash(times=2)
        (claim,) = desk.store.claim_suspect(desk.plan, desk.worker)
        desk.bury(claim)
        desk.store.redrive([claim.document_id], who="cat", reason="why")
        assert desk.claim_one().crashes == 0

    def test_a_redrive_is_journalled_after_what_went_before(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.bury(claim)
        desk.store.redrive([claim.document_id], who="cat", reason="why")
        assert desk.verbs(claim) == ["fail", "redrive"]
        detail = {"reason": "why", "was": "dead", "state": "waiting"}
        assert desk.store.journal(claim.document_id)[1].detail == detail

    def test_only_a_dead_letter_is_redriven(self, desk: Desk) -> None:
        claim = desk.take_in()
        assert not desk.store.redrive([claim.document_id], who="cat", reason="why")
        desk.store.cancel([claim.document_id], who="cat", reason="no")
        assert not desk.store.redrive([claim.document_id], who="cat", reason="why")
        assert desk.verbs(claim) == ["cancel"]

    def test_the_worker_that_failed_a_document_cannot_move_it_after_a_redrive(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.bury(claim)
        desk.store.redrive([claim.document_id], who="cat", reason="why")
        desk.claim_one(worker=desk.enlist("bob"))
        assert desk.commit(desk.forward(claim)) == [LOST]


class WakeConformance(Conformance):
    """What wake promises."""

    def test_a_document_wakes_when_its_time_has_come(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        desk.give_back(claim, state="paused", reason="office hours", until=desk.clock() + timedelta(hours=1))
        desk.clock.advance(timedelta(hours=1) - timedelta(microseconds=1))
        assert desk.store.wake(desk.plan, who="bob") == 0
        desk.clock.advance(timedelta(microseconds=1))
        assert desk.store.wake(desk.plan, who="bob") == 1
        here = desk.standing()
        assert (here.state, here.reason) == ("waiting", "")
        assert here.checkpoint == Checkpoint(0, "extract", 1, 2)
        assert desk.claim_one().checkpoint.cursor == 1

    def test_a_document_paused_for_good_does_not_wake(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), state="paused", reason="ask ann")
        desk.clock.advance(timedelta(days=10_000))
        assert desk.store.wake(desk.plan, who="bob") == 0

    def test_a_document_at_a_gate_does_not_wake(self, gated: Desk) -> None:
        _at_review(gated)
        gated.clock.advance(timedelta(days=10_000))
        assert gated.store.wake(gated.plan, who="bob") == 0

    def test_documents_of_another_pipeline_sleep_on(self, desk: Desk, gated: Desk) -> None:
        gated.give_back(gated.take_in(), state="paused", until=gated.clock())
        assert desk.store.wake(desk.plan, who="bob") == 0
        assert gated.store.wake(gated.plan, who="bob") == 1

    def test_a_document_may_be_resumed_before_its_time(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.give_back(claim, state="paused", until=desk.clock() + timedelta(hours=1))
        assert _resume(desk, claim)
        assert desk.keys_claimed() == ["a"]

    def test_waking_is_journalled(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        desk.give_back(claim, state="paused", verb="pause", reason="office hours", until=desk.clock() + SECOND)
        desk.clock.advance(2 * SECOND)
        desk.store.wake(desk.plan, who="holdfast")
        line = desk.store.journal(claim.document_id)[-1]
        assert (line.at, line.verb, line.who) == (desk.clock(), "wake", "holdfast")
        assert (line.generation, line.step, line.cursor) == (0, "extract", 1)
        assert line.detail == {"reason": "its time has come", "was": "paused", "state": "waiting"}

    def test_many_are_woken_a_slice_at_a_time_the_longest_overdue_first(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        for claim, hours in zip(desk.claim(), (3, 1, 2), strict=True):
            desk.give_back(claim, state="paused", until=desk.clock() + timedelta(hours=hours))
        desk.clock.advance(timedelta(hours=4))
        assert desk.store.wake(desk.plan, who="bob", limit=2) == 2
        assert [desk.standing(key).state for key in "abc"] == ["paused", "waiting", "waiting"]
        assert [desk.store.wake(desk.plan, who="bob", limit=2) for _ in range(2)] == [1, 0]
        assert [len(desk.store.journal(desk.standing(key).id)) for key in "abc"] == [2, 2, 2]

    def test_waking_again_wakes_nobody(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), state="paused", until=desk.clock())
        assert desk.store.wake(desk.plan, who="bob") == 1
        assert desk.store.wake(desk.plan, who="bob") == 0
