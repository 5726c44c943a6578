"""Rows that somebody edited or a disk damaged: a claim survives them, and so does everybody who only looks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.integrity import Traces
from holdfast.core.model import Claim, Item
from holdfast.core.moves import ACCEPTED, rewound
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, Desk


def _put_back(desk: Desk, key: str = "a") -> Claim:
    """A document that waits in the middle of its first step, with one item kept."""
    claim = desk.keep(desk.take_in(key), '"page"')
    assert desk.give_back(claim, verb="release", costs="nothing")
    return claim


def _at_third_generation(desk: Desk) -> Claim:
    """A document that was rewound three times, and kept an item each time."""
    claim = desk.take_in()
    for generation in range(3):
        assert desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason=f"after {generation}")
        claim = desk.keep(rewound(claim, to="extract", before=[]), '"page"')
    return claim


def _begins_as_fourth(desk: Desk) -> None:
    """Claims that document: what it kept is behind it, and nothing is later than itself."""
    again = desk.claim_one()
    assert (again.key, again.checkpoint.generation, desk.items(again)) == ("a", 4, [])
    assert desk.store.traces(desk.plan, [again]) == [Traces(3, 0, desk.plan.plan_id)]


class IntegrityConformance(Conformance):
    """What a store does with rows that no verb of it wrote."""

    @pytest.mark.parametrize("cursor", ["{", '"\\ud800"', "1e"])
    def test_a_cursor_that_cannot_be_read_is_claimed_as_damaged(self, desk: Desk, cursor: str) -> None:
        claim = _put_back(desk)
        self.corrupt_or_skip(desk, claim, cursor=cursor)
        again = desk.claim_one()
        assert again.damage.startswith("its cursor cannot be read (")
        assert (again.document_id, again.checkpoint.cursor) == (claim.document_id, None)

    def test_a_sound_claim_has_no_damage(self, desk: Desk) -> None:
        assert desk.take_in().damage == ""

    def test_the_others_are_claimed_beside_a_damaged_one(self, desk: Desk) -> None:
        claim = _put_back(desk)
        desk.submit("b", "c")
        self.corrupt(desk.store, claim.document_id, cursor='"\\ud800"')
        assert [(one.key, bool(one.damage)) for one in desk.claim()] == [("a", True), ("b", False), ("c", False)]

    def test_a_damaged_document_can_be_looked_at(self, desk: Desk) -> None:
        claim = _put_back(desk)
        self.corrupt(desk.store, claim.document_id, cursor='"\\ud800"')
        here = desk.standing()
        assert here.checkpoint.cursor == '"\\ud800"'
        assert desk.store.standings("papers") == desk.store.find("a") == desk.store.look([here.id]) == [here]

    def test_a_damaged_document_can_be_given_back_and_its_journal_read(self, desk: Desk) -> None:
        claim = _put_back(desk)
        self.corrupt(desk.store, claim.document_id, cursor='"\\ud800"')
        assert desk.give_back(desk.claim_one(), state="paused", verb="pause", costs="nothing", reason="damaged")
        assert desk.standing().state == "paused"
        assert desk.store.journal(claim.document_id)[-1].cursor == '"\\ud800"'

    def test_a_damaged_document_of_a_lost_worker_is_reclaimed(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), '"page"')
        self.corrupt(desk.store, claim.document_id, cursor='"\\ud800"')
        desk.clock.advance(LEASE + SECOND)
        assert [one.state for one in desk.reclaim()] == ["waiting"]

    def test_a_step_that_the_pipeline_never_had_parks_the_document_when_it_is_declared(self, desk: Desk) -> None:
        claim = _put_back(desk)
        desk.submit("b", batch="april")
        self.corrupt(desk.store, claim.document_id, step_id=4711)
        assert desk.keys_claimed() == ["b"]
        desk.store.declare(desk.shape)
        here = desk.standing()
        assert (here.state, here.due_at) == ("paused", None)
        assert "stands at a step that the store does not know" in here.reason
        assert here.reason.endswith("look at it, then rewind it to extract")
        line = desk.store.journal(claim.document_id)[-1]
        assert (line.verb, line.who) == ("pause", "declare")
        assert line.detail == {"reason": here.reason, "was": "waiting", "state": "paused"}
        self.mend(desk, claim)

    def test_it_is_parked_once(self, desk: Desk) -> None:
        claim = _put_back(desk)
        self.corrupt(desk.store, claim.document_id, step_id=4711)
        for _ in range(2):
            desk.store.declare(desk.shape)
        assert desk.verbs(claim) == ["release", "pause"]
        self.mend(desk, claim)

    def test_that_parking_has_a_number_of_its_own(self, desk: Desk) -> None:
        claim = _put_back(desk)
        seen = {claim.document_id: desk.standing().checkpoint.moves}
        self.corrupt(desk.store, claim.document_id, step_id=4711)
        desk.store.declare(desk.shape)
        assert desk.store.reject([*seen], at=seen, who="eve", reason="an old list") == []
        self.mend(desk, claim)

    def test_a_step_of_another_pipeline_is_one_that_it_never_had(self, desk: Desk, gated: Desk) -> None:
        claim = _put_back(desk)
        self.corrupt(desk.store, claim.document_id, step_id=gated.plan.step_ids["read"])
        desk.store.declare(desk.shape)
        assert desk.standing().state == "paused"

    def test_a_lost_document_of_a_lost_worker_is_reclaimed_and_parked(self, desk: Desk) -> None:
        claim = desk.take_in()
        self.corrupt(desk.store, claim.document_id, step_id=4711)
        desk.clock.advance(LEASE + SECOND)
        desk.reclaim()
        desk.store.declare(desk.shape)
        assert desk.standing().state == "paused"
        self.mend(desk, claim)

    def test_a_damaged_document_can_be_rewound(self, desk: Desk) -> None:
        claim = desk.keep(desk.advance(desk.keep(desk.take_in(), '"page"')), '"chunk"')
        self.corrupt(desk.store, claim.document_id, cursor='"\\ud800"')
        ids = [claim.document_id]
        assert desk.store.rewind_to(desk.plan, ids, to="chunk", who="ann", reason="damaged") == ids
        again = desk.claim_one()
        assert (again.damage, again.checkpoint.cursor, again.reuses) == ("", None, {"extract": 0})

    def test_one_rewind_leads_out_of_a_damaged_generation(self, desk: Desk) -> None:
        claim = _at_third_generation(desk)
        desk.give_back(claim, verb="release", costs="nothing")
        self.corrupt(desk.store, claim.document_id, generation=1)
        ids = [claim.document_id]
        assert desk.store.rewind_to(desk.plan, ids, to="extract", who="ann", reason="damaged") == ids
        assert desk.store.journal(claim.document_id)[-1].generation == 4
        _begins_as_fourth(desk)

    def test_changed_content_leads_out_of_a_damaged_generation(self, desk: Desk) -> None:
        claim = _at_third_generation(desk)
        self.corrupt(desk.store, claim.document_id, generation=1)
        desk.submit("b")
        assert desk.submit("a", "b", fingerprint="changed").changed == 2
        assert desk.standing("b").checkpoint.generation == 1
        _begins_as_fourth(desk)

    def test_a_dead_letter_that_begins_anew_is_led_out_of_a_damaged_generation(self, desk: Desk) -> None:
        claim = _at_third_generation(desk)
        desk.bury(claim)
        self.corrupt(desk.store, claim.document_id, generation=1)
        desk.plan = desk.store.declare(replace(desk.shape, steps=desk.shape.steps[1::-1] + desk.shape.steps[2:]))
        assert desk.store.journal(claim.document_id)[-1].generation == 4
        assert desk.store.redrive([claim.document_id], who="ann", reason="again")
        _begins_as_fourth(desk)

    def test_a_document_at_an_unknown_step_can_be_rewound_to_the_first(self, desk: Desk) -> None:
        claim = _put_back(desk)
        self.corrupt(desk.store, claim.document_id, step_id=4711)
        desk.store.declare(desk.shape)
        ids = [claim.document_id]
        assert desk.store.rewind_to(desk.plan, ids, to="chunk", who="ann", reason="damaged") == []
        assert desk.store.rewind_to(desk.plan, ids, to="extract", who="ann", reason="damaged") == ids
        assert desk.claim_one().checkpoint.step == "extract"

    def test_what_is_kept_is_found_whatever_the_checkpoint_says(self, desk: Desk) -> None:
        desk.submit("a", "b")
        claim, other = desk.claim()
        pin = desk.plan.plan_id
        assert desk.store.traces(desk.plan, [claim]) == [Traces(-1, 0, pin)]
        items = [Item("extract", place, "1") for place in range(3)]
        move = desk.within(claim, 3, items=items)
        assert desk.commit(move) == [ACCEPTED]
        within = replace(claim, checkpoint=move.after)
        past = desk.advance(within)
        claims = [other, within, past]
        pin = desk.plan.plan_id
        assert desk.store.traces(desk.plan, claims) == [Traces(-1, 0, pin), Traces(0, 3, pin), Traces(0, 0, pin)]
        assert desk.store.traces(desk.plan, []) == []

    def test_items_of_a_later_generation_leave_traces(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        assert desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason="anew")
        again = rewound(claim, to="extract", before=[])
        desk.keep(again, "1", "2")
        pin = desk.plan.plan_id
        assert desk.store.traces(desk.plan, [claim, again]) == [Traces(1, 1, pin), Traces(1, 2, pin)]

    def mend(self, desk: Desk, claim: Claim) -> None:
        """Puts a lost document back by hand: a step that is unknown is counted at none."""
        assert desk.store.batches("papers")[0].at_step == {}
        self.corrupt(desk.store, claim.document_id, step_id=desk.plan.first)

    def corrupt_or_skip(self, desk: Desk, claim: Claim, **columns: str) -> None:
        """Some databases do not even take such a text."""
        try:
            self.corrupt(desk.store, claim.document_id, **columns)
        except self.forbidden as refusal:
            pytest.skip(f"the database refuses it: {refusal}")


class ThisOneConformance(Conformance):
    """What a claim of one certain document promises."""

    def test_a_document_is_claimed_by_its_number_alone(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        (claim,) = desk.store.claim_this(desk.plan, desk.worker, desk.standing("b").id)
        assert (claim.key, claim.fence, claim.attempts) == ("b", 1, 1)
        assert desk.standing("b").holder == "ann"
        assert desk.keys_claimed() == ["a", "c"]

    def test_it_need_not_be_due(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.give_back(claim, delay=SECOND)
        assert desk.claim() == []
        (again,) = desk.store.claim_this(desk.plan, desk.worker, claim.document_id)
        assert again.fence == claim.fence + 1

    def test_a_suspect_is_claimed_like_any_other(self, desk: Desk) -> None:
        desk.submit("a")
        desk.crash(times=2)
        (claim,) = desk.store.claim_this(desk.plan, desk.worker, desk.standing("a").id)
        assert claim.crashes == 2

    def test_only_one_that_waits_is_claimed(self, desk: Desk) -> None:
        claim = desk.take_in()
        assert desk.store.claim_this(desk.plan, desk.worker, claim.document_id) == []
        desk.finish(claim)
        assert desk.store.claim_this(desk.plan, desk.worker, claim.document_id) == []
        assert desk.store.claim_this(desk.plan, desk.worker, 404) == []

    def test_a_document_of_another_pipeline_is_not_claimed(self, desk: Desk, gated: Desk) -> None:
        gated.submit("a")
        assert desk.store.claim_this(desk.plan, desk.worker, gated.standing("a").id) == []

    def test_a_worker_that_was_given_up_gets_none(self, desk: Desk) -> None:
        desk.submit("a")
        desk.store.retire(desk.worker)
        assert desk.store.claim_this(desk.plan, desk.worker, desk.standing("a").id) == []
