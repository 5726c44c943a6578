"""Totals: how many items streams said they will yield in all."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.model import Claim, Item
from holdfast.core.moves import ACCEPTED
from holdfast.testing.conformance.base import Conformance, StoreHarness, after, papers

WHO: dict[str, Any] = {"who": "ann", "reason": "again"}


def _say(harness: StoreHarness, claim: Claim, totals: dict[str, int], *, cursor: int = 1) -> Claim:
    """Commit one item, together with totals."""
    step = claim.checkpoint.step or ""
    items = [Item(step, cursor - 1, "1")]
    move = harness.within(claim, cursor, items=items, totals=totals)
    assert harness.commit(move) == [ACCEPTED]
    return replace(after(claim, move), totals=totals)


def _again(harness: StoreHarness, claim: Claim) -> Claim:
    """Give a document back, and claim it again."""
    assert harness.release(claim, verb="release", costs="nothing")
    return harness.claim_one()


class TotalsConformance(Conformance):
    """Tests of what streams said they will yield in all."""

    def test_a_document_whose_stream_said_nothing_has_no_total(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        assert (claim.totals, harness.document().items_total) == (None, None)
        assert [output.total for output in harness.store.outputs(claim.document_id)] == [None]

    def test_a_total_is_kept_with_the_checkpoint(self, harness: StoreHarness) -> None:
        claim = _say(harness, harness.submit_and_claim(), {"extract": 120})
        assert harness.document().items_total == 120
        assert [(one.items, one.total) for one in harness.store.outputs(claim.document_id)] == [(1, 120)]
        assert _again(harness, claim).totals == {"extract": 120}

    def test_a_move_without_a_total_leaves_it_and_a_new_one_replaces_it(self, harness: StoreHarness) -> None:
        claim = harness.keep(_say(harness, harness.submit_and_claim(), {"extract": 120}), "1", start=1)
        assert harness.document().items_total == 120
        _say(harness, claim, {"extract": 7}, cursor=3)
        assert harness.document().items_total == 7

    def test_a_total_of_an_ended_step_is_shown_with_its_output_and_not_as_that_of_the_next(
        self, harness: StoreHarness
    ) -> None:
        claim = harness.advance(_say(harness, harness.submit_and_claim(), {"extract": 120}))
        assert harness.document().items_total is None
        claim = harness.advance(_say(harness, claim, {"extract": 120, "chunk": 0}))
        harness.finish(claim)
        outputs = {one.step: one.total for one in harness.store.outputs(claim.document_id)}
        assert outputs == {"extract": 120, "chunk": 0}
        assert harness.document().items_total is None

    def test_a_total_is_kept_by_a_move_that_ends_the_step(self, harness: StoreHarness) -> None:
        items, totals = [Item("extract", 0, "1")], {"extract": 1}
        claim = harness.advance(harness.submit_and_claim(), items=items, totals=totals)
        assert [one.total for one in harness.store.outputs(claim.document_id)] == [1]
        assert _again(harness, claim).totals == totals

    def test_a_total_is_kept_by_a_move_that_ends_the_document(self, harness: StoreHarness) -> None:
        harness.plan = harness.store.declare(papers("only"))
        claim = harness.submit_and_claim()
        harness.advance(claim, items=[Item("only", 0, "1")], totals={"only": 1})
        assert [one.total for one in harness.store.outputs(claim.document_id)] == [1]

    def test_documents_of_one_group_have_totals_of_their_own(self, harness: StoreHarness) -> None:
        harness.submit(*"abcdefghijkl")
        moves = [
            harness.forward(
                claim,
                items=[Item("extract", 0, "1")],
                **({"totals": {"extract": number}} if number % 2 else {}),
            )
            for number, claim in enumerate(harness.claim())
        ]
        assert set(harness.commit(*moves)) == {ACCEPTED}
        found = [harness.store.outputs(move.claim.document_id)[0].total for move in moves]
        assert found == [number if number % 2 else None for number in range(12)]

    def test_a_new_generation_has_no_totals(self, harness: StoreHarness) -> None:
        claim = harness.advance(_say(harness, harness.submit_and_claim(), {"extract": 120}))
        assert harness.store.rewind(harness.plan, claim, to="extract", **WHO)
        assert harness.document().items_total is None
        assert harness.release(
            replace(claim, checkpoint=replace(claim.checkpoint, generation=1)), verb="release", costs="nothing"
        )
        claim = _say(harness, harness.claim_one(), {"extract": 5})
        assert harness.store.rewind_to(harness.plan, [claim.document_id], to="extract", **WHO)
        assert harness.claim_one().totals is None

    def test_changed_content_has_no_totals(self, harness: StoreHarness) -> None:
        _say(harness, harness.submit_and_claim(fingerprint="1"), {"extract": 120})
        harness.submit("a", fingerprint="2")
        assert harness.claim_one().totals is None

    def test_a_renamed_step_keeps_its_total(self, harness: StoreHarness) -> None:
        claim = _say(harness, harness.submit_and_claim(), {"extract": 120})
        assert harness.release(claim, verb="release", costs="nothing")
        harness.plan = harness.store.declare(papers("read", "chunk", "embed", extract="read"))
        assert harness.document().items_total == 120
        assert harness.claim_one().totals == {"read": 120}
