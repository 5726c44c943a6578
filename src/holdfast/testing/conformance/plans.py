"""Plans: the list of all plans of a pipeline with their documents, and check, which writes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.errors import PlanRefused
from holdfast.core.model import Failure
from holdfast.core.plan import DocumentCount, Shape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import PAPERS, SECOND, Conformance, StoreHarness, papers
from holdfast.testing.conformance.pins import changed


class PlansConformance(Conformance):
    """Tests of plans."""

    def test_a_pipeline_that_was_never_declared_has_no_plans(self, store: Store) -> None:
        assert store.plans("papers") == []

    def test_plans_are_listed_in_the_order_of_declaration_with_their_documents(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c", "d")
        first, second, third, _ = harness.claim()
        harness.finish(first)
        harness.make_dead(harness.advance(second))
        harness.release(third)
        born = harness.clock()
        harness.clock.advance(SECOND)
        now = changed("embed", settings={"model": "m"})
        plan = harness.store.declare(now)
        old, new = harness.store.plans("papers")
        assert (old.plan_id, old.shape, old.declared_at) == (harness.plan.plan_id, PAPERS, born)
        assert (new.plan_id, new.shape, new.declared_at) == (plan.plan_id, now, harness.clock())
        assert old.documents == (
            DocumentCount("waiting", "extract", 1),
            DocumentCount("running", "extract", 1),
            DocumentCount("done", None, 1),
            DocumentCount("dead", "chunk", 1),
        )
        assert new.documents == ()

    def test_a_plan_that_is_declared_again_is_listed_last(self, harness: StoreHarness) -> None:
        for shape in (papers("scan"), PAPERS):
            harness.clock.advance(SECOND)
            harness.store.declare(shape)
        assert [one.shape for one in harness.store.plans("papers")] == [papers("scan"), PAPERS]

    def test_plans_can_be_listed_for_one_batch(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", batch="march")
        harness.submit("a", batch="april")
        assert harness.store.plans("papers", batch="march")[0].documents == (DocumentCount("waiting", "extract", 2),)
        assert harness.store.plans("papers", batch="may")[0].documents == ()

    def test_plans_do_not_count_documents_of_other_pipelines(self, harness: StoreHarness, gated: StoreHarness) -> None:
        gated.submit("a")
        assert harness.store.plans("papers")[0].documents == ()
        assert gated.store.plans("reviews")[0].documents == (DocumentCount("waiting", "read", 1),)

    def test_plans_have_the_present_names_of_steps(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(SECOND)
        extract, chunk, embed = PAPERS.steps
        now = papers(extract, replace(chunk, name="split"), replace(embed, over="split"), chunk="split")
        harness.store.declare(now)
        old, new = harness.store.plans("papers")
        assert old.shape == new.shape == replace(now, renamed={})


class CheckConformance(Conformance):
    """Tests of check: it decides as declare does, and writes nothing."""

    def everything(self, store: Store) -> Any:
        """Return all that a declaration could change."""
        names = store.pipelines()
        standings = [one for name in names for one in store.documents(name)]
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

    def test_a_check_changes_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.make_dead(harness.advance(harness.claim_one()))
        harness.release(harness.keep(harness.claim_one(), "1"))
        before = self.everything(harness.store)
        for shape in (
            PAPERS,
            papers("pages", "chunk", "embed", "publish", extract="pages"),
            papers("chunk", "embed", extract="chunk"),
        ):
            harness.store.check(shape)
            assert self.everything(harness.store) == before

    def test_a_check_creates_no_step_ids(self, harness: StoreHarness) -> None:
        harness.store.check(papers("scan", *PAPERS.steps))
        known = {name for plan in harness.store.plans("papers") for name in plan.shape.names}
        assert known == set(PAPERS.names)
        plan = harness.store.declare(papers("pages", *PAPERS.steps[1:], extract="pages"))
        assert plan.step_ids["pages"] == harness.plan.step_ids["extract"]

    def test_a_check_does_not_rewind_dead_letters_of_another_order(self, harness: StoreHarness) -> None:
        harness.make_dead(harness.advance(harness.submit_and_claim()))
        before = self.everything(harness.store)
        harness.store.check(papers("chunk", "extract", "embed"))
        assert self.everything(harness.store) == before

    @pytest.mark.parametrize(
        "shape",
        [
            papers("chunk", "embed"),
            papers("chunk", "extract", "embed"),
            papers("embed"),
        ],
        ids=["stranded", "reordered", "both"],
    )
    def test_a_check_raises_the_same_error_as_declare(self, harness: StoreHarness, shape: Shape) -> None:
        harness.submit("a")
        before = self.everything(harness.store)
        with pytest.raises(PlanRefused) as checked:
            harness.store.check(shape)
        assert self.everything(harness.store) == before
        with pytest.raises(PlanRefused) as declared:
            harness.store.declare(shape)
        assert str(checked.value) == str(declared.value)

    def test_work_goes_on_beside_a_check(self, harness: StoreHarness, other: Store) -> None:
        claim = harness.submit_and_claim()
        other.check(papers("pages", *PAPERS.steps[1:], extract="pages"))
        claim = harness.advance(claim)
        assert harness.release(claim, failure=Failure("ValueError", "torn"))
        assert harness.claim_one().checkpoint.step == "chunk"
