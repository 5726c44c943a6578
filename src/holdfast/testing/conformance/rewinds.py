"""Documents are set back on purpose: a new generation, which reuses what earlier steps kept."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace

from holdfast.core.errors import StoreError
from holdfast.core.model import Checkpoint, Claim, Item
from holdfast.core.moves import ACCEPTED, LOST, rewound
from holdfast.testing.conformance.base import SECOND, Conformance, Desk


def _rewind(desk: Desk, claim: Claim, *, to: str) -> Claim:
    """Rewinds and gives the claim as its worker holds it afterwards."""
    assert desk.store.rewind(desk.plan, claim, to=to, who="ann", reason="the vectors are gone")
    names = list(desk.plan.step_ids)
    return rewound(claim, to=to, before=names[: names.index(to)])


def _at_embed(desk: Desk) -> Claim:
    """A document at its last step, with items at each step."""
    claim = desk.advance(desk.keep(desk.take_in(), '"page"'))
    claim = desk.advance(desk.keep(claim, '"chunk"'))
    return desk.keep(claim, '"vector"')


class RewindConformance(Conformance):
    """What rewind promises."""

    def test_a_rewind_opens_a_new_generation_at_the_step(self, desk: Desk) -> None:
        claim = _at_embed(desk)
        desk.clock.advance(SECOND)
        _rewind(desk, claim, to="chunk")
        here = desk.standing()
        assert here.checkpoint == Checkpoint(1, "chunk", None, claim.checkpoint.moves + 1)
        assert (here.state, here.holder, here.attempts, here.moved_at) == ("running", "ann", 1, desk.clock())

    def test_the_worker_keeps_a_document_that_it_rewinds(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="chunk")
        desk.finish(claim)
        assert desk.standing().state == "done"

    def test_items_before_the_step_are_reused(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="chunk")
        assert desk.items(claim) == [("extract", 0, '"page"')]

    def test_a_later_claim_knows_what_is_reused(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="embed")
        desk.give_back(claim)
        assert desk.claim_one().reuses == {"extract": 0, "chunk": 0}

    def test_a_rewind_to_the_first_step_reuses_nothing(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="extract")
        assert desk.items(claim) == []
        desk.give_back(claim)
        assert desk.claim_one().reuses == {}

    def test_a_rewind_to_the_present_step_begins_it_anew(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="embed")
        assert desk.standing().checkpoint.cursor is None
        assert desk.items(claim) == [("extract", 0, '"page"'), ("chunk", 0, '"chunk"')]

    def test_new_items_stand_where_the_old_ones_stood(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="chunk")
        claim = desk.keep(claim, '"better"')
        assert desk.items(claim) == [("extract", 0, '"page"'), ("chunk", 0, '"better"')]

    def test_old_items_are_readable_until_the_document_is_done(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="chunk")
        chunk = desk.plan.step_ids["chunk"]
        assert desk.store.read(claim.document_id, 0, chunk, 0, 9) == [(0, '"chunk"')]
        desk.finish(desk.keep(claim, '"better"'))
        assert desk.store.read(claim.document_id, 0, chunk, 0, 9) == []
        assert desk.store.read(claim.document_id, 1, chunk, 0, 9) == [(0, '"better"')]

    def test_reused_items_stay_when_the_document_is_done(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="chunk")
        desk.finish(claim)
        assert desk.items(claim) == [("extract", 0, '"page"')]

    def test_items_that_another_claim_reuses_stay_when_the_document_is_done(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="chunk")
        desk.give_back(claim)
        desk.finish(desk.claim_one())
        assert desk.items(claim) == [("extract", 0, '"page"')]

    def test_two_rewinds_reuse_each_step_from_where_it_was_made(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="chunk")
        claim = desk.advance(desk.keep(claim, '"better"'))
        claim = _rewind(desk, claim, to="embed")
        assert claim.reuses == {"extract": 0, "chunk": 1}
        assert desk.items(claim) == [("extract", 0, '"page"'), ("chunk", 0, '"better"')]
        desk.give_back(claim)
        assert desk.claim_one().reuses == {"extract": 0, "chunk": 1}

    def test_items_of_the_generations_between_are_dropped_when_the_document_is_done(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="embed")
        claim = _rewind(desk, desk.keep(claim, '"second"'), to="embed")
        desk.finish(desk.keep(claim, '"third"'))
        embed = desk.plan.step_ids["embed"]
        kept = [desk.store.read(claim.document_id, generation, embed, 0, 9) for generation in range(3)]
        assert kept == [[], [], [(0, '"third"')]]

    def test_a_rewind_is_journalled_with_its_reason(self, desk: Desk) -> None:
        claim = _at_embed(desk)
        _rewind(desk, claim, to="chunk")
        (entry,) = desk.store.journal(claim.document_id)
        assert (entry.verb, entry.who, entry.generation, entry.step, entry.cursor) == (
            "rewind",
            "ann",
            1,
            "chunk",
            None,
        )
        assert entry.detail == {"from": "embed", "cursor": 1, "to": "chunk", "reason": "the vectors are gone"}

    def test_a_stale_claim_cannot_rewind(self, desk: Desk) -> None:
        stale = desk.advance(desk.take_in())
        desk.reclaim(gone=[desk.worker.id])
        fresh = desk.claim_one(worker=desk.enlist("bob"))
        assert not desk.store.rewind(desk.plan, stale, to="extract", who="ann", reason="why")
        assert desk.standing().checkpoint.generation == 0
        assert desk.verbs(fresh) == ["reclaim"]
        desk.advance(fresh)

    def test_a_claim_that_was_given_back_cannot_rewind(self, desk: Desk) -> None:
        claim = desk.advance(desk.take_in())
        desk.give_back(claim)
        assert not desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason="why")

    @pytest.mark.parametrize("moves", [0, 2])
    def test_a_claim_that_does_not_know_the_place_cannot_rewind(self, desk: Desk, moves: int) -> None:
        claim = desk.advance(desk.take_in())
        wrong = replace(claim, checkpoint=replace(claim.checkpoint, moves=moves))
        assert not desk.store.rewind(desk.plan, wrong, to="extract", who="ann", reason="why")

    def test_a_rewind_to_a_later_step_is_refused(self, desk: Desk) -> None:
        claim = desk.keep(desk.advance(desk.take_in()), '"chunk"')
        with pytest.raises(StoreError, match="'a' stands at 'chunk' and cannot be rewound to 'embed', which is later"):
            desk.store.rewind(desk.plan, claim, to="embed", who="ann", reason="why")
        assert desk.standing().checkpoint == claim.checkpoint
        assert desk.verbs(claim) == []
        desk.advance(claim)

    def test_a_rewind_happens_once(self, desk: Desk) -> None:
        claim = desk.advance(desk.take_in())
        _rewind(desk, claim, to="extract")
        assert not desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason="again")
        assert desk.standing().checkpoint.generation == 1

    def test_a_move_of_the_generation_before_is_lost(self, desk: Desk) -> None:
        claim = desk.advance(desk.take_in())
        before = desk.forward(claim, items=[Item("chunk", 0, "1")])
        claim = _rewind(desk, claim, to="extract")
        assert desk.commit(before) == [LOST]
        assert desk.commit(desk.forward(claim)) == [ACCEPTED]

    def test_a_rewound_document_is_not_overdue_by_the_step_it_left(self, desk: Desk) -> None:
        claim = desk.take_in()
        claim = desk.advance(claim, timeout=SECOND)
        _rewind(desk, claim, to="extract")
        desk.clock.advance(SECOND * 2)
        assert desk.reclaim() == []

    def test_a_rewind_forgets_crashes(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash()
        claim = desk.claim_one()
        assert claim.crashes == 1
        _rewind(desk, claim, to="extract")
        assert (desk.standing().attempts, desk.standing().crashes) == (1, 0)

    def test_a_changed_document_after_a_rewind_drops_all_before(self, desk: Desk) -> None:
        claim = _rewind(desk, _at_embed(desk), to="chunk")
        desk.submit("a", fingerprint="f2")
        desk.finish(desk.claim_one())
        extract = desk.plan.step_ids["extract"]
        assert desk.store.read(claim.document_id, 0, extract, 0, 9) == []

    def test_only_documents_that_are_where_they_were_seen_are_rewound(self, desk: Desk) -> None:
        claim = desk.advance(desk.take_in())
        ids, seen = [claim.document_id], {claim.document_id: claim.checkpoint.moves}
        desk.advance(claim)
        rewind = partial(desk.store.rewind_to, desk.plan, ids, to="extract", who="ann", reason="gone")
        assert rewind(at=seen) == []
        assert rewind(at={}) == []
        assert rewind(at={claim.document_id: claim.checkpoint.moves + 1}) == ids
        assert desk.standing().checkpoint.generation == 1
