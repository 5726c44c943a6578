"""What waits for a person, and what is only on hold: decided about once, at the place that was seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.decisions import waits_at
from holdfast.core.model import ON_HOLD, Checkpoint, Claim
from holdfast.core.plan import Shape
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import LEASE, PAPERS, REVIEWS, SECOND, Conformance, Desk
from holdfast.testing.conformance.operators import WHO


def _parked(gated: Desk) -> tuple[Claim, dict[int, int]]:
    """A document at the first gate, as a reviewer sees it."""
    claim = gated.take_in()
    gated.park(claim, at="review")
    return claim, {claim.document_id: gated.standing().checkpoint.moves}


class ReviewConformance(Conformance):
    """What decisions at gates promise: about the place that was seen, and once."""

    def test_of_two_reviewers_the_first_decides(self, gated: Desk) -> None:
        claim, seen = _parked(gated)
        assert gated.store.reject([*seen], at=seen, who="cat", reason="off topic")
        assert gated.store.resume(gated.plan, [*seen], at=seen, who="dan", reason="fine") == []
        assert gated.verbs(claim) == ["reject"]

    def test_an_approval_of_one_gate_never_passes_the_next(self, gated: Desk) -> None:
        _, seen = _parked(gated)
        assert gated.store.resume(gated.plan, [*seen], at=seen, **WHO)
        gated.park(gated.claim_one(), at="sign")
        assert gated.store.resume(gated.plan, [*seen], at=seen, **WHO) == []
        assert gated.store.reject([*seen], at=seen, **WHO) == []
        assert gated.standing().checkpoint.step == "sign"

    def test_an_approval_of_content_that_changed_is_none(self, gated: Desk) -> None:
        _, seen = _parked(gated)
        gated.submit("a", fingerprint="changed")
        gated.park(gated.claim_one(), at="review")
        assert gated.store.resume(gated.plan, [*seen], at=seen, **WHO) == []
        assert gated.standing().state == "paused"

    def test_an_answer_is_for_the_question_that_was_seen(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), state="paused", verb="pause", reason="which page?")
        seen = {desk.standing().id: desk.standing().checkpoint.moves}
        assert desk.store.resume(desk.plan, [*seen], at=seen, answer=7, **WHO)
        desk.give_back(desk.claim_one(), state="paused", verb="pause", reason="which line?")
        assert desk.store.resume(desk.plan, [*seen], at=seen, answer=7, **WHO) == []
        assert desk.standing().reason == "which line?"

    def test_a_document_that_was_not_seen_is_not_decided(self, gated: Desk) -> None:
        claim, _ = _parked(gated)
        assert gated.store.resume(gated.plan, [claim.document_id], at={}, **WHO) == []

    @pytest.mark.parametrize("answer", ["yes", {"pages": [1, 2.50]}, 0, False, []])
    def test_an_answer_is_kept_as_it_was_given(self, gated: Desk, answer: Any) -> None:
        claim, seen = _parked(gated)
        gated.store.resume(gated.plan, [*seen], answer=answer, **WHO)
        (line,) = gated.store.journal(claim.document_id)
        assert line.detail == {"reason": "why", "was": "paused", "state": "waiting", "answer": answer}

    def test_documents_at_different_places_go_on_together(self, gated: Desk) -> None:
        gated.submit("read", "review", "sign")
        claims = {claim.key: claim for claim in gated.claim()}
        gated.give_back(claims["read"], state="paused")
        gated.park(claims["review"], at="review")
        gated.park(gated.advance(gated.advance(claims["sign"])), at="sign")
        ids = [claim.document_id for claim in claims.values()]
        assert gated.store.resume(gated.plan, ids, **WHO) == sorted(ids)
        places = {key: (gated.standing(key).state, gated.standing(key).checkpoint.step) for key in claims}
        assert places == {"read": ("waiting", "read"), "review": ("waiting", "file"), "sign": ("done", None)}
        states = [gated.store.journal(number)[-1].detail["state"] for number in sorted(ids)]
        assert states == ["waiting", "waiting", "done"]

    def test_a_document_moved_to_a_gate_may_be_undecided_for_a_while(self, gated: Desk) -> None:
        claim = gated.take_in()
        gated.commit(gated.forward(claim, state="paused", reason="gate review", timeout=LEASE))
        assert gated.standing().due_at == gated.clock() + LEASE
        gated.clock.advance(LEASE - SECOND)
        assert gated.store.undecided(gated.plan, "review") == {}
        gated.clock.advance(SECOND)
        assert gated.store.undecided(gated.plan, "review") == {claim.document_id: 1}
        assert gated.store.undecided(gated.plan, "sign") == {}

    def test_a_document_given_back_at_a_gate_may_be_undecided_for_a_while(self, gated: Desk) -> None:
        claim = gated.advance(gated.take_in())
        gated.give_back(claim, state="paused", verb="pause", costs="nothing", delay=LEASE)
        assert gated.standing().due_at == gated.clock() + LEASE
        gated.clock.advance(LEASE)
        assert gated.store.undecided(gated.plan, "review") == {claim.document_id: 2}

    def test_a_document_at_a_gate_is_not_woken_when_its_time_is_over(self, gated: Desk) -> None:
        gated.commit(gated.forward(gated.take_in(), state="paused", reason="gate review", timeout=SECOND))
        gated.clock.advance(timedelta(days=1))
        assert gated.store.wake(gated.plan, who="bob") == 0
        assert gated.standing().state == "paused"

    def test_a_document_at_a_gate_is_not_woken_by_who_does_not_know_the_gate(self, gated: Desk) -> None:
        ungated = Shape(REVIEWS.pipeline, tuple(step for step in REVIEWS.steps if step.name != "review"))
        of_another_version = gated.store.declare(ungated)
        gated.commit(gated.forward(gated.take_in(), state="paused", reason="gate review", timeout=SECOND))
        gated.clock.advance(timedelta(days=1))
        assert gated.store.wake(of_another_version, who="bob") == 0
        assert gated.standing().state == "paused"

    def test_the_longest_undecided_come_first_in_bounded_numbers(self, gated: Desk) -> None:
        for key in "abc":
            gated.commit(gated.forward(gated.take_in(key), state="paused", timeout=SECOND))
            gated.clock.advance(SECOND)
        ids = [gated.standing(key).id for key in "abc"]
        assert [*gated.store.undecided(gated.plan, "review")] == ids
        assert [*gated.store.undecided(gated.plan, "review", limit=2)] == ids[:2]

    def test_a_decided_document_is_no_longer_undecided(self, gated: Desk) -> None:
        gated.commit(gated.forward(gated.take_in(), state="paused", timeout=SECOND))
        gated.clock.advance(SECOND)
        late = gated.store.undecided(gated.plan, "review")
        assert gated.store.resume(gated.plan, [*late], at=late, **WHO)
        assert gated.store.undecided(gated.plan, "review") == {}
        assert gated.standing().checkpoint == Checkpoint(0, "file", None, 2)

    def test_a_gate_that_gets_a_time_later_has_it_for_those_that_are_parked(self, gated: Desk) -> None:
        claim, seen = _parked(gated)
        gated.park(gated.advance(gated.advance(gated.take_in("b"))), at="sign")
        parked = gated.clock()
        gated.clock.advance(SECOND)
        assert gated.store.set_time(gated.plan, "review", within=LEASE) == 1
        assert gated.standing().due_at == parked + LEASE
        assert gated.standing("b").due_at is None
        gated.clock.advance(LEASE - 2 * SECOND)
        assert gated.store.undecided(gated.plan, "review") == {}
        gated.clock.advance(SECOND)
        assert gated.store.undecided(gated.plan, "review") == seen
        assert gated.verbs(claim) == []

    def test_that_time_begins_when_a_worker_parked_it(self, gated: Desk) -> None:
        claim, _ = _parked(gated)
        gated.store.rewind_to(gated.plan, [claim.document_id], to="review", **WHO)
        gated.clock.advance(SECOND)
        again = gated.claim_one()
        gated.give_back(again, state="paused", verb="pause", costs="nothing", reason=waits_at("review"))
        assert gated.store.set_time(gated.plan, "review", within=LEASE) == 1
        assert gated.standing().due_at == gated.clock() + LEASE

    def test_many_get_a_time_a_slice_at_a_time(self, gated: Desk) -> None:
        gated.submit("a", "b", "c")
        for claim in gated.claim():
            gated.park(claim, at="review")
        times = [gated.store.set_time(gated.plan, "review", within=LEASE, limit=2) for _ in range(3)]
        assert times == [2, 1, 0]
        assert {gated.standing(key).due_at for key in "abc"} == {gated.clock() + LEASE}

    def test_a_time_that_was_set_stays(self, gated: Desk) -> None:
        move = gated.forward(gated.take_in(), state="paused", reason=waits_at("review"), timeout=LEASE)
        gated.commit(move)
        assert gated.store.set_time(gated.plan, "review", within=SECOND) == 0
        assert gated.standing().due_at == gated.clock() + LEASE

    @pytest.mark.parametrize("reason", ["its checkpoint is damaged: no number", "the work of read is gone again"])
    def test_what_is_parked_at_a_gate_for_another_reason_gets_no_time(self, gated: Desk, reason: str) -> None:
        claim = gated.advance(gated.take_in())
        gated.give_back(claim, state="paused", verb="pause", costs="nothing", reason=reason)
        assert gated.store.set_time(gated.plan, "review", within=SECOND) == 0
        assert gated.standing().due_at is None

    def test_a_parked_document_is_held_by_nobody(self, gated: Desk) -> None:
        _parked(gated)
        assert gated.store.running(gated.plan) == 0
        assert gated.standing().holder == ""
        assert gated.claim(limit=5) == []
        assert gated.store.next_due(gated.plan) is None


class HoldConformance(Conformance):
    """Being put on hold is not being asked about: undoing it decides nothing."""

    def _on_hold_at_the_gate(self, gated: Desk, **more: Any) -> int:
        """A document that waits at a gate, as after a rewind, and is put on hold before a worker parks it there."""
        claim = gated.take_in()
        gated.park(claim, at="review")
        gated.store.rewind_to(gated.plan, [claim.document_id], to="review", **WHO)
        assert gated.store.pause([claim.document_id], **WHO, **more) == [claim.document_id]
        return claim.document_id

    def test_resuming_what_was_on_hold_at_a_gate_does_not_pass_it(self, gated: Desk) -> None:
        document_id = self._on_hold_at_the_gate(gated)
        assert gated.store.resume(gated.plan, [document_id], **WHO) == [document_id]
        here = gated.standing()
        assert (here.state, here.checkpoint.step, here.error) == ("waiting", "review", "")

    def test_a_hold_at_a_gate_is_no_time_to_decide(self, gated: Desk, clock: ManualClock) -> None:
        self._on_hold_at_the_gate(gated, until=clock() + SECOND)
        clock.advance(2 * SECOND)
        assert gated.store.undecided(gated.plan, "review") == {}
        assert gated.store.wake(gated.plan, who="bob") == 1
        assert gated.standing().state == "waiting"

    def test_what_is_on_hold_at_a_gate_gets_no_time_to_decide(self, gated: Desk) -> None:
        self._on_hold_at_the_gate(gated)
        assert gated.store.set_time(gated.plan, "review", within=SECOND) == 0
        assert gated.standing().due_at is None

    def test_who_is_on_hold_is_found_by_it(self, gated: Desk) -> None:
        gated.submit("b", "c")
        gated.store.pause([gated.standing("b").id], **WHO)
        parked = gated.claim_one()
        gated.park(parked, at="review")
        assert [one.key for one in gated.store.standings("reviews", state="paused", error=ON_HOLD)] == ["b"]

    def test_a_letter_at_a_step_that_is_gone_is_not_redriven_but_rewound(self, desk: Desk) -> None:
        claim = desk.advance(desk.take_in())
        desk.bury(claim)
        extract, _, embed = PAPERS.steps
        plan = desk.store.declare(Shape("papers", (extract, replace(embed, over="extract"))))
        assert desk.store.redrive([claim.document_id], **WHO) == []
        assert desk.store.declare(desk.store.shape("papers") or PAPERS) == plan  # workers still start
        assert desk.store.rewind_to(plan, [claim.document_id], to="extract", **WHO) == [claim.document_id]

    def test_the_plan_is_looked_up_without_declaring_it(self, desk: Desk) -> None:
        assert desk.store.plan("papers") == desk.plan
        assert desk.store.plan("letters") is None

    @pytest.mark.parametrize("said", ["legal hold", ""])
    def test_a_rewind_that_keeps_a_hold_keeps_its_mark_and_its_end(
        self, gated: Desk, clock: ManualClock, said: str
    ) -> None:
        gated.submit("a")
        ids, until = [gated.standing().id], clock() + SECOND
        gated.store.pause(ids, who="counsel", reason=said, until=until)
        assert gated.store.rewind_to(gated.plan, ids, to="read", parked="legal hold", **WHO) == ids
        here = gated.standing()
        assert (here.state, here.reason, here.error, here.due_at) == ("paused", "legal hold", ON_HOLD, until)

    def test_a_rewind_that_parks_for_another_reason_ends_the_hold(self, gated: Desk, clock: ManualClock) -> None:
        gated.submit("a")
        ids = [gated.standing().id]
        gated.store.pause(ids, who="counsel", reason="legal hold", until=clock() + SECOND)
        assert gated.store.rewind_to(gated.plan, ids, to="read", parked="to be looked at", **WHO) == ids
        here = gated.standing()
        assert (here.state, here.reason, here.error, here.due_at) == ("paused", "to be looked at", "", None)

    def test_a_rewind_that_lets_it_wait_ends_the_hold(self, gated: Desk, clock: ManualClock) -> None:
        gated.submit("a")
        ids = [gated.standing().id]
        gated.store.pause(ids, who="counsel", reason="", until=clock() + SECOND)
        assert gated.store.rewind_to(gated.plan, ids, to="read", **WHO) == ids
        assert (gated.standing().state, gated.standing().error, gated.standing().due_at) == ("waiting", "", clock())
