"""Claims end without a move: failed, put off, interrupted, paused."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest

from holdfast.core.model import Checkpoint, Failure
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, Desk


class EndingConformance(Conformance):
    """What give_back promises."""

    def test_a_failed_document_waits_for_its_next_try(self, desk: Desk) -> None:
        failure = Failure("ValueError", "page 3 is torn", "Traceback ...")
        assert desk.give_back(desk.take_in(), delay=SECOND * 5, failure=failure)
        here = desk.standing()
        assert (here.state, here.holder, here.due_at) == ("waiting", "", desk.clock() + SECOND * 5)
        assert here.reason == "ValueError: page 3 is torn"

    def test_giving_back_keeps_the_checkpoint(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2")
        moved_at = desk.clock()
        desk.clock.advance(SECOND)
        desk.give_back(claim)
        assert desk.standing().checkpoint == Checkpoint(0, "extract", 2, 1)
        assert desk.standing().moved_at == moved_at
        assert desk.items(claim) == [("extract", 0, "1"), ("extract", 1, "2")]

    def test_a_dead_letter_keeps_checkpoint_items_and_history(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        desk.bury(claim)
        here = desk.standing()
        assert (here.state, here.reason, here.due_at) == ("dead", "ValueError: not a page", None)
        assert here.checkpoint == Checkpoint(0, "extract", 1, 1)
        assert desk.items(claim) == [("extract", 0, "1")]
        assert desk.verbs(claim) == ["fail"]

    def test_an_ending_is_journalled_with_its_error(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2")
        desk.clock.advance(SECOND)
        desk.give_back(claim, failure=Failure("ValueError", "torn", "line 1"), reason="third try", costs="crash")
        (entry,) = desk.store.journal(claim.document_id)
        assert (entry.at, entry.verb, entry.who) == (desk.clock(), "fail", "ann")
        assert (entry.generation, entry.step, entry.cursor) == (0, "extract", 2)
        assert entry.detail == {
            "was": "running",
            "state": "waiting",
            "reason": "third try",
            "error": {"kind": "ValueError", "message": "torn", "traceback": "line 1"},
            "costs": "crash",
        }

    @pytest.mark.parametrize("verb", ["fail", "release", "pause", "defer"])
    def test_an_ending_is_journalled_under_its_verb(self, desk: Desk, verb: str) -> None:
        claim = desk.take_in()
        desk.give_back(claim, verb=verb, reason="so")
        (entry,) = desk.store.journal(claim.document_id)
        assert (entry.verb, entry.detail["error"], entry.detail["reason"]) == (verb, None, "so")

    def test_a_document_paused_for_good_is_not_due(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), state="paused", verb="pause", reason="ask ann")
        here = desk.standing()
        assert (here.state, here.reason, here.due_at, here.holder) == ("paused", "ask ann", None, "")
        assert desk.store.next_due(desk.plan) is None

    def test_a_document_paused_until_a_date_is_due_then(self, desk: Desk) -> None:
        until = desk.clock() + timedelta(days=2)
        desk.give_back(desk.take_in(), state="paused", verb="pause", until=until)
        assert desk.standing().due_at == until

    def test_a_date_of_another_zone_is_the_same_moment(self, desk: Desk) -> None:
        until = (desk.clock() + SECOND).astimezone(timezone(timedelta(hours=5, minutes=30)))
        desk.give_back(desk.take_in(), state="paused", until=until)
        assert desk.standing().due_at == until

    def test_a_delay_may_be_a_part_of_a_second(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), delay=timedelta(microseconds=1500))
        assert desk.store.next_due(desk.plan) == timedelta(microseconds=1500)

    def test_a_claim_that_was_lost_is_not_given_back(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.reclaim(gone=[desk.worker.id])
        before = desk.standing()
        assert not desk.give_back(claim, state="dead")
        assert desk.standing() == before
        assert desk.verbs(claim) == ["reclaim"]

    def test_a_stale_claim_cannot_give_back_what_another_holds(self, desk: Desk) -> None:
        stale = desk.take_in()
        desk.reclaim(gone=[desk.worker.id])
        fresh = desk.claim_one(worker=desk.enlist("bob"))
        assert not desk.give_back(stale, state="dead")
        desk.advance(fresh)

    def test_a_claim_is_given_back_once(self, desk: Desk) -> None:
        claim = desk.take_in()
        assert desk.give_back(claim)
        assert not desk.give_back(claim)
        assert desk.standing().attempts == 1

    def test_a_claim_of_an_earlier_generation_is_not_given_back(self, desk: Desk) -> None:
        claim = desk.advance(desk.take_in())
        desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason="why")
        assert not desk.give_back(claim)
        assert desk.standing().state == "running"

    def test_the_claim_gives_back_after_moves_of_its_own(self, desk: Desk) -> None:
        first = desk.take_in()
        desk.keep(first, "1")
        assert desk.give_back(first)

    def test_endings_are_answered_one_by_one(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        a, b, c = desk.claim()
        desk.store.cancel([b.document_id], who="ann", reason="no")
        endings = [desk.ending(a), desk.ending(b), desk.ending(c, state="dead")]
        assert desk.store.give_back(endings) == [True, False, True]
        assert [desk.standing(key).state for key in "abc"] == ["waiting", "cancelled", "dead"]

    def test_no_endings_are_no_work(self, desk: Desk) -> None:
        assert desk.store.give_back([]) == []

    def test_a_claim_of_one_store_is_given_back_through_another(self, desk: Desk, other: Store) -> None:
        assert other.give_back([desk.ending(desk.take_in())]) == [True]

    def test_the_next_claim_does_not_clear_the_reason(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), failure=Failure("ValueError", "torn"))
        desk.claim_one()
        assert desk.standing().reason == "ValueError: torn"

    def test_texts_of_any_kind_are_journalled(self, desk: Desk) -> None:
        claim = desk.take_in()
        text = "naïve 文 🦀 'quoted' \"twice\" \\ \n\t"
        desk.give_back(claim, failure=Failure("Error", text, text * 100), reason=text)
        (entry,) = desk.store.journal(claim.document_id)
        assert (entry.detail["reason"], entry.detail["error"]["traceback"]) == (text, text * 100)
        assert desk.standing().reason == f"Error: {text}"
