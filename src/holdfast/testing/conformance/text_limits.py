"""Limits of texts: names that are too long are refused, and long texts about errors and decisions are cut.

The limits are those of the narrowest store, so that a document can move from any store to any other.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import shake_256

import pytest

from holdfast.core.errors import CannotKeep, DefinitionError, UnknownBatch, UnknownDocument
from holdfast.core.model import DocumentStatus, FailedItem, Failure, NewDocument
from holdfast.core.plan import Shape, StepShape
from holdfast.core.text_limits import MAX_KEY, MAX_NAME, MAX_REASON, MAX_TRACEBACK
from holdfast.testing.conformance.base import Conformance, StoreHarness, waits

LONG = "start " + "x" * 100_000 + " end"
SHOWN = f"{len(LONG):,} characters"


def incompressible(size: int, seed: str = "") -> str:
    """Return a name of this size, in bytes, that no database can compress."""
    return shake_256(seed.encode()).hexdigest(size)[:size]


LONGEST = incompressible(MAX_KEY)
TOO_LONG = incompressible(MAX_KEY + 1)
REFUSED = [TOO_LONG, "é" * MAX_KEY, "x" * 5_000_000]

Decide = Callable[[StoreHarness, int], object]
DECISIONS: dict[str, Decide] = {
    "pause": lambda harness, number: harness.store.pause([number], who=LONG, reason=LONG),
    "cancel": lambda harness, number: harness.store.cancel([number], who=LONG, reason=LONG),
    "prioritise": lambda harness, number: harness.store.prioritise([number], priority=5, who=LONG, reason=LONG),
    "rewind_to": lambda harness, number: harness.store.rewind_to(
        harness.plan, [number], to="extract", who=LONG, reason=LONG, then="park"
    ),
}


class TextLimitsConformance(Conformance):
    """Tests of the limits of texts."""

    @pytest.mark.parametrize(
        "name", [LONGEST, "é" * (MAX_KEY // 2), "\U0001f600" * (MAX_KEY // 4)], ids=["1 byte", "2 bytes", "4 bytes"]
    )
    def test_the_longest_key_and_batch_are_kept(self, harness: StoreHarness, name: str) -> None:
        harness.submit(name, batch=name, fingerprint=name)
        assert [(claim.key, claim.batch, claim.fingerprint) for claim in harness.claim()] == [(name, name, name)]
        assert harness.store.document("papers", name, name).key == name

    def test_the_longest_batch_can_be_closed_with_closing_steps(self, harness: StoreHarness) -> None:
        harness.submit("a", batch=LONGEST)
        harness.finish(harness.claim_one())
        harness.store.seal("papers", LONGEST, who="ann")
        closing = harness.store.declare(Shape("papers.closing", (StepShape("tell", "value"),)))
        harness.store.close_batch(harness.plan, LONGEST, who="ann", reason="all done", closing=closing)
        assert harness.store.document("papers.closing", LONGEST, LONGEST).state == "waiting"

    def test_the_longest_pipeline_and_steps_can_be_declared(self, harness: StoreHarness) -> None:
        plan = harness.store.declare(Shape(LONGEST, (StepShape(LONGEST, "value"),)))
        assert (plan.pipeline, [*plan.step_ids]) == (LONGEST, [LONGEST])

    @pytest.mark.parametrize("name", REFUSED, ids=["one byte more", "twice as long", "5 MB"])
    def test_a_longer_key_or_fingerprint_is_refused_with_its_length(self, harness: StoreHarness, name: str) -> None:
        size = f"{len(name.encode()):,} bytes"
        with pytest.raises(CannotKeep, match=size) as refused:
            harness.submit(name)
        assert len(str(refused.value)) < 1_000
        with pytest.raises(CannotKeep, match=size):
            harness.submit("a", fingerprint=name)
        assert harness.store.batches("papers") == []

    @pytest.mark.parametrize("name", REFUSED, ids=["one byte more", "twice as long", "5 MB"])
    def test_a_longer_batch_is_refused_with_its_length(self, harness: StoreHarness, name: str) -> None:
        with pytest.raises(CannotKeep, match=f"{len(name.encode()):,} bytes") as refused:
            harness.submit("a", batch=name)
        assert len(str(refused.value)) < 1_000
        assert harness.store.batches("papers") == []

    @pytest.mark.parametrize(
        "shape",
        [
            Shape(TOO_LONG, (StepShape("read", "value"),)),
            Shape("other", (StepShape(TOO_LONG, "value"),)),
            Shape("other", (StepShape("read", "value"),), {TOO_LONG: "read"}),
        ],
        ids=["pipeline", "step", "renamed step"],
    )
    def test_a_longer_pipeline_or_step_is_refused_with_its_length(self, harness: StoreHarness, shape: Shape) -> None:
        for declare in (harness.store.declare, harness.store.check):
            with pytest.raises(DefinitionError, match=f"{MAX_KEY + 1:,} bytes"):
                declare(shape)
        assert list(harness.store.pipelines()) == ["papers"]

    def test_nothing_is_found_by_a_longer_name(self, harness: StoreHarness) -> None:
        harness.submit("a")
        with pytest.raises(UnknownDocument):
            harness.store.document("papers", "march", TOO_LONG)
        with pytest.raises(UnknownBatch):
            harness.store.seal("papers", TOO_LONG, who="ann")
        assert harness.store.rename("papers", "march", {TOO_LONG: NewDocument("b")}, who="ann", reason="") == []

    # texts that are cut

    def test_a_long_error_is_cut_and_says_so(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim, state="dead", failure=Failure(LONG, LONG, LONG), reason=LONG)
        status = harness.document()
        assert SHOWN in status.reason
        assert len(status.reason) <= MAX_NAME + MAX_REASON + 2
        assert len(status.error) == MAX_NAME
        detail = harness.store.journal(claim.document_id)[-1].detail
        error = detail["error"]
        assert (len(error["kind"]), len(error["message"])) == (MAX_NAME, MAX_REASON)
        assert (len(error["traceback"]), len(detail["reason"])) == (MAX_TRACEBACK, MAX_REASON)

    def test_a_long_reason_of_a_pause_is_cut_and_says_so(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim, state="paused", verb="pause", reason=LONG)
        self._check(harness, claim.document_id)
        assert SHOWN in harness.document().reason

    def test_a_long_error_of_an_item_is_cut(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        aside = FailedItem(0, 1, Failure("ValueError", LONG, LONG))
        harness.commit(harness.within(claim, 1, asides=[aside]))
        ((_, item),) = harness.store.failed_items(claim.document_id)
        assert (len(item.error.message), len(item.error.traceback)) == (MAX_REASON, MAX_TRACEBACK)

    @pytest.mark.parametrize("verb", DECISIONS)
    def test_a_long_reason_of_a_decision_is_cut(self, harness: StoreHarness, verb: str) -> None:
        harness.submit("a")
        number = harness.document().id
        assert DECISIONS[verb](harness, number) == [number]
        self._check(harness, number)

    def test_long_reasons_about_paused_and_dead_documents_are_cut(self, gated: StoreHarness) -> None:
        gated.submit("a", "b")
        for claim in gated.claim():
            gated.park(claim, at="review")
        first, second = (gated.document(key).id for key in ("a", "b"))
        gated.store.resume(gated.plan, [first], who=LONG, reason=LONG, answer={"kept": LONG})
        gated.store.reject([second], who=LONG, reason=LONG)
        gated.store.accept([second], who=LONG, reason=LONG)
        assert len(gated.document("b").accepted_by) == MAX_NAME
        gated.store.redrive([second], who=LONG, reason=LONG)
        for number in (first, second):
            self._check(gated, number)
        assert gated.store.journal(first)[-1].detail["answer"] == {"kept": LONG}, "an answer is data, and is not cut"

    def test_a_long_reason_of_a_rewind_is_cut(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        assert harness.store.rewind(harness.plan, claim, to="extract", who=LONG, reason=LONG)
        self._check(harness, claim.document_id)

    def test_long_reasons_about_a_batch_are_cut(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.finish(harness.claim_one())
        harness.store.seal("papers", "march", who=LONG, reason=LONG)
        report = harness.store.close_batch(harness.plan, "march", who=LONG, reason=LONG).report
        assert (len(report.reason), len(report.closed_by)) == (MAX_REASON, MAX_NAME)
        for entry in harness.store.batch_journal("papers", "march"):
            assert (len(entry.who), len(entry.detail["reason"])) == (MAX_NAME, MAX_REASON)

    def test_a_long_name_of_a_lost_worker_is_cut_in_the_reason(self, harness: StoreHarness) -> None:
        harness.submit("a")
        victim = harness.register_worker(LONG)
        claim = harness.claim_one(worker=victim)
        harness.reclaim(decide=waits, gone=[victim.id])
        self._check(harness, claim.document_id)

    def _check(self, harness: StoreHarness, document_id: int) -> None:
        """Check that nothing long is in the journal or the reason of a document."""
        for entry in harness.store.journal(document_id):
            assert len(entry.who) <= MAX_NAME
            assert all(len(text) <= MAX_REASON for text in entry.detail.values() if isinstance(text, str))
        (reason,) = [one.reason for key in "ab" if (one := self._found(harness, key)) and one.id == document_id]
        assert len(reason) <= MAX_REASON

    def _found(self, harness: StoreHarness, key: str) -> DocumentStatus | None:
        try:
            return harness.document(key)
        except UnknownDocument:
            return None
