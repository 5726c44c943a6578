"""Deferrals and interruptions: they are counted, and a deferral that repeats is one line of the journal."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast.core.model import Claim, JournalEntry
from holdfast.stores.journal_rules import MAX_LINES
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, StoreHarness


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
