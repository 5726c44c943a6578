"""Extents: what a document records about its steps, and what the store keeps of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.extents import UNKNOWN
from holdfast.core.integrity import MANY_ITEMS, StepItems
from holdfast.core.model import WHOLE, Claim, FailedItem, Failure, Item
from holdfast.core.moves import ACCEPTED, rewound
from holdfast.core.plan import StepShape
from holdfast.testing.conformance.base import PAPERS, Conformance, StoreHarness, after, papers

WHO: dict[str, Any] = {"who": "ann", "reason": "again"}


def _move(harness: StoreHarness, claim: Claim, extents: Mapping[str, int]) -> Claim:
    move = harness.forward(claim, extents=extents)
    assert harness.commit(move) == [ACCEPTED]
    return replace(after(claim, move), extents=extents)


def _at_embed(harness: StoreHarness, extents: Mapping[str, int]) -> Claim:
    """Return a document at its last step, with this record."""
    return _move(harness, harness.advance(harness.submit_and_claim()), extents)


def _again(harness: StoreHarness, claim: Claim) -> Claim:
    """Give a document back, and claim it again."""
    assert harness.release(claim, verb="release", costs="nothing")
    return harness.claim_one()


class ExtentsConformance(Conformance):
    """Tests of the record of what finished steps kept."""

    def test_a_new_document_has_no_record(self, harness: StoreHarness) -> None:
        assert harness.submit_and_claim().extents is None

    @pytest.mark.parametrize("extents", [{"extract": 3}, {"extract": 3, "chunk": WHOLE}, {"chunk": -5}, {UNKNOWN: 1}])
    def test_a_record_is_kept_with_the_checkpoint(self, harness: StoreHarness, extents: dict[str, int]) -> None:
        again = _again(harness, _at_embed(harness, extents))
        assert again.extents == extents
        assert [*again.extents] == [*extents], "it has another order"

    def test_a_move_without_a_record_leaves_it(self, harness: StoreHarness) -> None:
        claim = _move(harness, harness.submit_and_claim(), {"extract": 3})
        assert _again(harness, harness.keep(claim, "1")).extents == {"extract": 3}

    def test_steps_that_a_plan_lacks_stay_in_the_record(self, harness: StoreHarness) -> None:
        _at_embed(harness, {"extract": 3, "chunk": WHOLE})
        chunk_id = str(harness.plan.step_ids["chunk"])
        harness.reclaim(gone=[harness.worker.id])
        harness.worker = harness.register_worker("bob")
        shorter = harness.store.declare(papers("extract", "embed"))
        (claim,) = harness.store.claim(shorter, harness.worker, limit=1)
        assert claim.extents == {"extract": 3, chunk_id: WHOLE}
        move = harness.within(claim, 1, extents={**claim.extents, "embed": -3})
        assert harness.store.commit(shorter, [move]) == [ACCEPTED]
        assert harness.release(after(claim, move), verb="release", costs="nothing")
        harness.plan = harness.store.declare(PAPERS)
        assert harness.claim_one().extents == {"extract": 3, "chunk": WHOLE, "embed": -3}

    def test_a_renamed_step_stays_in_the_record(self, harness: StoreHarness) -> None:
        claim = _at_embed(harness, {"extract": 3, "chunk": WHOLE})
        assert harness.release(claim, verb="release", costs="nothing")
        harness.plan = harness.store.declare(papers("extract", "split", "embed", chunk="split"))
        assert harness.claim_one().extents == {"extract": 3, "split": WHOLE}

    @pytest.mark.parametrize(
        ("extents", "kept"),
        [
            ({"extract": 3, "chunk": WHOLE}, {"extract": 3}),
            ({"chunk": WHOLE}, {"extract": WHOLE}),
            ({"extract": 3, "chunk": WHOLE, "embed": -4}, {"extract": 3}),
            ({UNKNOWN: 1, "chunk": WHOLE}, {UNKNOWN: 1}),
            ({UNKNOWN: 1, "extract": 3, "chunk": WHOLE}, {UNKNOWN: 1, "extract": 3}),
            ({}, {UNKNOWN: 1}),
        ],
        ids=str,
    )
    def test_a_rewind_keeps_the_record_of_the_steps_that_are_reused(
        self, harness: StoreHarness, extents: dict[str, int], kept: dict[str, int]
    ) -> None:
        claim = _at_embed(harness, extents)
        ids = [claim.document_id]
        back = rewound(claim, to="chunk", steps=[*harness.plan.step_ids])
        assert back.extents == kept
        assert harness.store.rewind(harness.plan, claim, to="chunk", **WHO)
        assert _again(harness, back).extents == kept
        assert harness.store.rewind_to(harness.plan, ids, to="chunk", **WHO) == ids
        assert harness.claim_one().extents == kept
        assert harness.store.rewind_to(harness.plan, ids, to="extract", **WHO) == ids
        assert harness.claim_one().extents is None

    def test_documents_with_different_records_are_rewound_together(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        ids = []
        for place, claim in enumerate(harness.claim()):
            at_chunk = _move(harness, claim, {"extract": place})
            ids.append(_move(harness, at_chunk, {"extract": place, "chunk": 7}).document_id)
        assert harness.store.rewind_to(harness.plan, ids, to="chunk", **WHO) == ids
        assert [claim.extents for claim in harness.claim()] == [{"extract": 0}, {"extract": 1}, {"extract": 2}]

    def test_a_gate_is_not_in_the_record_of_a_rewound_document(self, gated: StoreHarness) -> None:
        claim = gated.submit_and_claim()
        assert gated.commit(gated.forward(claim, state="paused", extents={"read": WHOLE})) == [ACCEPTED]
        assert gated.store.resume(gated.plan, [claim.document_id], **WHO)
        ids = [claim.document_id]
        assert gated.store.rewind_to(gated.plan, ids, to="file", **WHO) == ids
        again = gated.claim_one()
        assert again.extents == {"read": WHOLE}
        assert gated.store.rewind(gated.plan, again, to="file", **WHO)
        assert _again(gated, rewound(again, to="file", steps=[*gated.plan.step_ids])).extents == {"read": WHOLE}

    def test_changed_content_begins_without_a_record(self, harness: StoreHarness) -> None:
        _at_embed(harness, {"extract": 3, "chunk": WHOLE})
        harness.submit("a", fingerprint="changed")
        assert harness.claim_one().extents is None

    def test_a_dead_letter_that_starts_over_begins_without_a_record(self, harness: StoreHarness) -> None:
        claim = _at_embed(harness, {"extract": 3, "chunk": WHOLE})
        harness.make_dead(claim)
        harness.plan = harness.store.declare(papers("chunk", "extract", "embed"))
        assert harness.store.redrive([claim.document_id], **WHO)
        assert harness.claim_one().extents is None

    def test_a_dead_letter_that_is_tried_again_keeps_its_record(self, harness: StoreHarness) -> None:
        claim = _at_embed(harness, {"extract": 3, "chunk": WHOLE})
        harness.make_dead(claim)
        assert harness.store.redrive([claim.document_id], **WHO)
        assert harness.claim_one().extents == {"extract": 3, "chunk": WHOLE}

    def test_nothing_is_known_of_a_document_that_is_sent_to_a_later_step(self, harness: StoreHarness) -> None:
        claim = _move(harness, harness.submit_and_claim(), {"extract": 3})
        assert harness.release(claim, verb="release", costs="nothing")
        harness.plan = harness.store.declare(papers("extract", "embed", chunk="embed"))
        assert harness.claim_one().extents == {UNKNOWN: 1}

    def test_items_are_counted_by_step(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        claim = harness.advance(harness.keep(claim, *map(str, range(300))))
        claim = harness.advance(claim, items=[Item("chunk", WHOLE, "1")])
        aside = [FailedItem(place, 1, Failure("E", "torn")) for place in (1, 2)]
        move = harness.within(claim, 4, items=[Item("embed", 0, "1"), Item("embed", 3, "1")], asides=aside)
        assert harness.commit(move) == [ACCEPTED]
        counts = {"extract": StepItems(300), "chunk": StepItems(0, 1), "embed": StepItems(2, 0, 2)}
        assert harness.store.count_kept(harness.plan, claim) == counts
        (state,) = harness.store.kept_state(harness.plan, [claim])
        assert (state.extent, state.steps) == (4, counts)

    def test_items_are_counted_in_the_generation_that_a_document_uses(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.advance(harness.keep(harness.submit_and_claim(), "1", "2")), "3")
        assert harness.store.rewind(harness.plan, claim, to="chunk", **WHO)
        back = rewound(claim, to="chunk", steps=[*harness.plan.step_ids])
        assert harness.store.count_kept(harness.plan, back) == {"extract": StepItems(2)}
        harness.keep(back, "3", "4", "5")
        assert harness.store.count_kept(harness.plan, back) == {"extract": StepItems(2), "chunk": StepItems(3)}

    def test_a_document_with_very_many_items_is_counted_only_when_asked(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        few, many = harness.claim()
        few, many = harness.keep(few, "1"), replace(harness.keep(many, "1", "2"), extents={"extract": MANY_ITEMS + 1})
        states = harness.store.kept_state(harness.plan, [many, few])
        assert [state.steps for state in states] == [None, {"extract": StepItems(1)}]
        assert harness.store.count_kept(harness.plan, many) == {"extract": StepItems(2)}

    def test_a_shape_can_have_the_step_names_of_a_worker(self, harness: StoreHarness) -> None:
        longer = harness.store.declare(papers("extract", "chunk", "embed", StepShape("publish", "value")))
        shape = harness.store.shape_of(longer.plan_id, names={**harness.plan.names, harness.plan.first: "pull"})
        assert shape is not None
        assert shape.names == ("pull", "chunk", "embed", str(longer.step_ids["publish"]))
        assert harness.store.shape_of(10**9, names=harness.plan.names) is None
