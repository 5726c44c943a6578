"""Rewinds: a new generation that reuses what earlier steps kept."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from holdfast.core.errors import StoreError
from holdfast.core.model import Checkpoint, Claim, Item
from holdfast.core.moves import ACCEPTED, LOST, rewound
from holdfast.testing.conformance.base import SECOND, Conformance, StoreHarness


def _rewind(harness: StoreHarness, claim: Claim, *, to: str) -> Claim:
    """Rewind a document and return the claim as its worker holds it afterwards."""
    assert harness.store.rewind(harness.plan, claim, to=to, who="ann", reason="the vectors are gone")
    return rewound(claim, to=to, steps=[*harness.plan.step_ids])


def _at_embed(harness: StoreHarness) -> Claim:
    """Return a document at its last step, with items at each step."""
    claim = harness.advance(harness.keep(harness.submit_and_claim(), '"page"'))
    claim = harness.advance(harness.keep(claim, '"chunk"'))
    return harness.keep(claim, '"vector"')


class RewindConformance(Conformance):
    """Tests of rewind."""

    def test_a_rewind_opens_a_new_generation_at_the_step(self, harness: StoreHarness) -> None:
        claim = _at_embed(harness)
        harness.clock.advance(SECOND)
        _rewind(harness, claim, to="chunk")
        status = harness.document()
        assert status.checkpoint == Checkpoint(1, "chunk", None, claim.checkpoint.moves + 1)
        assert (status.state, status.holder, status.attempts, status.moved_at) == ("running", "ann", 1, harness.clock())

    def test_the_worker_keeps_a_document_that_it_rewinds(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        harness.finish(claim)
        assert harness.document().state == "done"

    def test_items_before_the_step_are_reused(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        assert harness.items(claim) == [("extract", 0, '"page"')]

    def test_a_later_claim_has_the_reused_generations(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="embed")
        harness.release(claim)
        assert harness.claim_one().reuses == {"extract": 0, "chunk": 0}

    def test_a_rewind_to_the_first_step_reuses_nothing(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="extract")
        assert harness.items(claim) == []
        harness.release(claim)
        assert harness.claim_one().reuses == {}

    def test_a_rewind_to_the_present_step_restarts_it(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="embed")
        assert harness.document().checkpoint.cursor is None
        assert harness.items(claim) == [("extract", 0, '"page"'), ("chunk", 0, '"chunk"')]

    def test_new_items_replace_the_old_ones_at_their_positions(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        claim = harness.keep(claim, '"better"')
        assert harness.items(claim) == [("extract", 0, '"page"'), ("chunk", 0, '"better"')]

    def test_old_items_are_readable_until_the_document_is_done(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        chunk = harness.plan.step_ids["chunk"]
        assert harness.store.read(claim.document_id, 0, chunk, 0, 9) == [(0, '"chunk"')]
        harness.finish(harness.keep(claim, '"better"'))
        assert harness.store.read(claim.document_id, 0, chunk, 0, 9) == []
        assert harness.store.read(claim.document_id, 1, chunk, 0, 9) == [(0, '"better"')]

    def test_reused_items_stay_when_the_document_is_done(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        harness.finish(claim)
        assert harness.items(claim) == [("extract", 0, '"page"')]

    def test_items_that_another_claim_reuses_stay_when_the_document_is_done(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        harness.release(claim)
        harness.finish(harness.claim_one())
        assert harness.items(claim) == [("extract", 0, '"page"')]

    def test_two_rewinds_reuse_each_step_from_its_own_generation(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        claim = harness.advance(harness.keep(claim, '"better"'))
        claim = _rewind(harness, claim, to="embed")
        assert claim.reuses == {"extract": 0, "chunk": 1}
        assert harness.items(claim) == [("extract", 0, '"page"'), ("chunk", 0, '"better"')]
        harness.release(claim)
        assert harness.claim_one().reuses == {"extract": 0, "chunk": 1}

    def test_items_of_unused_generations_are_deleted_when_the_document_is_done(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="embed")
        claim = _rewind(harness, harness.keep(claim, '"second"'), to="embed")
        harness.finish(harness.keep(claim, '"third"'))
        embed = harness.plan.step_ids["embed"]
        kept = [harness.store.read(claim.document_id, generation, embed, 0, 9) for generation in range(3)]
        assert kept == [[], [], [(0, '"third"')]]

    def test_a_rewind_is_journalled_with_its_reason(self, harness: StoreHarness) -> None:
        claim = _at_embed(harness)
        _rewind(harness, claim, to="chunk")
        (entry,) = harness.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.generation, entry.step, entry.cursor) == (
            "rewind",
            "ann",
            1,
            "chunk",
            None,
        )
        assert entry.detail == {"from": "embed", "cursor": 1, "to": "chunk", "reason": "the vectors are gone"}

    def test_a_stale_claim_cannot_rewind(self, harness: StoreHarness) -> None:
        stale = harness.advance(harness.submit_and_claim())
        harness.reclaim(gone=[harness.worker.id])
        fresh = harness.claim_one(worker=harness.register_worker("bob"))
        assert not harness.store.rewind(harness.plan, stale, to="extract", who="ann", reason="why")
        assert harness.document().checkpoint.generation == 0
        assert harness.verbs(fresh) == ["reclaim"]
        harness.advance(fresh)

    def test_a_released_claim_cannot_rewind(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        harness.release(claim)
        assert not harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="why")

    @pytest.mark.parametrize("moves", [0, 2])
    def test_a_claim_with_an_outdated_checkpoint_cannot_rewind(self, harness: StoreHarness, moves: int) -> None:
        claim = harness.advance(harness.submit_and_claim())
        wrong = replace(claim, checkpoint=replace(claim.checkpoint, moves=moves))
        assert not harness.store.rewind(harness.plan, wrong, to="extract", who="ann", reason="why")

    def test_a_rewind_to_a_later_step_is_refused(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.advance(harness.submit_and_claim()), '"chunk"')
        with pytest.raises(StoreError, match="'a' is at 'chunk' and cannot be rewound to 'embed', which comes later"):
            harness.store.rewind(harness.plan, claim, to="embed", who="ann", reason="why")
        assert harness.document().checkpoint == claim.checkpoint
        assert harness.verbs(claim) == []
        harness.advance(claim)

    def test_a_rewind_happens_once(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        _rewind(harness, claim, to="extract")
        assert not harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="again")
        assert harness.document().checkpoint.generation == 1

    def test_a_move_of_the_generation_before_is_lost(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        before = harness.forward(claim, items=[Item("chunk", 0, "1")])
        claim = _rewind(harness, claim, to="extract")
        assert harness.commit(before) == [LOST]
        assert harness.commit(harness.forward(claim)) == [ACCEPTED]

    def test_a_rewind_removes_the_deadline_of_the_step_that_was_left(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        claim = harness.advance(claim, timeout=SECOND)
        _rewind(harness, claim, to="extract")
        harness.clock.advance(SECOND * 2)
        assert harness.reclaim() == []

    def test_a_rewind_resets_crashes(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash()
        claim = harness.claim_one()
        assert claim.crashes == 1
        _rewind(harness, claim, to="extract")
        assert (harness.document().attempts, harness.document().crashes) == (1, 0)

    def test_a_changed_document_after_a_rewind_drops_all_earlier_items(self, harness: StoreHarness) -> None:
        claim = _rewind(harness, _at_embed(harness), to="chunk")
        harness.submit("a", fingerprint="f2")
        harness.finish(harness.claim_one())
        extract = harness.plan.step_ids["extract"]
        assert harness.store.read(claim.document_id, 0, extract, 0, 9) == []

    def test_only_documents_that_are_where_they_were_seen_are_rewound(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        ids, seen = [claim.document_id], {claim.document_id: claim.checkpoint.moves}
        harness.advance(claim)
        rewind = partial(harness.store.rewind_to, harness.plan, ids, to="extract", who="ann", reason="gone")
        assert rewind(at=seen) == []
        assert rewind(at={}) == []
        assert rewind(at={claim.document_id: claim.checkpoint.moves + 1}) == ids
        assert harness.document().checkpoint.generation == 1
