"""Documents are claimed: which, in what order, by whom, and what it costs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.model import Checkpoint
from holdfast.testing.conformance.base import SECOND, Conformance, Desk


class ClaimConformance(Conformance):
    """What claim promises."""

    def test_a_claim_carries_all_that_a_worker_needs(self, desk: Desk) -> None:
        desk.submit("a", payload={"path": "a.pdf"}, fingerprint="f1")
        desk.clock.advance(SECOND)
        claim = desk.claim_one()
        assert claim.document_id == desk.standing().id
        assert (claim.batch, claim.key, claim.fingerprint) == ("march", "a", "f1")
        assert claim.payload == {"path": "a.pdf"}
        assert claim.checkpoint == Checkpoint(0, "extract", None, 0)
        assert (claim.attempts, claim.crashes, claim.reuses) == (1, 0, None)
        assert claim.cursor_age == SECOND

    def test_a_claimed_document_runs_with_its_worker(self, desk: Desk) -> None:
        desk.take_in()
        here = desk.standing()
        assert (here.state, here.holder, here.attempts, here.due_at) == ("running", "ann", 1, None)

    def test_a_claimed_document_is_not_given_again(self, desk: Desk) -> None:
        desk.take_in()
        assert desk.claim() == []
        assert desk.claim(worker=desk.enlist("bob")) == []

    def test_a_claim_takes_no_more_than_its_limit(self, desk: Desk) -> None:
        desk.submit(*"abcde")
        assert desk.keys_claimed(limit=2) == ["a", "b"]
        assert desk.keys_claimed(limit=2) == ["c", "d"]
        assert desk.keys_claimed(limit=2) == ["e"]
        assert desk.keys_claimed(limit=2) == []

    def test_a_claim_of_none_takes_none(self, desk: Desk) -> None:
        desk.submit("a")
        assert desk.claim(limit=0) == []
        assert desk.standing().state == "waiting"

    def test_claims_come_by_priority(self, desk: Desk) -> None:
        desk.submit("low", priority=-1)
        desk.submit("usual")
        desk.submit("high", priority=5)
        assert desk.keys_claimed() == ["high", "usual", "low"]

    def test_a_high_priority_is_served_before_an_older_document(self, desk: Desk) -> None:
        desk.submit("old")
        desk.clock.advance(SECOND * 3600)
        desk.submit("high", priority=1)
        assert [desk.claim_one().key, desk.claim_one().key] == ["high", "old"]

    def test_within_a_priority_the_oldest_comes_first(self, desk: Desk) -> None:
        for key in ("first", "second", "third"):
            desk.submit(key, priority=2)
            desk.clock.advance(SECOND)
        assert [desk.claim_one().key for _ in range(3)] == ["first", "second", "third"]

    def test_of_the_same_moment_the_first_named_comes_first(self, desk: Desk) -> None:
        desk.submit("z", "m", "a")
        assert desk.keys_claimed() == ["z", "m", "a"]

    def test_a_document_that_was_put_off_waits_behind_those_due_before(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.give_back(desk.claim_one(), delay=SECOND)
        desk.clock.advance(SECOND * 2)
        assert [desk.claim_one().key, desk.claim_one().key] == ["b", "a"]

    def test_only_due_documents_are_claimed(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), delay=SECOND * 10)
        desk.clock.advance(SECOND * 10 - timedelta(microseconds=1))
        assert desk.claim() == []
        desk.clock.advance(timedelta(microseconds=1))
        assert desk.keys_claimed() == ["a"]

    def test_a_clock_that_jumps_back_lets_documents_wait_longer_and_loses_none(self, desk: Desk) -> None:
        desk.submit("a")
        desk.clock.advance(-SECOND * 60)
        assert desk.claim() == []
        assert desk.store.next_due(desk.plan) == SECOND * 60
        desk.clock.advance(SECOND * 60)
        assert desk.keys_claimed() == ["a"]

    def test_only_the_batch_that_was_asked_for_is_claimed(self, desk: Desk) -> None:
        desk.submit("a", batch="march")
        desk.submit("b", batch="april")
        assert desk.keys_claimed(batch="april") == ["b"]
        assert desk.keys_claimed(batch="april") == []
        assert desk.keys_claimed() == ["a"]

    def test_an_unknown_batch_has_nothing_to_claim(self, desk: Desk) -> None:
        desk.submit("a")
        assert desk.claim(batch="never") == []

    def test_only_documents_of_the_pipeline_are_claimed(self, desk: Desk, gated: Desk) -> None:
        desk.submit("a")
        gated.submit("b")
        assert gated.keys_claimed() == ["b"]
        assert desk.keys_claimed() == ["a"]

    @pytest.mark.parametrize("state", ["paused", "dead"])
    def test_what_does_not_wait_is_not_claimed(self, desk: Desk, state: str) -> None:
        desk.give_back(desk.take_in(), state=state)
        assert desk.claim() == []
        assert desk.store.claim_suspect(desk.plan, desk.worker) == []

    def test_done_and_cancelled_documents_are_not_claimed(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        desk.finish(first)
        desk.store.cancel([second.document_id], who="ann", reason="no")
        assert desk.claim() == []

    def test_the_fence_grows_with_each_claim(self, desk: Desk) -> None:
        first = desk.take_in()
        desk.give_back(first)
        second = desk.claim_one()
        assert second.fence > first.fence

    def test_a_claim_goes_on_where_the_last_one_stopped(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2", "3")
        desk.give_back(claim)
        assert desk.claim_one().checkpoint == Checkpoint(0, "extract", 3, 1)

    @pytest.mark.parametrize("cursor", [0, 7, "page-7", {"next": 3, "done": [[5, 9]]}, [1, "x", None], "ü\x00", 1.5])
    def test_a_cursor_may_be_any_json(self, desk: Desk, cursor: object) -> None:
        claim = desk.take_in()
        desk.commit(desk.within(claim, cursor))
        assert desk.standing().checkpoint.cursor == cursor
        desk.store.retire(desk.worker)
        assert desk.claim_one(worker=desk.enlist("bob")).checkpoint.cursor == cursor

    def test_the_age_of_a_cursor_is_counted_from_the_last_move(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(SECOND * 5)
        desk.give_back(desk.keep(claim, "1"))
        desk.clock.advance(SECOND * 7)
        assert desk.claim_one().cursor_age == SECOND * 7

    def test_a_big_claim_is_given_whole(self, desk: Desk) -> None:
        keys = [f"doc-{number:04}" for number in range(700)]
        desk.submit(*keys)
        assert desk.keys_claimed(limit=1000) == keys


class AttemptConformance(Conformance):
    """What is counted, and when it is forgotten."""

    def test_an_attempt_is_counted_at_the_claim(self, desk: Desk) -> None:
        assert desk.take_in().attempts == 1
        assert desk.standing().attempts == 1

    def test_a_failed_attempt_stays_counted(self, desk: Desk) -> None:
        desk.give_back(desk.take_in())
        assert desk.standing().attempts == 1
        assert desk.claim_one().attempts == 2

    def test_an_interruption_is_refunded(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), verb="release", costs="nothing")
        assert desk.standing().attempts == 0
        assert desk.claim_one().attempts == 1

    def test_a_crash_is_counted_apart(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), costs="crash")
        assert (desk.standing().attempts, desk.standing().crashes) == (0, 1)
        claim = desk.claim_one()
        assert (claim.attempts, claim.crashes) == (1, 1)

    def test_a_move_begins_the_count_anew(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), costs="crash")
        desk.give_back(desk.claim_one())
        claim = desk.claim_one()
        assert (claim.attempts, claim.crashes) == (2, 1)
        desk.advance(claim)
        assert (desk.standing().attempts, desk.standing().crashes) == (1, 0)

    def test_a_move_within_a_step_begins_the_count_anew(self, desk: Desk) -> None:
        desk.give_back(desk.take_in())
        desk.keep(desk.claim_one(), "1")
        assert desk.standing().attempts == 1

    def test_an_interruption_after_a_move_leaves_no_attempt(self, desk: Desk) -> None:
        desk.give_back(desk.keep(desk.take_in(), "1"), verb="release", costs="nothing")
        assert desk.standing().attempts == 0

    def test_attempts_are_never_less_than_none(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), costs="nothing")
        desk.give_back(desk.claim_one(), costs="crash")
        desk.store.retire(desk.worker)
        assert desk.standing().attempts == 0


class SuspectConformance(Conformance):
    """What happens to documents that crash their workers."""

    def test_a_document_that_crashed_once_is_claimed_as_usual(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash()
        assert not desk.store.suspects_due(desk.plan)
        assert desk.store.claim_suspect(desk.plan, desk.worker) == []
        assert desk.claim_one().crashes == 1

    def test_a_suspect_is_given_by_claim_suspect_alone(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash(times=2)
        assert desk.claim() == []
        (claim,) = desk.store.claim_suspect(desk.plan, desk.worker)
        assert (claim.key, claim.crashes) == ("a", 2)

    def test_suspects_are_given_one_at_a_time(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.crash(times=2)
        assert len(desk.store.claim_suspect(desk.plan, desk.worker)) == 1
        assert len(desk.store.claim_suspect(desk.plan, desk.worker)) == 1
        assert desk.store.claim_suspect(desk.plan, desk.worker) == []

    def test_suspects_of_the_batch_that_was_asked_for_are_given(self, desk: Desk) -> None:
        desk.submit("a", batch="march")
        desk.submit("b", batch="april")
        desk.crash(times=2)
        (claim,) = desk.store.claim_suspect(desk.plan, desk.worker, batch="april")
        assert claim.key == "b"

    def test_a_suspect_of_another_batch_is_not_due(self, desk: Desk) -> None:
        desk.submit("a", batch="march")
        desk.submit("b", batch="april")
        desk.crash()
        desk.finish(desk.claim_one(batch="april"))
        desk.crash()
        assert desk.store.suspects_due(desk.plan)
        assert desk.store.suspects_due(desk.plan, batch="march")
        assert not desk.store.suspects_due(desk.plan, batch="april")
        assert not desk.store.suspects_due(desk.plan, batch="may")

    def test_a_suspect_at_a_step_that_the_plan_lacks_is_not_due(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash(times=2)
        later = {name: number for name, number in desk.plan.step_ids.items() if name != "extract"}
        assert not desk.store.suspects_due(replace(desk.plan, step_ids=later))

    def test_a_suspect_is_due_when_its_time_has_come(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash()
        victim = desk.enlist("victim")
        desk.claim(worker=victim)
        desk.reclaim(gone=[victim.id], verdict=lambda *_: ("waiting", SECOND))
        assert not desk.store.suspects_due(desk.plan)
        assert desk.store.claim_suspect(desk.plan, desk.worker) == []
        desk.clock.advance(SECOND)
        assert desk.store.suspects_due(desk.plan)
        assert len(desk.store.claim_suspect(desk.plan, desk.worker)) == 1

    def test_no_suspect_is_due_while_it_is_worked_on(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash(times=2)
        desk.store.claim_suspect(desk.plan, desk.worker)
        assert not desk.store.suspects_due(desk.plan)

    def test_suspects_of_other_pipelines_are_not_mine(self, desk: Desk, gated: Desk) -> None:
        gated.submit("a")
        gated.crash(times=2)
        assert gated.store.suspects_due(gated.plan)
        assert not desk.store.suspects_due(desk.plan)
        assert desk.store.claim_suspect(desk.plan, desk.worker) == []

    def test_a_suspect_that_moves_is_one_no_more(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash(times=2)
        (claim,) = desk.store.claim_suspect(desk.plan, desk.worker)
        desk.give_back(desk.advance(claim))
        assert desk.claim_one().crashes == 0

    def test_a_suspect_is_overdue_by_its_own_deadline(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash(times=2)
        desk.store.claim_suspect(desk.plan, desk.worker, timeouts={"extract": SECOND})
        desk.clock.advance(SECOND * 2)
        assert [one.reason for one in desk.reclaim()] == ["overdue at extract"]
