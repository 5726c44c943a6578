"""Damaged rows: no claim and no read fails because of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.integrity import KeptState, StepItems
from holdfast.core.model import Claim, Item
from holdfast.core.moves import ACCEPTED, rewound
from holdfast.core.reasons import DAMAGED, sentence
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, StoreHarness


def _put_back(harness: StoreHarness, key: str = "a") -> Claim:
    """Return a document that waits in the middle of its first step, with one item kept."""
    claim = harness.keep(harness.submit_and_claim(key), '"page"')
    assert harness.release(claim, verb="release", costs="nothing")
    return claim


def _at_third_generation(harness: StoreHarness) -> Claim:
    """Return a document that was rewound three times and kept an item each time."""
    claim = harness.submit_and_claim()
    for generation in range(3):
        assert harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason=f"after {generation}")
        claim = harness.keep(rewound(claim, to="extract", steps=[*harness.plan.step_ids]), '"page"')
    return claim


def _begins_as_fourth(harness: StoreHarness) -> None:
    """Claim the document. Check that it is in a fourth generation, which is later than that of every item."""
    again = harness.claim_one()
    assert (again.key, again.checkpoint.generation, harness.items(again)) == ("a", 4, [])
    assert harness.store.kept_state(harness.plan, [again]) == [KeptState(3, 0, harness.plan.plan_id, {})]


class DamagedRowConformance(Conformance):
    """Tests of rows that no verb of the store wrote."""

    @pytest.mark.parametrize("cursor", ["{", '"\\ud800"', "1e"])
    def test_a_cursor_that_cannot_be_read_is_claimed_as_damaged(self, harness: StoreHarness, cursor: str) -> None:
        claim = _put_back(harness)
        self.corrupt_or_skip(harness, claim, cursor=cursor)
        again = harness.claim_one()
        assert again.damage is not None
        assert again.damage.trusted == "earlier steps"
        assert again.damage.what.startswith("its cursor cannot be read (")
        assert (again.document_id, again.checkpoint.cursor) == (claim.document_id, None)

    def test_an_intact_claim_has_no_damage(self, harness: StoreHarness) -> None:
        assert harness.submit_and_claim().damage is None

    def test_other_documents_are_claimed_beside_a_damaged_one(self, harness: StoreHarness) -> None:
        claim = _put_back(harness)
        harness.submit("b", "c")
        self.corrupt(harness.store, claim.document_id, cursor='"\\ud800"')
        assert [(one.key, bool(one.damage)) for one in harness.claim()] == [("a", True), ("b", False), ("c", False)]

    def test_a_damaged_document_can_be_read(self, harness: StoreHarness) -> None:
        claim = _put_back(harness)
        self.corrupt(harness.store, claim.document_id, cursor='"\\ud800"')
        status = harness.document()
        assert status.checkpoint.cursor == '"\\ud800"'
        assert (
            harness.store.documents("papers")
            == harness.store.find("a")
            == harness.store.documents_by_id([status.id])
            == [status]
        )

    def test_a_damaged_document_can_be_released_and_its_journal_read(self, harness: StoreHarness) -> None:
        claim = _put_back(harness)
        self.corrupt(harness.store, claim.document_id, cursor='"\\ud800"')
        assert harness.release(harness.claim_one(), state="paused", verb="pause", costs="nothing", reason="damaged")
        assert harness.document().state == "paused"
        assert harness.store.journal(claim.document_id)[-1].cursor == '"\\ud800"'

    def test_a_damaged_document_of_a_lost_worker_is_reclaimed(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), '"page"')
        self.corrupt(harness.store, claim.document_id, cursor='"\\ud800"')
        harness.clock.advance(LEASE + SECOND)
        assert [one.state for one in harness.reclaim()] == ["waiting"]

    def test_a_step_that_the_pipeline_never_had_parks_the_document_when_it_is_declared(
        self, harness: StoreHarness
    ) -> None:
        claim = _put_back(harness)
        harness.submit("b", batch="april")
        self.corrupt(harness.store, claim.document_id, step_id=4711)
        assert harness.keys_claimed() == ["b"]
        harness.store.declare(harness.shape)
        status = harness.document()
        assert (status.state, status.due_at) == ("paused", None)
        what = "it stands at a step that the store does not know"
        assert status.reason == sentence(DAMAGED, what=what, to="extract")
        assert status.code == DAMAGED
        line = harness.store.journal(claim.document_id)[-1]
        assert (line.verb, line.who, line.code) == ("pause", "declare", DAMAGED)
        assert line.detail == {"reason": status.reason, "was": "waiting", "state": "paused"}
        self.mend(harness, claim)

    def test_a_document_at_an_unknown_step_is_parked_once(self, harness: StoreHarness) -> None:
        claim = _put_back(harness)
        self.corrupt(harness.store, claim.document_id, step_id=4711)
        for _ in range(2):
            harness.store.declare(harness.shape)
        assert harness.verbs(claim) == ["release", "pause"]
        self.mend(harness, claim)

    def test_parking_at_an_unknown_step_has_its_own_number(self, harness: StoreHarness) -> None:
        claim = _put_back(harness)
        seen = {claim.document_id: harness.document().checkpoint.moves}
        self.corrupt(harness.store, claim.document_id, step_id=4711)
        harness.store.declare(harness.shape)
        assert harness.store.reject([*seen], at=seen, who="eve", reason="an old list") == []
        self.mend(harness, claim)

    def test_a_step_of_another_pipeline_counts_as_unknown(self, harness: StoreHarness, gated: StoreHarness) -> None:
        claim = _put_back(harness)
        self.corrupt(harness.store, claim.document_id, step_id=gated.plan.step_ids["read"])
        harness.store.declare(harness.shape)
        assert harness.document().state == "paused"

    def test_a_document_of_a_lost_worker_at_an_unknown_step_is_reclaimed_and_parked(
        self, harness: StoreHarness
    ) -> None:
        claim = harness.submit_and_claim()
        self.corrupt(harness.store, claim.document_id, step_id=4711)
        harness.clock.advance(LEASE + SECOND)
        harness.reclaim()
        harness.store.declare(harness.shape)
        assert harness.document().state == "paused"
        self.mend(harness, claim)

    def test_a_damaged_document_can_be_rewound(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.advance(harness.keep(harness.submit_and_claim(), '"page"')), '"chunk"')
        self.corrupt(harness.store, claim.document_id, cursor='"\\ud800"')
        ids = [claim.document_id]
        assert harness.store.rewind_to(harness.plan, ids, to="chunk", who="ann", reason="damaged") == ids
        again = harness.claim_one()
        assert (again.damage, again.checkpoint.cursor, again.reuses) == (None, None, {"extract": 0})

    def test_one_rewind_repairs_a_damaged_generation(self, harness: StoreHarness) -> None:
        claim = _at_third_generation(harness)
        harness.release(claim, verb="release", costs="nothing")
        self.corrupt(harness.store, claim.document_id, generation=1)
        ids = [claim.document_id]
        assert harness.store.rewind_to(harness.plan, ids, to="extract", who="ann", reason="damaged") == ids
        assert harness.store.journal(claim.document_id)[-1].generation == 4
        _begins_as_fourth(harness)

    def test_changed_content_repairs_a_damaged_generation(self, harness: StoreHarness) -> None:
        claim = _at_third_generation(harness)
        self.corrupt(harness.store, claim.document_id, generation=1)
        harness.submit("b")
        assert harness.submit("a", "b", fingerprint="changed").changed == 2
        assert harness.document("b").checkpoint.generation == 1
        _begins_as_fourth(harness)

    def test_a_dead_letter_that_starts_over_repairs_a_damaged_generation(self, harness: StoreHarness) -> None:
        claim = _at_third_generation(harness)
        harness.make_dead(claim)
        self.corrupt(harness.store, claim.document_id, generation=1)
        harness.plan = harness.store.declare(
            replace(harness.shape, steps=harness.shape.steps[1::-1] + harness.shape.steps[2:])
        )
        assert harness.store.journal(claim.document_id)[-1].generation == 4
        assert harness.store.redrive([claim.document_id], who="ann", reason="again")
        _begins_as_fourth(harness)

    def test_a_document_at_an_unknown_step_can_be_rewound_to_the_first(self, harness: StoreHarness) -> None:
        claim = _put_back(harness)
        self.corrupt(harness.store, claim.document_id, step_id=4711)
        harness.store.declare(harness.shape)
        ids = [claim.document_id]
        assert harness.store.rewind_to(harness.plan, ids, to="chunk", who="ann", reason="damaged") == []
        assert harness.store.rewind_to(harness.plan, ids, to="extract", who="ann", reason="damaged") == ids
        assert harness.claim_one().checkpoint.step == "extract"

    def test_kept_state_counts_items_whatever_the_checkpoint_says(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        claim, other = harness.claim()
        pin = harness.plan.plan_id
        assert harness.store.kept_state(harness.plan, [claim]) == [KeptState(-1, 0, pin, {})]
        items = [Item("extract", place, "1") for place in range(3)]
        move = harness.within(claim, 3, items=items)
        assert harness.commit(move) == [ACCEPTED]
        within = replace(claim, checkpoint=move.after)
        past = harness.advance(within)
        claims = [other, within, past]
        pin = harness.plan.plan_id
        assert harness.store.kept_state(harness.plan, claims) == [
            KeptState(-1, 0, pin, {}),
            KeptState(0, 3, pin, {"extract": StepItems(3)}),
            KeptState(0, 0, pin, {"extract": StepItems(3)}),
        ]
        assert harness.store.kept_state(harness.plan, []) == []

    def test_kept_state_has_items_of_a_later_generation(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        assert harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="again")
        again = rewound(claim, to="extract", steps=[*harness.plan.step_ids])
        harness.keep(again, "1", "2")
        pin = harness.plan.plan_id
        assert harness.store.kept_state(harness.plan, [claim, again]) == [
            KeptState(1, 1, pin, {"extract": StepItems(1)}),
            KeptState(1, 2, pin, {"extract": StepItems(2)}),
        ]

    def mend(self, harness: StoreHarness, claim: Claim) -> None:
        """Put a document back at a known step, as a person with SQL would."""
        assert harness.store.batches("papers")[0].at_step == {}
        self.corrupt(harness.store, claim.document_id, step_id=harness.plan.first)

    def corrupt_or_skip(self, harness: StoreHarness, claim: Claim, **columns: str) -> None:
        """Damage a document. Skip the test if the database refuses such a text."""
        try:
            self.corrupt(harness.store, claim.document_id, **columns)
        except self.forbidden as refusal:
            pytest.skip(f"the database refuses it: {refusal}")
