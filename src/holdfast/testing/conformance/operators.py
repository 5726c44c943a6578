"""Somebody decides about many documents at once: pause, accept, prioritise, redrive at a rate; and never twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.moves import LOST
from holdfast.testing.conformance.base import SECOND, Conformance, Desk

WHO: dict[str, Any] = {"who": "cat", "reason": "why"}
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


def close_batch(desk: Desk, batch: str = "march") -> None:
    """Closes a batch: what is open is cancelled, and dead letters are tolerated."""
    desk.store.cancel(desk.store.select(desk.plan.pipeline, batch=batch), **WHO)
    desk.store.seal(desk.plan.pipeline, batch, who="cat")
    desk.store.close_batch(desk.plan, batch, tolerate=1.0, **WHO)


def in_every_state(desk: Desk) -> dict[str, int]:
    """Documents named after the states that they are in."""
    desk.submit("waiting", "running", "paused", "done", "dead", "cancelled")
    claims = {claim.key: claim for claim in desk.claim()}
    desk.give_back(claims["waiting"])
    desk.give_back(claims["paused"], state="paused")
    desk.finish(claims["done"])
    desk.bury(claims["dead"])
    desk.store.cancel([claims["cancelled"].document_id], **WHO)
    return {key: claim.document_id for key, claim in claims.items()}


class EveryDecisionConformance(Conformance):
    """What all decisions promise."""

    @each
    def test_a_decision_changes_those_it_applies_to_and_says_which(self, desk: Desk, verb: str) -> None:
        ids = in_every_state(desk)
        decide, applies = DECISIONS[verb]
        before = {key: desk.standing(key) for key in ids}
        assert decide(desk, [*ids.values(), 10**9]) == sorted(ids[key] for key in applies)
        changed = [key for key in ids if desk.standing(key) != before[key]]
        assert changed == [key for key in ids if key in applies]

    @each
    def test_a_decision_is_one_line_each_with_who_and_why_before_and_after(self, desk: Desk, verb: str) -> None:
        ids = in_every_state(desk)
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
        ids = [*in_every_state(desk).values()]
        decide, applies = DECISIONS[verb]
        assert len(decide(desk, ids)) == len(applies)
        again = decide(desk, ids)
        assert again == (sorted(ids) if verb == "rewind" else [])

    @each
    def test_a_document_named_twice_is_decided_once(self, desk: Desk, verb: str) -> None:
        ids = in_every_state(desk)
        decide, applies = DECISIONS[verb]
        number = ids[applies[0]]
        lines = len(desk.store.journal(number))
        assert decide(desk, [number, number]) == [number]
        assert len(desk.store.journal(number)) == lines + 1

    @each
    def test_no_document_of_a_closed_batch_is_decided(self, desk: Desk, verb: str) -> None:
        ids = in_every_state(desk)
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
        ids = in_every_state(desk)
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
        assert desk.store.wake(desk.plan, who="bob") == 0
        desk.clock.advance(SECOND)
        assert desk.store.wake(desk.plan, who="bob") == 1
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
