"""Releases: claims that end without a move, because of a failure, a delay, an interruption or a pause."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from holdfast.core.model import Checkpoint, Failure
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, StoreHarness


class DerivedTime(datetime):
    """A time of a type of its own, as other libraries have them."""


class DerivedDuration(timedelta):
    """A duration of a type of its own."""


class ReleaseConformance(Conformance):
    """Tests of release."""

    def test_a_failed_document_waits_for_its_next_attempt(self, harness: StoreHarness) -> None:
        failure = Failure("ValueError", "page 3 is torn", "Traceback ...")
        assert harness.release(harness.submit_and_claim(), delay=SECOND * 5, failure=failure)
        status = harness.document()
        assert (status.state, status.holder, status.due_at) == ("waiting", "", harness.clock() + SECOND * 5)
        assert status.reason == "ValueError: page 3 is torn"

    def test_a_release_keeps_the_checkpoint(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        moved_at = harness.clock()
        harness.clock.advance(SECOND)
        harness.release(claim)
        assert harness.document().checkpoint == Checkpoint(0, "extract", 2, 1)
        assert harness.document().moved_at == moved_at
        assert harness.items(claim) == [("extract", 0, "1"), ("extract", 1, "2")]

    def test_a_dead_letter_keeps_checkpoint_items_and_history(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        harness.make_dead(claim)
        status = harness.document()
        assert (status.state, status.reason, status.due_at) == ("dead", "ValueError: not a page", None)
        assert status.checkpoint == Checkpoint(0, "extract", 1, 1)
        assert harness.items(claim) == [("extract", 0, "1")]
        assert harness.verbs(claim) == ["fail"]

    def test_a_release_is_journalled_with_its_error(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        harness.clock.advance(SECOND)
        harness.release(claim, failure=Failure("ValueError", "torn", "line 1"), reason="third try", costs="crash")
        (entry,) = harness.store.journal(claim.document_id)
        assert (entry.at, entry.verb, entry.who) == (harness.clock(), "fail", "ann")
        assert (entry.generation, entry.step, entry.cursor) == (0, "extract", 2)
        assert entry.detail == {
            "was": "running",
            "state": "waiting",
            "reason": "third try",
            "error": {
                "kind": "ValueError",
                "message": "torn",
                "traceback": "line 1",
                "recoverable": None,
                "category": "",
            },
            "costs": "crash",
        }

    def test_losses_deferrals_and_interruptions_are_counted_until_the_document_moves(
        self, harness: StoreHarness
    ) -> None:
        harness.submit("a")
        first = harness.clock()
        for costs in ("loss", "deferral", "deferral", "interruption", "nothing"):
            harness.release(harness.claim_one(), costs=costs)
            harness.clock.advance(SECOND)
        status = harness.document()
        assert (status.losses, status.deferrals, status.interruptions) == (1, 2, 1)
        assert (status.attempts, status.crashes, status.deferred_at) == (0, 0, first + SECOND)
        claim = harness.claim_one()
        assert (claim.losses, claim.deferrals, claim.interruptions) == (1, 2, 1)
        assert claim.deferred_for == SECOND * 4
        harness.release(harness.keep(claim, "1"))
        status, claim = harness.document(), harness.claim_one()
        assert (status.losses, status.deferrals, status.deferred_at, status.interruptions) == (0, 0, None, 0)
        assert (claim.losses, claim.deferrals, claim.deferred_for, claim.interruptions) == (0, 0, SECOND * 0, 0)

    @pytest.mark.parametrize("recoverable", [True, False, None])
    def test_a_failure_is_kept_with_what_is_known_about_it(
        self, harness: StoreHarness, *, recoverable: bool | None
    ) -> None:
        failure = Failure("TimeoutError", "", recoverable=recoverable)
        harness.release(harness.submit_and_claim(), failure=failure)
        assert harness.document().recoverable is recoverable
        harness.release(harness.claim_one(), state="dead", failure=failure)
        harness.store.redrive([harness.document().id], who="cat", reason="again")
        assert harness.document().recoverable is None

    def test_a_move_replaces_extents_if_it_has_some(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        assert claim.extents is None
        harness.release(harness.advance(claim, extents={"extract": 2}))
        claim = harness.claim_one()
        assert claim.extents == {"extract": 2}
        harness.release(harness.advance(claim, extents={"extract": 2, "chunk": 9}))
        claim = harness.claim_one()
        assert claim.extents == {"extract": 2, "chunk": 9}

    @pytest.mark.parametrize("verb", ["fail", "release", "pause", "defer"])
    def test_a_release_is_journalled_under_its_verb(self, harness: StoreHarness, verb: str) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim, verb=verb, reason="so")
        (entry,) = harness.store.journal(claim.document_id)
        assert (entry.verb, entry.detail["error"], entry.detail["reason"]) == (verb, None, "so")

    def test_a_document_paused_without_a_date_is_not_due(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), state="paused", verb="pause", reason="ask ann")
        status = harness.document()
        assert (status.state, status.reason, status.due_at, status.holder) == ("paused", "ask ann", None, "")
        assert harness.store.next_due(harness.plan) is None

    def test_a_document_paused_until_a_date_is_due_then(self, harness: StoreHarness) -> None:
        until = harness.clock() + timedelta(days=2)
        harness.release(harness.submit_and_claim(), state="paused", verb="pause", until=until)
        assert harness.document().due_at == until

    def test_a_date_in_another_time_zone_is_the_same_time(self, harness: StoreHarness) -> None:
        until = (harness.clock() + SECOND).astimezone(timezone(timedelta(hours=5, minutes=30)))
        harness.release(harness.submit_and_claim(), state="paused", until=until)
        assert harness.document().due_at == until

    def test_a_delay_may_be_a_fraction_of_a_second(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), delay=timedelta(microseconds=1500))
        assert harness.store.next_due(harness.plan) == timedelta(microseconds=1500)

    def test_a_lost_claim_is_not_released(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.reclaim(gone=[harness.worker.id])
        before = harness.document()
        assert not harness.release(claim, state="dead")
        assert harness.document() == before
        assert harness.verbs(claim) == ["reclaim"]

    def test_a_stale_claim_cannot_release_a_document_that_another_worker_holds(self, harness: StoreHarness) -> None:
        stale = harness.submit_and_claim()
        harness.reclaim(gone=[harness.worker.id])
        fresh = harness.claim_one(worker=harness.register_worker("bob"))
        assert not harness.release(stale, state="dead")
        harness.advance(fresh)

    def test_a_claim_is_released_once(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        assert harness.release(claim)
        assert not harness.release(claim)
        assert harness.document().attempts == 1

    def test_a_claim_that_is_named_twice_in_one_call_is_released_once(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        first, second = harness.a_release(claim, state="dead"), harness.a_release(claim)
        assert harness.store.release([first, second]) == [True, False]
        assert harness.document().state == "dead"
        assert len(harness.store.journal(claim.document_id)) == 1

    @pytest.mark.parametrize("days", [0.1, 1, 30, 3650])
    def test_a_delay_may_be_long(self, harness: StoreHarness, days: float) -> None:
        harness.release(harness.submit_and_claim(), delay=timedelta(days=days))
        assert harness.document().due_at == harness.clock() + timedelta(days=days)

    def test_times_and_durations_may_be_of_derived_types(self, harness: StoreHarness) -> None:
        at = harness.clock() + timedelta(days=1)
        until = DerivedTime(*at.timetuple()[:6], tzinfo=at.tzinfo)
        harness.release(harness.submit_and_claim("a"), state="paused", verb="pause", until=until)
        assert harness.document("a").due_at == until
        harness.release(harness.submit_and_claim("b"), delay=DerivedDuration(seconds=3))
        assert harness.document("b").due_at == harness.clock() + timedelta(seconds=3)
        harness.register_worker("bob", lease=DerivedDuration(seconds=30))

    def test_a_claim_of_an_earlier_generation_is_not_released(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="why")
        assert not harness.release(claim)
        assert harness.document().state == "running"

    def test_a_claim_is_released_after_its_own_moves(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim()
        harness.keep(first, "1")
        assert harness.release(first)

    def test_each_release_has_its_own_answer(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        a, b, c = harness.claim()
        harness.store.cancel([b.document_id], who="ann", reason="no")
        endings = [harness.a_release(a), harness.a_release(b), harness.a_release(c, state="dead")]
        assert harness.store.release(endings) == [True, False, True]
        assert [harness.document(key).state for key in "abc"] == ["waiting", "cancelled", "dead"]

    def test_a_release_of_no_claims_does_nothing(self, harness: StoreHarness) -> None:
        assert harness.store.release([]) == []

    def test_a_claim_of_one_store_is_released_through_another(self, harness: StoreHarness, other: Store) -> None:
        assert other.release([harness.a_release(harness.submit_and_claim())]) == [True]

    def test_the_next_claim_does_not_clear_the_reason(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), failure=Failure("ValueError", "torn"))
        harness.claim_one()
        assert harness.document().reason == "ValueError: torn"

    def test_any_text_can_be_journalled(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        text = "naïve 文 🦀 'quoted' \"twice\" \\ \n\t"
        harness.release(claim, failure=Failure("Error", text, text * 100), reason=text)
        (entry,) = harness.store.journal(claim.document_id)
        assert (entry.detail["reason"], entry.detail["error"]["traceback"]) == (text, text * 100)
        assert harness.document().reason == f"Error: {text}"
