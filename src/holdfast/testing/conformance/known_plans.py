"""The plans that a pipeline had, who is pinned to them, and a judgement that changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.errors import PlanRefused
from holdfast.core.model import Failure
from holdfast.core.pins import Gathering
from holdfast.core.plan import Shape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import PAPERS, SECOND, Conformance, Desk
from holdfast.testing.conformance.pins import changed, papers


class KnownPlanConformance(Conformance):
    """What the ledger tells of plans and their documents."""

    def test_a_pipeline_that_was_never_declared_has_no_plans(self, store: Store) -> None:
        assert store.plans("papers") == []

    def test_plans_come_as_they_were_declared_with_their_documents(self, desk: Desk) -> None:
        desk.submit("a", "b", "c", "d")
        first, second, third, _ = desk.claim()
        desk.finish(first)
        desk.bury(desk.advance(second))
        desk.give_back(third)
        born = desk.clock()
        desk.clock.advance(SECOND)
        now = changed("embed", settings={"model": "m"})
        plan = desk.store.declare(now)
        old, new = desk.store.plans("papers")
        assert (old.plan_id, old.shape, old.declared_at) == (desk.plan.plan_id, PAPERS, born)
        assert (new.plan_id, new.shape, new.declared_at) == (plan.plan_id, now, desk.clock())
        assert old.documents == (
            Gathering("waiting", "extract", 1),
            Gathering("running", "extract", 1),
            Gathering("done", None, 1),
            Gathering("dead", "chunk", 1),
        )
        assert new.documents == ()

    def test_a_plan_that_is_declared_again_comes_last(self, desk: Desk) -> None:
        for shape in (papers("scan"), PAPERS):
            desk.clock.advance(SECOND)
            desk.store.declare(shape)
        assert [one.shape for one in desk.store.plans("papers")] == [papers("scan"), PAPERS]

    def test_the_documents_of_one_batch_can_be_asked_for(self, desk: Desk) -> None:
        desk.submit("a", "b", batch="march")
        desk.submit("a", batch="april")
        assert desk.store.plans("papers", batch="march")[0].documents == (Gathering("waiting", "extract", 2),)
        assert desk.store.plans("papers", batch="may")[0].documents == ()

    def test_the_documents_of_other_pipelines_are_theirs(self, desk: Desk, gated: Desk) -> None:
        gated.submit("a")
        assert desk.store.plans("papers")[0].documents == ()
        assert gated.store.plans("reviews")[0].documents == (Gathering("waiting", "read", 1),)

    def test_steps_have_their_present_names(self, desk: Desk) -> None:
        desk.submit("a")
        desk.clock.advance(SECOND)
        extract, chunk, embed = PAPERS.steps
        now = papers(extract, replace(chunk, name="split"), replace(embed, over="split"), chunk="split")
        desk.store.declare(now)
        old, new = desk.store.plans("papers")
        assert old.shape == new.shape == replace(now, renamed={})


class JudgementConformance(Conformance):
    """What check promises: the judgement of declare, and no trace of it."""

    def everything(self, store: Store) -> Any:
        """Gives all that a declaration could change."""
        names = store.pipelines()
        standings = [one for name in names for one in store.standings(name)]
        return (
            names,
            [store.shape(name) for name in names],
            [store.plans(name) for name in names],
            standings,
            [store.journal(one.id) for one in standings],
        )

    def test_a_pipeline_that_is_checked_is_not_declared(self, store: Store) -> None:
        store.check(PAPERS)
        assert store.pipelines() == []
        assert store.plans("papers") == []

    def test_a_check_leaves_everything_as_it_was(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.bury(desk.advance(desk.claim_one()))
        desk.give_back(desk.keep(desk.claim_one(), "1"))
        before = self.everything(desk.store)
        for shape in (
            PAPERS,
            papers("pages", "chunk", "embed", "publish", extract="pages"),
            papers("chunk", "embed", extract="chunk"),
        ):
            desk.store.check(shape)
            assert self.everything(desk.store) == before

    def test_a_check_gives_no_numbers_to_steps(self, desk: Desk) -> None:
        desk.store.check(papers("scan", *PAPERS.steps))
        known = {name for plan in desk.store.plans("papers") for name in plan.shape.names}
        assert known == set(PAPERS.names)
        plan = desk.store.declare(papers("pages", *PAPERS.steps[1:], extract="pages"))
        assert plan.step_ids["pages"] == desk.plan.step_ids["extract"]

    def test_dead_letters_of_another_order_stay_where_they_are_when_it_is_only_checked(self, desk: Desk) -> None:
        desk.bury(desk.advance(desk.take_in()))
        before = self.everything(desk.store)
        desk.store.check(papers("chunk", "extract", "embed"))
        assert self.everything(desk.store) == before

    @pytest.mark.parametrize(
        "shape",
        [
            papers("chunk", "embed"),
            papers("chunk", "extract", "embed"),
            papers("embed"),
        ],
        ids=["stranded", "reordered", "both"],
    )
    def test_a_check_refuses_in_the_very_words_of_declare(self, desk: Desk, shape: Shape) -> None:
        desk.submit("a")
        before = self.everything(desk.store)
        with pytest.raises(PlanRefused) as checked:
            desk.store.check(shape)
        assert self.everything(desk.store) == before
        with pytest.raises(PlanRefused) as declared:
            desk.store.declare(shape)
        assert str(checked.value) == str(declared.value)

    def test_work_goes_on_beside_a_check(self, desk: Desk, other: Store) -> None:
        claim = desk.take_in()
        other.check(papers("pages", *PAPERS.steps[1:], extract="pages"))
        claim = desk.advance(claim)
        assert desk.give_back(claim, failure=Failure("ValueError", "torn"))
        assert desk.claim_one().checkpoint.step == "chunk"
