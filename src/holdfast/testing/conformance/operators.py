"""Somebody decides about many documents at once: pause, accept, prioritise, redrive at a rate; and never twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.model import ON_HOLD, Checkpoint, Claim
from holdfast.core.moves import LOST
from holdfast.core.plan import Shape
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import LEASE, PAPERS, SECOND, Conformance, Desk

WHO: dict[str, Any] = {"who": "cat", "reason": "why"}


def close_batch(desk: Desk, batch: str = "march") -> None:
    """Closes a batch, as nothing is decided about its documents afterwards."""
    tables = getattr(desk.store, "_tables", None)
    if tables is None:
        closed = "state = 'closed', closed_at = created_at, report = '{}'"
        desk.sql(f"update hf_batch set {closed} where name = '{batch}'")  # noqa: S608
        return
    for row in list(tables.batches.values()):
        if row.name == batch:
            tables.batches[row.id] = replace(row, state="closed", closed_at=row.created_at, report="{}")


def _in_every_state(desk: Desk) -> dict[str, int]:
    """Documents named after the states that they are in."""
    desk.submit("waiting", "running", "paused", "done", "dead", "cancelled")
    claims = {claim.key: claim for claim in desk.claim()}
    desk.give_back(claims["waiting"])
    desk.give_back(claims["paused"], state="paused")
    desk.finish(claims["done"])
    desk.bury(claims["dead"])
    desk.store.cancel([claims["cancelled"].document_id], **WHO)
    return {key: claim.document_id for key, claim in claims.items()}


DECISIONS: dict[str, tuple[Callable[[Desk, list[int]], list[int]], list[str]]] = {
    "resume": (lambda desk, ids: desk.store.resume(desk.plan, ids, **WHO), ["paused"]),
    "reject": (lambda desk, ids: desk.store.reject(ids, **WHO), ["paused"]),
    "pause": (lambda desk, ids: desk.store.pause(ids, **WHO), ["waiting", "running"]),
    "cancel": (lambda desk, ids: desk.store.cancel(ids, **WHO), ["waiting", "running", "paused"]),
    "redrive": (lambda desk, ids: desk.store.redrive(ids, **WHO), ["dead"]),
    "accept": (lambda desk, ids: desk.store.accept(ids, **WHO), ["dead"]),
    "prioritise": (
        lambda desk, ids: desk.store.prioritise(ids, priority=3, **WHO),
        ["waiting", "running", "paused", "dead"],
    ),
    "rewind": (
        lambda desk, ids: desk.store.rewind_to(desk.plan, ids, to="extract", **WHO),
        ["waiting", "running", "paused", "done", "dead", "cancelled"],
    ),
}


each = pytest.mark.parametrize("verb", DECISIONS)


class EveryDecisionConformance(Conformance):
    """What all decisions promise."""

    @each
    def test_a_decision_changes_those_it_applies_to_and_says_which(self, desk: Desk, verb: str) -> None:
        ids = _in_every_state(desk)
        decide, applies = DECISIONS[verb]
        before = {key: desk.standing(key) for key in ids}
        assert decide(desk, [*ids.values(), 10**9]) == sorted(ids[key] for key in applies)
        changed = [key for key in ids if desk.standing(key) != before[key]]
        assert changed == [key for key in ids if key in applies]

    @each
    def test_a_decision_is_one_line_each_with_who_and_why_before_and_after(self, desk: Desk, verb: str) -> None:
        ids = _in_every_state(desk)
        lines = {key: len(desk.store.journal(number)) for key, number in ids.items()}
        decide, applies = DECISIONS[verb]
        decide(desk, [*ids.values()])
        for key, number in ids.items():
            new = desk.store.journal(number)[lines[key] :]
            assert [(one.verb, one.who) for one in new] == [(verb, "cat")] * (key in applies)
            for line in new:
                assert line.at == desk.clock()
                assert (line.detail["reason"], line.detail["was"]) == ("why", key)
                assert line.detail["state"] == desk.standing(key).state

    @each
    def test_a_decision_made_again_finds_nothing_to_do(self, desk: Desk, verb: str) -> None:
        ids = [*_in_every_state(desk).values()]
        decide, applies = DECISIONS[verb]
        assert len(decide(desk, ids)) == len(applies)
        again = decide(desk, ids)
        assert again == (sorted(ids) if verb == "rewind" else [])

    @each
    def test_a_document_named_twice_is_decided_once(self, desk: Desk, verb: str) -> None:
        ids = _in_every_state(desk)
        decide, applies = DECISIONS[verb]
        number = ids[applies[0]]
        lines = len(desk.store.journal(number))
        assert decide(desk, [number, number]) == [number]
        assert len(desk.store.journal(number)) == lines + 1

    @each
    def test_no_document_of_a_closed_batch_is_decided(self, desk: Desk, verb: str) -> None:
        ids = _in_every_state(desk)
        desk.submit("open", batch="april")
        close_batch(desk)
        before = desk.store.standings("papers")
        decide, _ = DECISIONS[verb]
        assert decide(desk, [*ids.values()]) == []
        assert desk.store.standings("papers") == before

    @each
    def test_nothing_decided_is_nothing_done(self, desk: Desk, verb: str) -> None:
        desk.submit("a")
        before = desk.standing()
        decide, _ = DECISIONS[verb]
        assert decide(desk, []) == []
        assert desk.standing() == before

    @each
    def test_text_of_any_kind_may_be_said(self, desk: Desk, verb: str) -> None:
        ids = _in_every_state(desk)
        words = 'so "quoted", \\ and ünïcode\n{}'
        said: dict[str, Any] = {"who": 'O\'Hara "x"', "reason": words}
        more: dict[str, dict[str, Any]] = {"prioritise": {"priority": 3}, "rewind": {"to": "extract"}}
        decide = getattr(desk.store, "rewind_to" if verb == "rewind" else verb)
        about = [*ids.values()]
        asked = (desk.plan, about) if verb in ("resume", "rewind") else (about,)
        (first, *_) = decide(*asked, **said, **more.get(verb, {}))
        line = desk.store.journal(first)[-1]
        assert (line.who, line.detail["reason"]) == (said["who"], words)


class OperatorConformance(Conformance):
    """What pause, accept, prioritise and a rate promise."""

    def test_a_paused_document_is_taken_from_its_worker_and_costs_no_attempt(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        assert desk.store.pause([claim.document_id], **WHO)
        here = desk.standing()
        assert (here.state, here.reason, here.holder, here.attempts) == ("paused", "why", "", 0)
        assert here.checkpoint.cursor == 1
        assert desk.commit(desk.within(claim, 2)) == [LOST]
        assert not desk.give_back(claim)
        assert desk.reclaim(gone=[desk.worker.id]) == []

    def test_a_pause_may_end_by_itself(self, desk: Desk) -> None:
        desk.submit("a")
        desk.store.pause(desk.store.select("papers"), until=desk.clock() + SECOND, **WHO)
        assert desk.store.wake(desk.plan) == 0
        desk.clock.advance(SECOND)
        assert desk.store.wake(desk.plan) == 1
        assert desk.keys_claimed() == ["a"]

    def test_a_paused_document_goes_on_where_it_was_after_a_resume(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2")
        desk.store.pause([claim.document_id], **WHO)
        desk.store.resume(desk.plan, [claim.document_id], **WHO)
        again = desk.claim_one()
        assert (again.checkpoint.step, again.checkpoint.cursor) == ("extract", 2)
        desk.keep(again, "3", start=2)

    def test_dead_letters_are_redriven_at_a_rate(self, desk: Desk) -> None:
        desk.submit(*"abc")
        for claim in desk.claim():
            desk.bury(claim)
        ids = desk.store.select("papers")
        assert desk.store.redrive(ids, every=SECOND, after=5 * SECOND, **WHO) == ids
        due = [desk.standing(key).due_at for key in "abc"]
        assert due == [desk.clock() + (5 + place) * SECOND for place in range(3)]
        desk.clock.advance(6 * SECOND)
        assert desk.keys_claimed() == ["a", "b"]

    def test_an_accepted_dead_letter_says_by_whom_until_it_is_redriven(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.bury(claim)
        desk.store.accept([claim.document_id], **WHO)
        here = desk.standing()
        assert (here.state, here.accepted_by, here.reason) == ("dead", "cat", "ValueError: not a page")
        desk.store.redrive([claim.document_id], **WHO)
        here = desk.standing()
        assert (here.accepted_by, here.error, here.reason) == ("", "", "")

    def test_the_first_to_accept_is_the_one_who_did(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.bury(claim)
        assert desk.store.accept([claim.document_id], who="cat", reason="why")
        assert desk.store.accept([claim.document_id], who="dan", reason="why") == []
        assert desk.standing().accepted_by == "cat"

    def test_the_highest_priority_is_claimed_first(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        b = desk.standing("b").id
        assert desk.store.prioritise([b], priority=2, **WHO) == [b]
        assert desk.claim_one().key == "b"
        (line,) = desk.store.journal(b)
        assert line.detail == {"reason": "why", "was": "waiting", "state": "waiting", "from": 0, "to": 2}

    def test_prioritising_a_held_document_leaves_it_to_its_worker(self, desk: Desk) -> None:
        claim = desk.take_in()
        assert desk.store.prioritise([claim.document_id], priority=2, **WHO)
        desk.advance(claim)

    def test_a_reject_says_so_to_filters(self, gated: Desk) -> None:
        claim = gated.take_in()
        gated.park(claim, at="review")
        gated.store.reject([claim.document_id], **WHO)
        assert gated.store.count("reviews", state="dead", error="Rejected") == 1

    def test_a_decision_about_documents_of_another_pipeline_is_none(self, desk: Desk, gated: Desk) -> None:
        claim = desk.take_in()
        assert gated.store.rewind_to(gated.plan, [claim.document_id], to="read", **WHO) == []
        desk.give_back(claim, state="paused")
        assert gated.store.resume(gated.plan, [claim.document_id], **WHO) == []
        assert desk.standing().state == "paused"

    def test_claims_that_were_lost_are_told(self, desk: Desk) -> None:
        desk.submit(*"abcdef")
        a, b, c, d, e, f = claims = desk.claim()
        assert desk.store.lost(claims) == []
        desk.store.cancel([a.document_id], **WHO)
        desk.store.pause([b.document_id], **WHO)
        desk.store.rewind_to(desk.plan, [c.document_id], to="extract", **WHO)
        desk.submit("d", fingerprint="changed")
        desk.claim(worker=desk.enlist("bob"))  # c and d are another's now
        assert sorted(desk.store.lost(claims)) == [one.document_id for one in (a, b, c, d)]
        assert desk.store.lost([desk.advance(e), f]) == []
        assert desk.store.lost([]) == []


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
        assert gated.store.wake(gated.plan) == 0
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
        assert gated.store.wake(gated.plan) == 1
        assert gated.standing().state == "waiting"

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


class VouchConformance(Conformance):
    """Work that was found to be there is a line in the journal, and nothing else."""

    def test_what_was_found_is_a_line_in_the_journal(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        desk.give_back(claim, verb="release", costs="nothing")
        here = desk.standing()
        assert desk.store.vouch({here.id: here.checkpoint.moves}, steps=["extract", "chunk"], who="cat") == [here.id]
        line = desk.store.journal(here.id)[-1]
        assert (line.verb, line.who, line.step, line.at) == ("verify", "cat", "extract", desk.clock())
        assert line.detail == {"reason": "the work of extract, chunk is there", "steps": ["extract", "chunk"]}
        assert desk.standing() == here

    def test_nobody_vouches_for_a_document_that_moved(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.keep(claim, "1")
        assert desk.store.vouch({claim.document_id: 0, 4711: 0}, steps=["extract"], who="cat") == []
        assert desk.verbs(claim) == []

    def test_nobody_vouches_for_a_document_of_a_closed_batch(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.finish(claim)
        moves = desk.standing().checkpoint.moves
        close_batch(desk, "march")
        assert desk.store.vouch({claim.document_id: moves}, steps=["extract"], who="cat") == []
        assert desk.verbs(claim) == []
