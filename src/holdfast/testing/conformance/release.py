"""Releases: a worker gives documents back. Deferrals and interruptions are counted."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast.core.model import Checkpoint, Claim, Failure, JournalEntry
from holdfast.stores.journal_rules import MAX_LINES
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


def put_off(harness: StoreHarness, reason: str, *, claim: Claim | None = None, **more: Any) -> Claim:
    """Claim the document and put it off. Return the claim."""
    claim = claim or harness.claim_one()
    assert harness.release(claim, **{"verb": "defer", "costs": "deferral", "reason": reason} | more)
    harness.clock.advance(SECOND)
    return claim


def journal(harness: StoreHarness) -> list[JournalEntry]:
    """Return the journal of the document."""
    return harness.store.journal(harness.document().id)


class DeferralConformance(Conformance):
    """Tests of documents that are put off again and again."""

    def test_a_deferral_that_repeats_is_one_line_that_counts(self, harness: StoreHarness) -> None:
        harness.submit("a")
        began = harness.clock()
        for _ in range(187):
            put_off(harness, "throttled")
        (line,) = journal(harness)
        assert (line.verb, line.step, line.detail["reason"], line.times) == ("defer", "extract", "throttled", 187)
        assert (line.at, line.last_at) == (began, began + SECOND * 186)
        assert harness.document().deferrals == 187

    def test_a_line_that_does_not_repeat_has_no_last_time(self, harness: StoreHarness) -> None:
        harness.submit("a")
        put_off(harness, "throttled")
        (line,) = journal(harness)
        assert (line.times, line.last_at) == (1, None)

    def test_two_reasons_that_alternate_are_two_lines(self, harness: StoreHarness) -> None:
        harness.submit("a")
        for _ in range(10):
            put_off(harness, "throttled")
            put_off(harness, "the database is away")
        assert [(line.detail["reason"], line.times) for line in journal(harness)] == [
            ("throttled", 10),
            ("the database is away", 10),
        ]

    def test_reasons_that_never_repeat_do_not_flood_the_journal(self, harness: StoreHarness) -> None:
        harness.submit("a")
        for number in range(MAX_LINES + 30):
            put_off(harness, f"request {number} was refused")
        lines = journal(harness)
        assert len(lines) == MAX_LINES
        assert (lines[-1].times, lines[-1].detail["reason"]) == (31, f"request {MAX_LINES + 29} was refused")

    def test_other_lines_between_do_not_matter(self, harness: StoreHarness) -> None:
        harness.submit("a")
        put_off(harness, "throttled")
        harness.release(harness.claim_one())
        put_off(harness, "throttled")
        assert [(line.verb, line.times) for line in journal(harness)] == [("defer", 2), ("fail", 1)]

    def test_the_same_reason_at_another_step_is_another_line(self, harness: StoreHarness) -> None:
        harness.submit("a")
        put_off(harness, "throttled")
        put_off(harness, "throttled", claim=harness.advance(harness.claim_one()))
        assert [(line.step, line.times) for line in journal(harness)] == [("extract", 1), ("chunk", 1)]

    def test_the_same_reason_in_another_generation_is_another_line(self, harness: StoreHarness) -> None:
        harness.submit("a", fingerprint="1")
        put_off(harness, "throttled")
        harness.submit("a", fingerprint="2")
        put_off(harness, "throttled")
        assert [(line.generation, line.times) for line in journal(harness) if line.verb == "defer"] == [(0, 1), (1, 1)]

    def test_another_code_is_another_line(self, harness: StoreHarness) -> None:
        harness.submit("a")
        put_off(harness, "away")
        put_off(harness, "away", code="unreachable")
        assert [(line.code, line.times) for line in journal(harness)] == [("", 1), ("unreachable", 1)]

    def test_a_line_of_another_document_is_not_used(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        for claim in harness.claim():
            put_off(harness, "throttled", claim=claim)
        assert [line.times for line in journal(harness)] == [1]

    def test_many_documents_are_counted_in_one_call(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        for _ in range(2):
            claims = harness.claim()
            releases = [
                harness.a_release(one, verb="defer", costs="deferral", reason=f"no {one.key}") for one in claims
            ]
            assert harness.store.release(releases) == [True] * 3
        for key in "abc":
            (line,) = harness.store.journal(harness.document(key).id)
            assert (line.times, line.detail["reason"]) == (2, f"no {key}")

    def test_a_line_that_repeats_has_the_last_cursor_and_worker(self, harness: StoreHarness, other: Store) -> None:
        harness.submit("a")
        put_off(harness, "throttled")
        claim = harness.keep(harness.claim_one(), "1", "2")
        assert other.release([harness.a_release(claim, verb="defer", costs="deferral", reason="throttled")]) == [True]
        (line,) = journal(harness)
        assert (line.times, line.cursor) == (2, 2)

    def test_a_claim_knows_how_often_and_how_long_its_document_was_put_off(self, harness: StoreHarness) -> None:
        harness.submit("a")
        put_off(harness, "throttled")
        put_off(harness, "throttled")
        claim = harness.claim_one()
        assert (claim.deferrals, claim.deferred_for) == (2, SECOND * 2)

    def test_a_deferral_costs_no_attempt(self, harness: StoreHarness) -> None:
        harness.submit("a")
        put_off(harness, "throttled", delay=timedelta(0))
        assert harness.document().attempts == 0

    def test_a_person_who_resumes_a_document_resets_the_counts(self, harness: StoreHarness) -> None:
        harness.submit("a")
        put_off(harness, "throttled")
        harness.release(harness.claim_one(), verb="release", costs="interruption")
        put_off(harness, "for too long", state="paused", verb="pause")
        before = harness.document()
        assert (before.state, before.deferrals, before.interruptions) == ("paused", 2, 1)
        harness.store.resume(harness.plan, [before.id], who="ann", reason="it is back")
        after = harness.document()
        assert (after.state, after.deferrals, after.deferred_at, after.interruptions) == ("waiting", 0, None, 0)
