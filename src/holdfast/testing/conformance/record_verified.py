"""Verified results: each is one line in the journal."""

from __future__ import annotations

from holdfast.core.reasons import VERIFIED, sentence
from holdfast.testing.conformance.base import Conformance, StoreHarness
from holdfast.testing.conformance.bulk_decisions import close_batch


class RecordVerifiedConformance(Conformance):
    """Tests of record_verified."""

    def test_a_verified_result_is_a_line_in_the_journal(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        harness.release(claim, verb="release", costs="nothing")
        status = harness.document()
        assert harness.store.record_verified(
            {status.id: status.checkpoint.moves}, steps=["extract", "chunk"], who="cat"
        ) == [status.id]
        line = harness.store.journal(status.id)[-1]
        assert (line.verb, line.who, line.step, line.at) == ("verify", "cat", "extract", harness.clock())
        reason = sentence(VERIFIED, steps="extract, chunk")
        assert line.detail == {"reason": reason, "steps": ["extract", "chunk"]}
        assert harness.document() == status

    def test_no_verified_result_is_recorded_for_a_document_that_moved(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.keep(claim, "1")
        assert harness.store.record_verified({claim.document_id: 0, 4711: 0}, steps=["extract"], who="cat") == []
        assert harness.verbs(claim) == []

    def test_no_verified_result_is_recorded_in_a_closed_batch(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.finish(claim)
        moves = harness.document().checkpoint.moves
        close_batch(harness, "march")
        assert harness.store.record_verified({claim.document_id: moves}, steps=["extract"], who="cat") == []
        assert harness.verbs(claim) == []
