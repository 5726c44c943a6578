"""Documents are pinned to what they were really done under."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.errors import PlanRefused
from holdfast.core.model import Claim, Item, State
from holdfast.core.moves import rewound
from holdfast.core.pins import KnownPlan
from holdfast.core.plan import Shape, StepShape
from holdfast.core.stale import differences
from holdfast.stores.protocol import Store
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import PAPERS, SECOND, Conformance, Desk


def papers(*steps: str | StepShape, **renamed: str) -> Shape:
    """Makes a shape of the pipeline `papers`; steps that are only named are plain."""
    return Shape("papers", tuple(StepShape(one, "value") if isinstance(one, str) else one for one in steps), renamed)


def changed(name: str, **more: Any) -> Shape:
    """Gives PAPERS with one step changed."""
    return replace(PAPERS, steps=tuple(replace(one, **more) if one.name == name else one for one in PAPERS.steps))


def pin(desk: Desk, key: str = "a") -> KnownPlan:
    """Gives the plan that a document is pinned to."""
    (plan,) = [one for one in desk.store.plans("papers") if one.plan_id == desk.standing(key).plan_id]
    return plan


def whys(desk: Desk, shape: Shape, key: str = "a") -> list[str]:
    """Says what about a document differs from a shape."""
    return [one.why for one in differences(pin(desk, key).shape, shape)]


class PinConformance(Conformance):
    """What a claim does with documents of another plan."""

    def go_on_under(self, desk: Desk, shape: Shape) -> None:
        """Declares a shape a second later."""
        desk.clock.advance(SECOND)
        desk.plan = desk.store.declare(shape)

    def test_a_document_with_nothing_behind_it_takes_the_plan_that_claims_it(self, desk: Desk) -> None:
        desk.submit("a")
        self.go_on_under(desk, changed("extract", version=2))
        desk.claim_one()
        assert desk.standing().plan_id == desk.plan.plan_id

    def test_a_document_takes_a_plan_that_differs_only_ahead_of_it(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.take_in()))
        self.go_on_under(desk, changed("embed", version=2))
        desk.claim_one()
        assert desk.standing().plan_id == desk.plan.plan_id

    def test_a_document_in_the_middle_of_a_changed_step_takes_the_plan(self, desk: Desk) -> None:
        desk.give_back(desk.keep(desk.take_in(), "1", "2"))
        self.go_on_under(desk, changed("extract", version=2))
        desk.claim_one()
        assert desk.standing().plan_id == desk.plan.plan_id

    @pytest.mark.parametrize(
        "change", [{"version": 2}, {"settings": {"dpi": 300}}, {"keep": False}, {"kind": "value"}, {"over": "cover"}]
    )
    def test_work_behind_a_document_stays_stale_when_it_ends(self, desk: Desk, change: dict[str, Any]) -> None:
        desk.give_back(desk.advance(desk.take_in()))
        now = changed("extract", **change)
        self.go_on_under(desk, now)
        desk.finish(desk.claim_one())
        (why,) = whys(desk, now)
        assert "extract changed" in why

    def test_a_new_step_behind_a_document_stays_stale_when_it_ends(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.take_in()))
        now = papers(PAPERS.steps[0], "clean", *PAPERS.steps[1:])
        self.go_on_under(desk, now)
        desk.finish(desk.claim_one())
        assert whys(desk, now) == ["clean is new"]

    def test_a_step_that_was_removed_before_the_next_was_done_makes_nothing_stale(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.advance(desk.take_in())))
        now = papers(PAPERS.steps[0], PAPERS.steps[2])
        self.go_on_under(desk, now)
        desk.finish(desk.claim_one())
        assert whys(desk, now) == []

    def test_a_step_that_was_removed_after_others_were_made_with_it_is_stale(self, desk: Desk) -> None:
        desk.plan = desk.store.declare(papers("read", "clean", "split", "file"))
        claim = desk.advance(desk.advance(desk.advance(desk.take_in())))
        desk.give_back(claim)
        now = papers("read", "split", "file")
        self.go_on_under(desk, now)
        desk.finish(desk.claim_one())
        assert [(one.why, one.to) for one in differences(pin(desk).shape, now)] == [("clean was removed", "split")]

    def test_what_was_done_under_the_new_plan_is_stale_when_the_old_one_comes_back(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.take_in()))
        both = changed("extract", version=2)
        both = replace(both, steps=(*both.steps[:2], replace(both.steps[2], version=2)))
        self.go_on_under(desk, both)
        desk.finish(desk.claim_one())
        assert whys(desk, both) == ["extract changed: version 1 -> 2"]
        assert whys(desk, PAPERS) == ["embed changed: version 2 -> 1"]

    def test_a_claim_of_an_old_plan_makes_the_document_the_old_ones(self, desk: Desk) -> None:
        old, now = desk.plan, changed("extract", version=2)
        self.go_on_under(desk, now)
        desk.submit("a")
        desk.plan = old
        desk.finish(desk.claim_one())
        assert whys(desk, now) == ["extract changed: version 1 -> 2"]

    def test_a_suspect_is_pinned_like_any_other(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.take_in()))
        desk.crash(times=2)
        now = changed("extract", version=2)
        self.go_on_under(desk, now)
        (claim,) = desk.store.claim_suspect(desk.plan, desk.worker)
        desk.finish(claim)
        assert whys(desk, now) == ["extract changed: version 1 -> 2"]

    def test_a_claim_in_exchange_for_moves_pins_like_any_other(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.take_in("a")))
        now = changed("extract", version=2)
        self.go_on_under(desk, now)
        desk.submit("b", priority=1)
        move = desk.forward(desk.claim_one())
        _, (claim,) = desk.store.exchange(desk.plan, [move], desk.worker, limit=1)
        assert claim.key == "a"
        assert whys(desk, now) == ["extract changed: version 1 -> 2"]

    def test_many_documents_of_several_plans_are_each_pinned_as_they_were_done(self, desk: Desk) -> None:
        desk.submit("new", "old")
        desk.give_back(desk.claim_one())
        _, old = desk.claim()
        desk.give_back(desk.advance(old))
        desk.store.retire(desk.worker)
        desk.worker = desk.enlist("bob")
        now = changed("extract", version=2)
        self.go_on_under(desk, now)
        assert len(desk.claim()) == 2
        assert whys(desk, now, "new") == []
        assert whys(desk, now, "old") == ["extract changed: version 1 -> 2"]

    def test_a_step_under_another_name_is_the_same_step(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.advance(desk.take_in())))
        extract, chunk, embed = PAPERS.steps
        now = papers(replace(extract, name="pages"), replace(chunk, name="split"), replace(embed, over="split"))
        self.go_on_under(desk, replace(now, renamed={"extract": "pages", "chunk": "split"}))
        desk.finish(desk.claim_one())
        assert desk.standing().plan_id == desk.plan.plan_id
        assert whys(desk, now) == []

    def test_what_its_holder_rewinds_and_does_again_is_stale_no_more(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.take_in()))
        now = changed("extract", version=2)
        self.go_on_under(desk, now)
        claim = desk.claim_one()
        assert whys(desk, now)
        assert desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason="why")
        assert whys(desk, now) == []
        assert desk.standing().plan_id == desk.plan.plan_id

    def test_a_document_that_is_submitted_anew_takes_the_plan(self, desk: Desk) -> None:
        desk.finish(desk.take_in())
        self.go_on_under(desk, changed("extract", version=2))
        desk.submit("a", fingerprint="changed")
        assert desk.standing().plan_id == desk.plan.plan_id

    def test_a_lost_worker_leaves_the_pin_as_it_was(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.take_in()))
        now = changed("extract", version=2)
        self.go_on_under(desk, now)
        desk.crash()
        assert whys(desk, now) == ["extract changed: version 1 -> 2"]
        desk.finish(desk.claim_one())
        assert whys(desk, now) == ["extract changed: version 1 -> 2"]

    def test_plans_that_nobody_declared_are_not_the_shape_of_the_pipeline(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.take_in()))
        now = changed("extract", version=2)
        now = replace(now, steps=(*now.steps, StepShape("publish", "value")))
        self.go_on_under(desk, now)
        desk.claim_one()
        assert pin(desk).declared_at is None
        assert desk.store.shape("papers") == now

    def test_claims_of_the_same_kind_share_one_plan(self, desk: Desk, other: Store) -> None:
        for key in ("a", "b"):
            desk.give_back(desk.advance(desk.take_in(key)), delay=SECOND)
        now = changed("extract", version=2)
        now = replace(now, steps=(*now.steps, StepShape("publish", "value")))
        self.go_on_under(desk, now)
        assert len(desk.claim(limit=1)) == len(other.claim(desk.plan, desk.worker, limit=1)) == 1
        assert desk.standing("a").plan_id == desk.standing("b").plan_id
        assert len(desk.store.plans("papers")) == 3

    @pytest.mark.parametrize("state", ["waiting", "running", "paused"])
    def test_a_removed_step_cannot_come_back_further_down(self, desk: Desk, state: State) -> None:
        """An intermediate plan that lacks the step claimed the document: it would meet what it kept there before."""
        claim = desk.keep(desk.advance(desk.take_in()), "1")
        desk.give_back(desk.advance(claim))
        extract, chunk, embed = PAPERS.steps
        self.go_on_under(desk, papers(extract, embed))
        claim = desk.claim_one()
        if state != "running":
            desk.give_back(claim, state=state)
        with pytest.raises(PlanRefused, match="'chunk' came before 'embed'"):
            desk.store.declare(papers(extract, embed, chunk))

    def test_a_step_of_an_intermediate_plan_cannot_come_again(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.advance(desk.take_in())))
        extract, _, embed = PAPERS.steps
        self.go_on_under(desk, papers(extract, embed, "publish"))
        desk.give_back(desk.advance(desk.keep(desk.claim_one(), "1")))
        with pytest.raises(PlanRefused, match="'embed' came before 'publish'"):
            desk.store.declare(papers(extract, "publish", embed))
        with pytest.raises(PlanRefused, match="would send documents back"):
            desk.store.declare(papers(extract, embed, publish="embed"))

    def test_a_dead_letter_that_lost_a_step_begins_anew_when_it_comes_back_further_down(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.keep(desk.advance(desk.take_in()), "1")))
        extract, chunk, embed = PAPERS.steps
        self.go_on_under(desk, papers(extract, embed))
        desk.bury(desk.claim_one())
        self.go_on_under(desk, papers(extract, embed, chunk))
        here = desk.standing()
        assert (here.checkpoint.generation, here.checkpoint.step) == (1, "extract")
        desk.store.redrive([here.id], who="ann", reason="again")
        claim = desk.advance(desk.advance(desk.claim_one()))
        desk.finish(desk.keep(claim, "2"))


class MovedPinConformance(Conformance):
    """What the verbs do that move documents without a claim: the pin tells what was really done."""

    def go_on_under(self, desk: Desk, shape: Shape) -> None:
        """Declares a shape a second later."""
        desk.clock.advance(SECOND)
        desk.plan = desk.store.declare(shape)

    def run(self, desk: Desk, claim: Claim, *, to: str | None = None) -> Claim:
        """Does step after step, each keeping its name, until the document stands at one, or at its end."""
        while claim.checkpoint.step not in (to, None):
            step = claim.checkpoint.step or ""
            claim = desk.advance(claim, items=[Item(step, 0, f'"{step}"')])
        return claim

    def rewind(self, desk: Desk, *, to: str) -> bool:
        """Rewinds the document, as somebody who decides it. Says whether it was taken."""
        return bool(desk.store.rewind_to(desk.plan, [desk.standing().id], to=to, who="cat", reason="why"))

    def kept(self, desk: Desk) -> list[str]:
        """Gives the steps whose items serve the document."""
        return sorted({step for step, _, _ in desk.store.items(desk.standing().id)})

    def begin(self, store: Store, clock: ManualClock, *steps: str | StepShape) -> Desk:
        """Declares a pipeline of these steps."""
        return Desk(store, clock, papers(*steps))

    @pytest.mark.parametrize("state", ["waiting", "dead", "paused"])
    def test_a_step_that_a_rename_skipped_is_not_done(self, store: Store, clock: ManualClock, state: State) -> None:
        desk = self.begin(store, clock, "a", "b", "c")
        desk.give_back(self.run(desk, desk.take_in(), to="b"), state=state)
        self.go_on_under(desk, papers("a", "c", b="c"))
        assert whys(desk, papers("a", "c")) == []
        assert whys(desk, papers("a", "b", "c")) == ["b is new"]
        self.go_on_under(desk, papers("a", "b", "c"))
        assert not self.rewind(desk, to="c")
        assert self.rewind(desk, to="b")

    def test_a_dead_letter_that_a_rename_moved_begins_anew_under_another_order(
        self, store: Store, clock: ManualClock
    ) -> None:
        desk = self.begin(store, clock, "a", "b", "c", "d")
        desk.bury(self.run(desk, desk.take_in(), to="c"))
        self.go_on_under(desk, papers("b", "a", "d", c="d"))
        here = desk.standing()
        assert (here.checkpoint.generation, here.checkpoint.step, here.plan_id) == (1, "b", desk.plan.plan_id)

    def test_a_dead_letter_may_be_moved_to_a_step_that_the_plan_lacks(self, store: Store, clock: ManualClock) -> None:
        desk = self.begin(store, clock, "a", "b", "c")
        desk.bury(self.run(desk, desk.take_in(), to="b"))
        begun = desk.plan.plan_id
        self.go_on_under(desk, papers("a", b="c"))
        assert (desk.standing().checkpoint.step, desk.standing().plan_id) == ("c", begun)

    def test_what_comes_after_the_last_gate_was_not_done_by_whom_it_let_out(
        self, store: Store, clock: ManualClock
    ) -> None:
        gate = StepShape("g", "gate")
        desk = self.begin(store, clock, "a", gate, "b", "c")
        desk.park(desk.take_in(), at="g")
        self.go_on_under(desk, papers("a", gate))
        assert desk.store.resume(desk.plan, [desk.standing().id], who="cat", reason="fine")
        assert (desk.standing().state, desk.standing().plan_id) == ("done", desk.plan.plan_id)
        assert whys(desk, papers("a", gate, "b", "c")) == ["b is new", "c is new"]
        self.go_on_under(desk, papers("a", gate, "b", "c"))
        assert not self.rewind(desk, to="c")

    def test_a_step_that_was_skipped_past_a_gate_is_not_done(self, store: Store, clock: ManualClock) -> None:
        gate = StepShape("g", "gate")
        desk = self.begin(store, clock, "a", gate, "b", "c")
        desk.park(desk.take_in(), at="g")
        self.go_on_under(desk, papers("a", gate, "c"))
        assert desk.store.resume(desk.plan, [desk.standing().id], who="cat", reason="fine")
        assert desk.standing().checkpoint.step == "c"
        assert whys(desk, papers("a", gate, "b", "c")) == ["b is new"]

    def test_a_hold_that_is_undone_pins_nothing(self, desk: Desk) -> None:
        desk.submit("a")
        begun, ids = desk.plan.plan_id, [desk.standing().id]
        desk.store.pause(ids, who="cat", reason="wait")
        self.go_on_under(desk, changed("extract", version=2))
        assert desk.store.resume(desk.plan, ids, who="cat", reason="go on") == ids
        assert desk.standing().plan_id == begun

    def test_what_a_removed_step_kept_is_there_when_it_comes_back_after_a_rewind(
        self, store: Store, clock: ManualClock
    ) -> None:
        desk = self.begin(store, clock, "a", "b", "c")
        self.run(desk, desk.take_in())
        self.go_on_under(desk, papers("b", "c"))
        assert self.rewind(desk, to="c")
        self.go_on_under(desk, papers("a", "b", "c"))
        assert whys(desk, papers("a", "b", "c")) == []
        self.run(desk, desk.claim_one())
        assert self.kept(desk) == ["a", "b", "c"]

    def test_what_a_removed_step_kept_is_there_when_its_holder_rewound_the_document(
        self, store: Store, clock: ManualClock
    ) -> None:
        desk = self.begin(store, clock, "a", "b", "c")
        desk.give_back(self.run(desk, desk.take_in(), to="c"))
        self.go_on_under(desk, papers("b", "c"))
        for _ in range(2):
            claim = desk.claim_one()
            assert desk.store.rewind(desk.plan, claim, to="c", who="ann", reason="gone")
            desk.give_back(rewound(claim, to="c", before=["b"]))
        self.run(desk, desk.claim_one())
        assert whys(desk, papers("a", "b", "c")) == []
        assert self.kept(desk) == ["a", "b", "c"]
        assert desk.store.reuses([desk.standing().id]) == {desk.standing().id: {"a": 0, "b": 0}}

    def test_a_step_that_was_gone_is_not_done_when_it_comes_back(self, store: Store, clock: ManualClock) -> None:
        desk = self.begin(store, clock, "x", "a", "b", "c")
        desk.give_back(self.run(desk, desk.take_in(), to="c"))
        self.go_on_under(desk, papers("x", "a", "c"))
        self.run(desk, desk.claim_one())
        assert self.rewind(desk, to="c")
        self.run(desk, desk.claim_one())
        self.go_on_under(desk, papers("x", "a", "b", "c"))
        assert not self.rewind(desk, to="c")
        assert self.rewind(desk, to="b")
        self.run(desk, desk.claim_one())
        assert self.kept(desk) == ["a", "b", "c", "x"]

    def test_a_step_that_comes_back_ahead_of_a_rewound_document_is_done_anew(
        self, store: Store, clock: ManualClock
    ) -> None:
        desk = self.begin(store, clock, "a", "c", "d", "e")
        desk.give_back(self.run(desk, desk.take_in(), to="d"))
        self.go_on_under(desk, papers("a", "d", "e"))
        self.run(desk, desk.claim_one())
        self.go_on_under(desk, papers("a", "c", "e"))
        assert self.rewind(desk, to="c")
        assert desk.store.reuses([desk.standing().id]) == {desk.standing().id: {"a": 0}}

    def test_a_document_rewound_to_a_new_step_can_be_rewound_again(self, store: Store, clock: ManualClock) -> None:
        desk = self.begin(store, clock, "x", "a", "c")
        self.run(desk, desk.take_in())
        self.go_on_under(desk, papers("x", "a", "n", "c"))
        assert [self.rewind(desk, to=to) for to in ("n", "n", "c", "a")] == [True, True, False, True]
        assert desk.standing().plan_id == desk.plan.plan_id
