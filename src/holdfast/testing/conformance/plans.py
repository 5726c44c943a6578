"""Plans: declarations, their refusals, and the list of all plans of a pipeline with their documents."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.errors import PlanRefused
from holdfast.core.model import Checkpoint, Failure, State
from holdfast.core.moves import ACCEPTED, Refused
from holdfast.core.plan import DocumentCount, Shape, StepShape
from holdfast.core.reasons import REORDERED, sentence
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import PAPERS, REVIEWS, SECOND, Conformance, StoreHarness, papers
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


class DeclareConformance(Conformance):
    """Tests of declare."""

    def test_a_plan_numbers_the_steps_in_order(self, store: Store) -> None:
        plan = store.declare(PAPERS)
        assert plan.pipeline == "papers"
        assert list(plan.step_ids) == ["extract", "chunk", "embed"]
        assert len(set(plan.step_ids.values())) == 3
        assert plan.first == plan.step_ids["extract"]

    def test_declaring_again_returns_the_same_plan(self, store: Store, other: Store) -> None:
        assert store.declare(PAPERS) == store.declare(PAPERS) == other.declare(PAPERS)

    def test_the_steps_of_two_pipelines_are_different_steps(self, store: Store) -> None:
        papers_plan, other_plan = store.declare(PAPERS), store.declare(replace(PAPERS, pipeline="letters"))
        assert papers_plan.pipeline_id != other_plan.pipeline_id
        assert not set(papers_plan.step_ids.values()) & set(other_plan.step_ids.values())

    def test_an_appended_step_keeps_the_numbers_of_the_others(self, store: Store) -> None:
        old = store.declare(PAPERS)
        new = store.declare(replace(PAPERS, steps=(*PAPERS.steps, StepShape("publish", "value"))))
        assert new.plan_id != old.plan_id
        assert {name: new.step_ids[name] for name in old.step_ids} == old.step_ids

    def test_a_raised_version_is_another_plan(self, store: Store) -> None:
        old = store.declare(papers("extract"))
        new = store.declare(Shape("papers", (StepShape("extract", "value", version=2),)))
        assert new.plan_id != old.plan_id
        assert new.step_ids == old.step_ids

    def test_open_documents_continue_with_an_appended_step(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        harness.plan = harness.store.declare(replace(PAPERS, steps=(*PAPERS.steps, StepShape("publish", "value"))))
        claim = harness.advance(harness.advance(claim))
        assert claim.checkpoint.step == "publish"

    def test_a_worker_of_the_old_plan_continues(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.store.declare(replace(PAPERS, steps=(*PAPERS.steps, StepShape("publish", "value"))))
        harness.advance(claim)

    def test_a_plan_that_lacks_a_step_with_open_documents_is_refused(self, harness: StoreHarness) -> None:
        harness.submit(*(f"doc-{number}" for number in range(5)))
        with pytest.raises(PlanRefused) as refused:
            harness.store.declare(papers("chunk", "embed"))
        message = str(refused.value)
        assert "5 at 'extract', such as 'doc-0', 'doc-1', 'doc-2'" in message
        assert "doc-3" not in message
        assert "Pipeline('papers', renamed={'extract': 'chunk'})" in message

    @pytest.mark.parametrize("state", ["waiting", "running", "paused"])
    def test_every_open_document_is_named_whatever_its_state(self, harness: StoreHarness, state: str) -> None:
        claim = harness.submit_and_claim()
        if state != "running":
            harness.release(claim, state=state)
        with pytest.raises(PlanRefused, match="1 at 'extract', such as 'a'"):
            harness.store.declare(papers("chunk"))

    def test_every_step_with_stranded_documents_is_named(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.advance(harness.claim_one())
        with pytest.raises(PlanRefused, match=r"(?s)1 at 'chunk', such as 'a'.*1 at 'extract', such as 'b'"):
            harness.store.declare(papers("embed"))

    def test_a_refused_plan_changes_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a")
        before = harness.document()
        with pytest.raises(PlanRefused):
            harness.store.declare(papers("chunk", "newest", embed="newest"))
        assert harness.document() == before
        assert harness.store.shape("papers") == PAPERS
        assert harness.store.declare(PAPERS) == harness.plan

    @pytest.mark.parametrize("state", ["dead", "cancelled", "done"])
    def test_finished_documents_do_not_block_a_new_plan(self, harness: StoreHarness, state: str) -> None:
        claim = harness.submit_and_claim()
        if state == "done":
            harness.finish(claim)
        elif state == "dead":
            harness.make_dead(claim)
        else:
            harness.store.cancel([claim.document_id], who="ann", reason="no")
        harness.store.declare(papers("scan"))

    def test_documents_of_other_pipelines_do_not_block_a_new_plan(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        gated.submit("a")
        harness.store.declare(papers("scan"))

    def test_a_plan_that_was_declared_before_can_come_back(self, harness: StoreHarness) -> None:
        other = harness.store.declare(papers("scan"))
        assert other.plan_id != harness.plan.plan_id
        again = harness.store.declare(PAPERS)
        assert (again.plan_id, again.step_ids) == (harness.plan.plan_id, harness.plan.step_ids)

    def test_a_plan_has_the_steps_that_were_removed(self, harness: StoreHarness) -> None:
        assert harness.plan.removed == {}
        other = harness.store.declare(papers("scan"))
        assert other.removed == harness.plan.step_ids
        again = harness.store.declare(PAPERS)
        assert again.removed == other.step_ids
        assert harness.store.plan(harness.plan.pipeline) == again


class RenamedStepConformance(Conformance):
    """Tests of declare with `renamed`."""

    def test_documents_at_a_renamed_step_are_at_its_new_name(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        harness.release(claim)
        harness.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        assert harness.document().checkpoint == Checkpoint(0, "pages", 2, 1)

    def test_items_follow_a_renamed_step(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.keep(harness.submit_and_claim(), "1", "2"))
        plan = harness.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        assert harness.items(claim) == [("pages", 0, "1"), ("pages", 1, "2")]
        assert harness.store.read(claim.document_id, 0, plan.step_ids["pages"], 0, 9) == [(0, "1"), (1, "2")]

    def test_a_worker_that_holds_a_document_at_a_renamed_step_continues(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        harness.advance(claim)
        assert harness.document().checkpoint.step == "chunk"

    def test_documents_at_a_step_renamed_onto_another_begin_that_step(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        harness.release(claim)
        harness.store.declare(papers("chunk", "embed", extract="chunk"))
        assert harness.document().checkpoint == Checkpoint(0, "chunk", None, 1)

    def test_a_running_document_is_not_moved_onto_another_step(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        with pytest.raises(PlanRefused, match="1 at 'extract'"):
            harness.store.declare(papers("chunk", "embed", extract="chunk"))
        harness.advance(claim)

    def test_a_dead_letter_follows_onto_another_step(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.make_dead(claim)
        harness.plan = harness.store.declare(papers("chunk", "embed", extract="chunk"))
        assert harness.store.redrive([claim.document_id], who="ann", reason="again")
        assert harness.claim_one().checkpoint.step == "chunk"

    def test_renaming_an_unknown_step_does_nothing(self, harness: StoreHarness) -> None:
        plan = harness.store.declare(replace(PAPERS, renamed={"scan": "extract"}))
        assert plan.step_ids == harness.plan.step_ids

    def test_declaring_a_renamed_step_again_does_nothing_more(self, harness: StoreHarness) -> None:
        shape = papers("pages", "chunk", "embed", extract="pages")
        first = harness.store.declare(shape)
        claim = harness.store.claim(first, harness.worker, limit=1)
        assert claim == []
        assert harness.store.declare(shape) == first

    def test_a_step_of_the_same_name_in_another_pipeline_keeps_its_name(self, harness: StoreHarness) -> None:
        letters = harness.store.declare(replace(PAPERS, pipeline="letters"))
        harness.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        assert harness.store.declare(replace(PAPERS, pipeline="letters")) == letters

    def test_reused_items_of_a_rewound_document_follow_a_renamed_step(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.keep(harness.submit_and_claim(), "1"))
        assert harness.store.rewind(harness.plan, claim, to="chunk", who="ann", reason="why")
        harness.store.retire_worker(harness.worker)
        harness.worker = harness.register_worker("bob")
        harness.plan = harness.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        assert harness.claim_one().reuses == {"pages": 0}
        assert harness.items(claim) == [("pages", 0, "1")]

    @pytest.mark.parametrize("state", ["waiting", "paused", "dead"])
    def test_documents_are_not_sent_back_by_a_rename(self, harness: StoreHarness, state: State) -> None:
        claim = harness.advance(harness.keep(harness.submit_and_claim(), "1"))
        harness.release(claim, state=state)
        before = harness.document()
        with pytest.raises(PlanRefused) as refused:
            harness.store.declare(papers("extract", "embed", chunk="extract"))
        assert str(refused.value) == (
            "renamed={'chunk': 'extract'} would send documents back to finished work: 'extract' comes before "
            "'chunk'.\n  1 at 'chunk', such as 'a'\nUse a step that comes after 'chunk', such as 'embed', or bring "
            "'chunk' back until they are done."
        )
        assert harness.document() == before

    def test_a_step_that_two_steps_were_renamed_to_is_at_the_place_of_the_first(self, harness: StoreHarness) -> None:
        harness.release(harness.advance(harness.keep(harness.submit_and_claim(), "1")))
        with pytest.raises(PlanRefused, match="'pages' comes before 'chunk'"):
            harness.store.declare(papers("pages", "embed", extract="pages", chunk="pages"))

    def test_a_rename_to_an_earlier_step_is_allowed_if_no_document_is_at_the_step(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        harness.release(claim)
        harness.plan = harness.store.declare(papers("extract", "embed", chunk="extract"))
        assert harness.claim_one().checkpoint == Checkpoint(0, "extract", 1, 1)


class StepOrderConformance(Conformance):
    """Tests of declare with another order of steps."""

    @pytest.mark.parametrize("state", ["waiting", "running", "paused"])
    def test_another_order_is_refused_while_documents_are_open(self, harness: StoreHarness, state: State) -> None:
        claim = harness.advance(harness.keep(harness.submit_and_claim(), "1"))
        if state != "running":
            harness.release(claim, state=state)
        before = harness.document()
        with pytest.raises(PlanRefused) as refused:
            harness.store.declare(papers("chunk", "extract", "embed"))
        assert str(refused.value) == (
            "pipeline 'papers' has its steps in another order than 1 open document was started with, such as 'a': "
            "'extract' came before 'chunk'.\nSteps would be done twice or left out. Keep the "
            "order extract, chunk, embed until they are done or cancelled, or use another name for the pipeline."
        )
        assert harness.document() == before
        assert harness.store.shape("papers") == PAPERS
        harness.store.declare(PAPERS)

    def test_many_open_documents_are_counted_and_three_named(self, harness: StoreHarness) -> None:
        harness.submit(*(f"doc-{number}" for number in range(5)))
        with pytest.raises(PlanRefused, match="5 open documents were started with, such as 'doc-0', 'doc-1', 'doc-2':"):
            harness.store.declare(papers("chunk", "extract", "embed"))

    def test_a_changed_order_is_detected_through_renames(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        with pytest.raises(PlanRefused, match="'pages' came before 'chunk'"):
            harness.store.declare(papers("chunk", "pages", "embed"))
        with pytest.raises(PlanRefused, match="'chunk' came before 'vectors'"):
            harness.store.declare(papers("pages", "vectors", "chunk", embed="vectors"))

    def test_added_and_removed_steps_do_not_change_the_order(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.declare(papers("extract", "clean", "embed", "publish"))

    @pytest.mark.parametrize("state", ["done", "dead", "cancelled"])
    def test_finished_documents_do_not_block_another_order(self, harness: StoreHarness, state: str) -> None:
        claim = harness.advance(harness.keep(harness.submit_and_claim(), "1"))
        if state == "done":
            harness.finish(claim)
        elif state == "dead":
            harness.make_dead(claim)
        else:
            harness.store.cancel([claim.document_id], who="ann", reason="no")
        harness.store.declare(papers("chunk", "extract", "embed"))

    def test_a_worker_of_the_old_order_is_refused_once_documents_are_open_under_the_new(
        self, harness: StoreHarness
    ) -> None:
        harness.plan = harness.store.declare(papers("chunk", "extract", "embed"))
        harness.submit("a")
        with pytest.raises(PlanRefused, match="'chunk' came before 'extract'"):
            harness.store.declare(PAPERS)

    def test_a_finished_document_that_changed_goes_through_the_new_order(self, harness: StoreHarness) -> None:
        harness.finish(harness.advance(harness.keep(harness.submit_and_claim(), "1")))
        harness.plan = harness.store.declare(papers("chunk", "extract", "embed"))
        harness.submit("a", fingerprint="changed")
        claim = harness.advance(harness.keep(harness.claim_one(), "2"))
        claim = harness.advance(harness.keep(claim, "3"))
        assert claim.checkpoint.step == "embed"
        assert sorted(harness.items(claim)) == [("chunk", 0, "2"), ("extract", 0, "3")]
        harness.finish(claim)

    def test_a_dead_letter_starts_over_under_another_order(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.keep(harness.submit_and_claim(), "1"))
        harness.make_dead(harness.keep(claim, "2"))
        harness.clock.advance(SECOND)
        harness.plan = harness.store.declare(papers("chunk", "extract", "embed"))
        status = harness.document()
        assert (status.state, status.checkpoint) == ("dead", Checkpoint(1, "chunk", None, 4))
        assert status.moved_at == harness.clock()
        line = harness.store.journal(claim.document_id)[-1]
        assert (line.verb, line.who, line.generation, line.step, line.cursor) == ("rewind", "declare", 1, "chunk", None)
        assert line.detail == {"from": "chunk", "cursor": 1, "to": "chunk", "reason": sentence(REORDERED)}
        assert harness.store.redrive([claim.document_id], who="ann", reason="again")
        claim = harness.claim_one()
        assert claim.reuses is None
        harness.finish(harness.advance(harness.keep(harness.advance(harness.keep(claim, "3")), "4")))
        assert sorted(harness.items(claim)) == [("chunk", 0, "3"), ("extract", 0, "4")]

    def test_a_dead_letter_of_the_same_order_stays_where_it_is(self, harness: StoreHarness) -> None:
        harness.make_dead(harness.advance(harness.submit_and_claim()))
        before = harness.document()
        harness.store.declare(papers("extract", "chunk", "clean", "embed"))
        assert harness.document() == before


class ShapeConformance(Conformance):
    """Tests of pipelines, shape and plan."""

    def test_pipelines_are_listed_in_the_order_of_their_declaration(self, store: Store) -> None:
        assert store.pipelines() == []
        store.declare(REVIEWS)
        store.declare(PAPERS)
        store.declare(REVIEWS)
        assert store.pipelines() == ["reviews", "papers"]

    def test_a_stored_shape_comes_back_equal(self, store: Store) -> None:
        shape = Shape(
            "papers",
            (
                StepShape("extract", "stream", version=3, keep=False),
                StepShape("embed", "over", over="extract"),
                StepShape("look", "gate"),
            ),
            {"scan": "extract"},
        )
        store.declare(shape)
        assert store.shape("papers") == shape

    def test_the_shape_is_the_one_declared_last(self, harness: StoreHarness) -> None:
        harness.clock.advance(SECOND)
        harness.store.declare(papers("scan"))
        assert harness.store.shape("papers") == papers("scan")
        harness.clock.advance(SECOND)
        harness.store.declare(PAPERS)
        assert harness.store.shape("papers") == PAPERS

    @pytest.mark.parametrize("later", [SECOND * 0, -SECOND], ids=["at the same moment", "by a clock that jumped back"])
    def test_no_clock_decides_which_shape_was_declared_last(self, harness: StoreHarness, later: timedelta) -> None:
        harness.make_dead(harness.advance(harness.submit_and_claim()))
        harness.store.declare(papers("extract", "embed"))
        harness.clock.advance(later)
        harness.store.declare(PAPERS)
        assert harness.store.shape("papers") == PAPERS
        assert harness.store.redrive([harness.document().id], who="ann", reason="its step is back")

    def test_an_undeclared_pipeline_has_no_shape(self, harness: StoreHarness) -> None:
        assert harness.store.shape("letters") is None

    def test_a_document_is_claimed_by_the_plan_that_knows_its_step(self, harness: StoreHarness) -> None:
        new = harness.store.declare(replace(PAPERS, steps=(*PAPERS.steps, StepShape("publish", "value"))))
        harness.submit("a")
        old_plan, harness.plan = harness.plan, new
        claim = harness.claim_one()
        for _ in range(3):
            claim = harness.advance(claim)
        harness.release(claim)
        assert harness.store.claim(old_plan, harness.worker, limit=1) == []
        assert harness.store.next_due(old_plan) is None
        assert harness.claim_one().checkpoint.step == "publish"

    def test_the_last_step_ends_the_document_under_its_own_plan(self, harness: StoreHarness) -> None:
        new = harness.store.declare(replace(PAPERS, steps=(*PAPERS.steps, StepShape("publish", "value"))))
        claim = harness.advance(harness.advance(harness.submit_and_claim()))
        ended = harness.forward(claim)
        (answer,) = harness.store.commit(new, [ended])
        assert isinstance(answer, Refused)
        assert harness.commit(ended) == [ACCEPTED]
