"""Pins: a document stores the plan under which each of its steps was done."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.errors import PlanRefused
from holdfast.core.model import Claim, Item, State
from holdfast.core.moves import rewound
from holdfast.core.plan import KnownPlan, Shape, StepShape
from holdfast.core.staleness import differences
from holdfast.stores.protocol import Store
from holdfast.testing.clock import ManualClock
from holdfast.testing.conformance.base import PAPERS, SECOND, Conformance, StoreHarness, papers


def changed(name: str, **more: Any) -> Shape:
    """Return PAPERS with one step changed."""
    return replace(PAPERS, steps=tuple(replace(one, **more) if one.name == name else one for one in PAPERS.steps))


def pin(harness: StoreHarness, key: str = "a") -> KnownPlan:
    """Return the plan that a document is pinned to."""
    (plan,) = [one for one in harness.store.plans("papers") if one.plan_id == harness.document(key).plan_id]
    return plan


def whys(harness: StoreHarness, shape: Shape, key: str = "a") -> list[str]:
    """Return how the work of a document differs from a shape."""
    return [one.why for one in differences(pin(harness, key).shape, shape)]


def declare_later(harness: StoreHarness, shape: Shape) -> None:
    """Declare a shape one second later."""
    harness.clock.advance(SECOND)
    harness.plan = harness.store.declare(shape)


class PinConformance(Conformance):
    """Tests of the pin after a claim under another plan."""

    def test_a_document_without_finished_steps_takes_the_plan_that_claims_it(self, harness: StoreHarness) -> None:
        harness.submit("a")
        declare_later(harness, changed("extract", version=2))
        harness.claim_one()
        assert harness.document().plan_id == harness.plan.plan_id

    def test_a_document_takes_a_plan_that_differs_only_in_later_steps(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.submit_and_claim()))
        declare_later(harness, changed("embed", version=2))
        harness.claim_one()
        assert harness.document().plan_id == harness.plan.plan_id

    def test_a_document_in_the_middle_of_a_changed_step_takes_the_plan(self, harness: StoreHarness) -> None:
        harness.release(harness.keep(harness.submit_and_claim(), "1", "2"))
        declare_later(harness, changed("extract", version=2))
        harness.claim_one()
        assert harness.document().plan_id == harness.plan.plan_id

    @pytest.mark.parametrize(
        "change", [{"version": 2}, {"settings": {"dpi": 300}}, {"keep": False}, {"kind": "value"}, {"over": "cover"}]
    )
    def test_changed_steps_behind_a_document_stay_stale_when_it_is_done(
        self, harness: StoreHarness, change: dict[str, Any]
    ) -> None:
        harness.release(harness.advance(harness.submit_and_claim()))
        now = changed("extract", **change)
        declare_later(harness, now)
        harness.finish(harness.claim_one())
        (why,) = whys(harness, now)
        assert "extract changed" in why

    def test_a_new_step_behind_a_document_stays_stale_when_it_is_done(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.submit_and_claim()))
        now = papers(PAPERS.steps[0], "clean", *PAPERS.steps[1:])
        declare_later(harness, now)
        harness.finish(harness.claim_one())
        assert whys(harness, now) == ["clean is new"]

    def test_a_step_that_was_removed_before_the_next_was_done_makes_nothing_stale(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.advance(harness.submit_and_claim())))
        now = papers(PAPERS.steps[0], PAPERS.steps[2])
        declare_later(harness, now)
        harness.finish(harness.claim_one())
        assert whys(harness, now) == []

    def test_a_step_that_was_removed_after_later_steps_were_done_is_stale(self, harness: StoreHarness) -> None:
        harness.plan = harness.store.declare(papers("read", "clean", "split", "file"))
        claim = harness.advance(harness.advance(harness.advance(harness.submit_and_claim())))
        harness.release(claim)
        now = papers("read", "split", "file")
        declare_later(harness, now)
        harness.finish(harness.claim_one())
        assert [(one.why, one.to) for one in differences(pin(harness).shape, now)] == [("clean was removed", "split")]

    def test_steps_done_under_the_new_plan_are_stale_when_the_old_plan_comes_back(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.submit_and_claim()))
        both = changed("extract", version=2)
        both = replace(both, steps=(*both.steps[:2], replace(both.steps[2], version=2)))
        declare_later(harness, both)
        harness.finish(harness.claim_one())
        assert whys(harness, both) == ["extract changed: version 1 -> 2"]
        assert whys(harness, PAPERS) == ["embed changed: version 2 -> 1"]

    def test_a_claim_under_an_old_plan_pins_the_document_to_it(self, harness: StoreHarness) -> None:
        old, now = harness.plan, changed("extract", version=2)
        declare_later(harness, now)
        harness.submit("a")
        harness.plan = old
        harness.finish(harness.claim_one())
        assert whys(harness, now) == ["extract changed: version 1 -> 2"]

    def test_a_suspect_is_pinned_like_any_other_document(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.submit_and_claim()))
        harness.crash(times=2)
        now = changed("extract", version=2)
        declare_later(harness, now)
        (claim,) = harness.store.claim(harness.plan, harness.worker, limit=1, which="suspect")
        harness.finish(claim)
        assert whys(harness, now) == ["extract changed: version 1 -> 2"]

    def test_a_claim_by_an_exchange_pins_like_any_other_claim(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.submit_and_claim("a")))
        now = changed("extract", version=2)
        declare_later(harness, now)
        harness.submit("b", priority=1)
        move = harness.forward(harness.claim_one())
        _, (claim,) = harness.store.exchange(harness.plan, [move], harness.worker, limit=1)
        assert claim.key == "a"
        assert whys(harness, now) == ["extract changed: version 1 -> 2"]

    def test_documents_of_several_plans_are_each_pinned_to_their_own_work(self, harness: StoreHarness) -> None:
        harness.submit("new", "old")
        harness.release(harness.claim_one())
        _, old = harness.claim()
        harness.release(harness.advance(old))
        harness.store.retire_worker(harness.worker)
        harness.worker = harness.register_worker("bob")
        now = changed("extract", version=2)
        declare_later(harness, now)
        assert len(harness.claim()) == 2
        assert whys(harness, now, "new") == []
        assert whys(harness, now, "old") == ["extract changed: version 1 -> 2"]

    def test_a_step_under_another_name_is_the_same_step(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.advance(harness.submit_and_claim())))
        extract, chunk, embed = PAPERS.steps
        now = papers(replace(extract, name="pages"), replace(chunk, name="split"), replace(embed, over="split"))
        declare_later(harness, replace(now, renamed={"extract": "pages", "chunk": "split"}))
        harness.finish(harness.claim_one())
        assert harness.document().plan_id == harness.plan.plan_id
        assert whys(harness, now) == []

    def test_a_step_that_its_holder_rewinds_and_redoes_is_no_longer_stale(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.submit_and_claim()))
        now = changed("extract", version=2)
        declare_later(harness, now)
        claim = harness.claim_one()
        assert whys(harness, now)
        assert harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="why")
        assert whys(harness, now) == []
        assert harness.document().plan_id == harness.plan.plan_id

    def test_a_document_that_is_submitted_again_takes_the_plan(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        declare_later(harness, changed("extract", version=2))
        harness.submit("a", fingerprint="changed")
        assert harness.document().plan_id == harness.plan.plan_id

    def test_a_lost_worker_does_not_change_the_pin(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.submit_and_claim()))
        now = changed("extract", version=2)
        declare_later(harness, now)
        harness.crash()
        assert whys(harness, now) == ["extract changed: version 1 -> 2"]
        harness.finish(harness.claim_one())
        assert whys(harness, now) == ["extract changed: version 1 -> 2"]

    def test_a_plan_made_for_a_pin_is_not_the_shape_of_the_pipeline(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.submit_and_claim()))
        now = changed("extract", version=2)
        now = replace(now, steps=(*now.steps, StepShape("publish", "value")))
        declare_later(harness, now)
        harness.claim_one()
        assert pin(harness).declared_at is None
        assert harness.store.shape("papers") == now

    def test_claims_of_the_same_kind_share_one_plan(self, harness: StoreHarness, other: Store) -> None:
        for key in ("a", "b"):
            harness.release(harness.advance(harness.submit_and_claim(key)), delay=SECOND)
        now = changed("extract", version=2)
        now = replace(now, steps=(*now.steps, StepShape("publish", "value")))
        declare_later(harness, now)
        assert len(harness.claim(limit=1)) == len(other.claim(harness.plan, harness.worker, limit=1)) == 1
        assert harness.document("a").plan_id == harness.document("b").plan_id
        assert len(harness.store.plans("papers")) == 3

    @pytest.mark.parametrize("state", ["waiting", "running", "paused"])
    def test_a_removed_step_cannot_come_back_further_down(self, harness: StoreHarness, state: State) -> None:
        """A plan without the step claimed the document in between. Otherwise the step would find its old items."""
        claim = harness.keep(harness.advance(harness.submit_and_claim()), "1")
        harness.release(harness.advance(claim))
        extract, chunk, embed = PAPERS.steps
        declare_later(harness, papers(extract, embed))
        claim = harness.claim_one()
        if state != "running":
            harness.release(claim, state=state)
        with pytest.raises(PlanRefused, match="'chunk' came before 'embed'"):
            harness.store.declare(papers(extract, embed, chunk))

    def test_a_step_of_an_intermediate_plan_cannot_come_again(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.advance(harness.submit_and_claim())))
        extract, _, embed = PAPERS.steps
        declare_later(harness, papers(extract, embed, "publish"))
        harness.release(harness.advance(harness.keep(harness.claim_one(), "1")))
        with pytest.raises(PlanRefused, match="'embed' came before 'publish'"):
            harness.store.declare(papers(extract, "publish", embed))
        with pytest.raises(PlanRefused, match="would send documents back"):
            harness.store.declare(papers(extract, embed, publish="embed"))

    def test_a_dead_letter_starts_over_when_a_removed_step_comes_back_further_down(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.keep(harness.advance(harness.submit_and_claim()), "1")))
        extract, chunk, embed = PAPERS.steps
        declare_later(harness, papers(extract, embed))
        harness.make_dead(harness.claim_one())
        declare_later(harness, papers(extract, embed, chunk))
        status = harness.document()
        assert (status.checkpoint.generation, status.checkpoint.step) == (1, "extract")
        harness.store.redrive([status.id], who="ann", reason="again")
        claim = harness.advance(harness.advance(harness.claim_one()))
        harness.finish(harness.keep(claim, "2"))


class PinWithoutClaimConformance(Conformance):
    """Tests of the pin after verbs that move documents without a claim: rename of steps, resume, rewind."""

    def run(self, harness: StoreHarness, claim: Claim, *, to: str | None = None) -> Claim:
        """Do one step after another, each keeping its own name, until the document is at a given step or at its end."""
        while claim.checkpoint.step not in (to, None):
            step = claim.checkpoint.step or ""
            claim = harness.advance(claim, items=[Item(step, 0, f'"{step}"')])
        return claim

    def rewind(self, harness: StoreHarness, *, to: str) -> bool:
        """Rewind the document by a decision. Return whether it was rewound."""
        return bool(harness.store.rewind_to(harness.plan, [harness.document().id], to=to, who="cat", reason="why"))

    def kept(self, harness: StoreHarness) -> list[str]:
        """Return the steps whose items the document uses."""
        return sorted({step for step, _, _ in harness.store.items(harness.document().id)})

    def begin(self, store: Store, clock: ManualClock, *steps: str | StepShape) -> StoreHarness:
        """Declare a pipeline of these steps."""
        return StoreHarness(store, clock, papers(*steps))

    @pytest.mark.parametrize("state", ["waiting", "dead", "paused"])
    def test_a_step_that_a_rename_skipped_does_not_count_as_done(
        self, store: Store, clock: ManualClock, state: State
    ) -> None:
        harness = self.begin(store, clock, "a", "b", "c")
        harness.release(self.run(harness, harness.submit_and_claim(), to="b"), state=state)
        declare_later(harness, papers("a", "c", b="c"))
        assert whys(harness, papers("a", "c")) == []
        assert whys(harness, papers("a", "b", "c")) == ["b is new"]
        declare_later(harness, papers("a", "b", "c"))
        assert not self.rewind(harness, to="c")
        assert self.rewind(harness, to="b")

    def test_a_dead_letter_that_a_rename_moved_starts_over_under_another_order(
        self, store: Store, clock: ManualClock
    ) -> None:
        harness = self.begin(store, clock, "a", "b", "c", "d")
        harness.make_dead(self.run(harness, harness.submit_and_claim(), to="c"))
        declare_later(harness, papers("b", "a", "d", c="d"))
        status = harness.document()
        assert (status.checkpoint.generation, status.checkpoint.step, status.plan_id) == (1, "b", harness.plan.plan_id)

    def test_a_dead_letter_may_be_moved_to_a_step_that_the_plan_lacks(self, store: Store, clock: ManualClock) -> None:
        harness = self.begin(store, clock, "a", "b", "c")
        harness.make_dead(self.run(harness, harness.submit_and_claim(), to="b"))
        begun = harness.plan.plan_id
        declare_later(harness, papers("a", b="c"))
        assert (harness.document().checkpoint.step, harness.document().plan_id) == ("c", begun)

    def test_steps_after_the_last_gate_do_not_count_as_done_when_the_gate_finishes_a_document(
        self, store: Store, clock: ManualClock
    ) -> None:
        gate = StepShape("g", "gate")
        harness = self.begin(store, clock, "a", gate, "b", "c")
        harness.park(harness.submit_and_claim(), at="g")
        declare_later(harness, papers("a", gate))
        assert harness.store.resume(harness.plan, [harness.document().id], who="cat", reason="fine")
        assert (harness.document().state, harness.document().plan_id) == ("done", harness.plan.plan_id)
        assert whys(harness, papers("a", gate, "b", "c")) == ["b is new", "c is new"]
        declare_later(harness, papers("a", gate, "b", "c"))
        assert not self.rewind(harness, to="c")

    def test_a_step_that_was_skipped_past_a_gate_does_not_count_as_done(self, store: Store, clock: ManualClock) -> None:
        gate = StepShape("g", "gate")
        harness = self.begin(store, clock, "a", gate, "b", "c")
        harness.park(harness.submit_and_claim(), at="g")
        declare_later(harness, papers("a", gate, "c"))
        assert harness.store.resume(harness.plan, [harness.document().id], who="cat", reason="fine")
        assert harness.document().checkpoint.step == "c"
        assert whys(harness, papers("a", gate, "b", "c")) == ["b is new"]

    def test_a_hold_and_its_end_change_no_pin(self, harness: StoreHarness) -> None:
        harness.submit("a")
        begun, ids = harness.plan.plan_id, [harness.document().id]
        harness.store.pause(ids, who="cat", reason="wait")
        declare_later(harness, changed("extract", version=2))
        assert harness.store.resume(harness.plan, ids, who="cat", reason="go on") == ids
        assert harness.document().plan_id == begun

    def test_items_of_a_removed_step_are_there_when_it_comes_back_after_a_rewind(
        self, store: Store, clock: ManualClock
    ) -> None:
        harness = self.begin(store, clock, "a", "b", "c")
        self.run(harness, harness.submit_and_claim())
        declare_later(harness, papers("b", "c"))
        assert self.rewind(harness, to="c")
        declare_later(harness, papers("a", "b", "c"))
        assert whys(harness, papers("a", "b", "c")) == []
        self.run(harness, harness.claim_one())
        assert self.kept(harness) == ["a", "b", "c"]

    def test_items_of_a_removed_step_are_there_when_its_holder_rewound_the_document(
        self, store: Store, clock: ManualClock
    ) -> None:
        harness = self.begin(store, clock, "a", "b", "c")
        harness.release(self.run(harness, harness.submit_and_claim(), to="c"))
        declare_later(harness, papers("b", "c"))
        for _ in range(2):
            claim = harness.claim_one()
            assert harness.store.rewind(harness.plan, claim, to="c", who="ann", reason="gone")
            harness.release(rewound(claim, to="c", steps=["b", "c"]))
        self.run(harness, harness.claim_one())
        assert whys(harness, papers("a", "b", "c")) == []
        assert self.kept(harness) == ["a", "b", "c"]
        assert harness.store.reuses([harness.document().id]) == {harness.document().id: {"a": 0, "b": 0}}

    def test_a_removed_step_does_not_count_as_done_when_it_comes_back(self, store: Store, clock: ManualClock) -> None:
        harness = self.begin(store, clock, "x", "a", "b", "c")
        harness.release(self.run(harness, harness.submit_and_claim(), to="c"))
        declare_later(harness, papers("x", "a", "c"))
        self.run(harness, harness.claim_one())
        assert self.rewind(harness, to="c")
        self.run(harness, harness.claim_one())
        declare_later(harness, papers("x", "a", "b", "c"))
        assert not self.rewind(harness, to="c")
        assert self.rewind(harness, to="b")
        self.run(harness, harness.claim_one())
        assert self.kept(harness) == ["a", "b", "c", "x"]

    def test_a_step_that_comes_back_ahead_of_a_rewound_document_is_redone(
        self, store: Store, clock: ManualClock
    ) -> None:
        harness = self.begin(store, clock, "a", "c", "d", "e")
        harness.release(self.run(harness, harness.submit_and_claim(), to="d"))
        declare_later(harness, papers("a", "d", "e"))
        self.run(harness, harness.claim_one())
        declare_later(harness, papers("a", "c", "e"))
        assert self.rewind(harness, to="c")
        assert harness.store.reuses([harness.document().id]) == {harness.document().id: {"a": 0}}

    def test_a_document_rewound_to_a_new_step_can_be_rewound_again(self, store: Store, clock: ManualClock) -> None:
        harness = self.begin(store, clock, "x", "a", "c")
        self.run(harness, harness.submit_and_claim())
        declare_later(harness, papers("x", "a", "n", "c"))
        assert [self.rewind(harness, to=to) for to in ("n", "n", "c", "a")] == [True, True, False, True]
        assert harness.document().plan_id == harness.plan.plan_id
