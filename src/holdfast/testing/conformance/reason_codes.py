"""Reason codes: kept beside their sentence, on documents and in the journal. A verified result is one line there."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.model import DocumentStatus, Failure, NewDocument
from holdfast.core.reasons import (
    AT_GATE,
    ON_HOLD,
    OVERDUE,
    QUESTION,
    REJECTED,
    SENTENCES,
    VERIFIED,
    WORK_GONE,
    WORKER_CRASHED,
    WORKER_GONE,
    sentence,
)
from holdfast.testing.conformance.base import LEASE, Conformance, StoreHarness
from holdfast.testing.conformance.bulk_decisions import close_batch

WHO: Any = {"who": "cat", "reason": "why"}


def code_of(harness: StoreHarness) -> tuple[str, str]:
    """Return the codes of the document and of its last journal line."""
    status = harness.document()
    return status.code, harness.store.journal(status.id)[-1].code


class ReasonCodeConformance(Conformance):
    """A code is kept with every reason that programs act on."""

    def test_a_document_that_never_waited_for_anything_has_no_code(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert harness.document().code == ""
        harness.finish(harness.claim_one())
        assert harness.document().code == ""

    def test_a_release_keeps_its_code(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), state="paused", verb="pause", costs="nothing", code=QUESTION)
        assert code_of(harness) == (QUESTION, QUESTION)

    def test_a_failure_has_no_code(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), failure=Failure("ValueError", "not a page"))
        assert code_of(harness) == ("", "")

    def test_a_document_that_is_parked_by_a_move_keeps_its_code(self, gated: StoreHarness) -> None:
        gated.park(gated.submit_and_claim(), at="review")
        assert gated.document().code == AT_GATE

    def test_a_pause_by_a_person_is_a_hold(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.pause([harness.document().id], **WHO)
        assert code_of(harness) == (ON_HOLD, ON_HOLD)

    def test_a_document_that_goes_on_has_no_code_any_more(self, harness: StoreHarness) -> None:
        harness.submit("a")
        ids = [harness.document().id]
        harness.store.pause(ids, **WHO)
        harness.store.resume(harness.plan, ids, **WHO)
        assert code_of(harness) == ("", "")

    def test_a_reclaimed_document_says_that_its_worker_is_gone(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.lose()
        assert code_of(harness) == (WORKER_GONE, WORKER_GONE)

    def test_a_reclaimed_document_says_that_its_worker_crashed(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash()
        assert code_of(harness) == (WORKER_CRASHED, WORKER_CRASHED)

    def test_a_reclaimed_document_says_that_it_was_overdue(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.claim(timeouts={"extract": LEASE})
        harness.clock.advance(LEASE * 2)
        harness.store.heartbeat(harness.worker)
        harness.reclaim()
        assert code_of(harness) == (OVERDUE, OVERDUE)

    @pytest.mark.parametrize("verb", ["cancel", "reject", "redrive", "rewind_to", "resume"])
    def test_a_decision_of_a_program_keeps_its_code_in_the_journal(self, harness: StoreHarness, verb: str) -> None:
        decide(harness, verb, **WHO, code="file_deleted")
        assert harness.store.journal(harness.document().id)[-1].code == "file_deleted"
        decided = harness.document()
        assert decided.code == ("file_deleted" if verb in ("cancel", "reject") else "")

    @pytest.mark.parametrize("verb", ["cancel", "reject", "redrive", "rewind_to", "resume"])
    @pytest.mark.parametrize("sentence", [*SENTENCES.values()])
    def test_the_free_text_of_a_person_is_no_code_whatever_it_says(
        self, harness: StoreHarness, verb: str, sentence: str
    ) -> None:
        text = sentence.format_map(Facts())
        decide(harness, verb, who="cat", reason=text)
        code = REJECTED if verb == "reject" else ""
        assert code_of(harness) == (code, code)
        assert harness.store.journal(harness.document().id)[-1].detail["reason"] == text

    def test_a_worker_that_rewinds_keeps_the_code(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        assert harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="any words", code=WORK_GONE)
        assert harness.store.journal(claim.document_id)[-1].code == WORK_GONE

    def test_a_rename_keeps_the_code(self, harness: StoreHarness) -> None:
        harness.submit("a")
        renamed = {"a": NewDocument("b")}
        assert harness.store.rename("papers", "march", renamed, **WHO, code="file_moved") == ["a"]
        assert harness.store.journal(harness.document("b").id)[-1].code == "file_moved"

    def test_documents_are_found_by_code(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.store.pause([harness.document("b").id], **WHO)
        found: list[DocumentStatus] = harness.store.documents("papers", code=ON_HOLD)
        assert [one.key for one in found] == ["b"]
        assert harness.store.count("papers", code=ON_HOLD) == 1
        assert harness.store.count("papers", code="") == 1
        assert harness.store.select("papers", code=ON_HOLD) == [found[0].id]


class Facts(dict[str, str]):
    """Values for the names in a sentence: each is "x"."""

    def __missing__(self, name: str) -> str:
        return "x"


def decide(harness: StoreHarness, verb: str, **why: Any) -> None:
    """Make one decision about a document that is in a state for it."""
    store, plan = harness.store, harness.plan
    claim = harness.submit_and_claim()
    ids = [claim.document_id]
    if verb == "cancel":
        assert store.cancel(ids, **why) == ids
    elif verb == "reject":
        harness.release(claim, state="paused", verb="pause", costs="nothing")
        assert store.reject(ids, **why) == ids
    elif verb == "redrive":
        harness.make_dead(claim)
        assert store.redrive(ids, **why) == ids
    elif verb == "rewind_to":
        assert store.rewind_to(plan, ids, to="extract", **why) == ids
    else:
        harness.release(claim, state="paused", verb="pause", costs="nothing")
        assert store.resume(plan, ids, **why) == ids


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
