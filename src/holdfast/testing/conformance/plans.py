"""Pipelines are declared: the same, with more steps, with renamed ones, or refused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.errors import PlanRefused
from holdfast.core.model import Checkpoint, State
from holdfast.core.moves import ACCEPTED
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import PAPERS, REVIEWS, SECOND, Conformance, Desk


def papers(*names: str, **renamed: str) -> Shape:
    """Makes another shape of the pipeline `papers`."""
    return Shape("papers", tuple(StepShape(name, "value") for name in names), renamed)


class PlanConformance(Conformance):
    """What declare promises."""

    def test_a_plan_numbers_the_steps_in_order(self, store: Store) -> None:
        plan = store.declare(PAPERS)
        assert plan.pipeline == "papers"
        assert list(plan.step_ids) == ["extract", "chunk", "embed"]
        assert len(set(plan.step_ids.values())) == 3
        assert plan.first == plan.step_ids["extract"]

    def test_declaring_again_gives_the_same_plan(self, store: Store, other: Store) -> None:
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

    def test_open_documents_go_on_under_an_appended_step(self, desk: Desk) -> None:
        claim = desk.advance(desk.take_in())
        desk.plan = desk.store.declare(replace(PAPERS, steps=(*PAPERS.steps, StepShape("publish", "value"))))
        claim = desk.advance(desk.advance(claim))
        assert claim.checkpoint.step == "publish"

    def test_a_worker_of_the_old_plan_goes_on(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.store.declare(replace(PAPERS, steps=(*PAPERS.steps, StepShape("publish", "value"))))
        desk.advance(claim)

    def test_a_plan_that_lacks_a_step_with_open_documents_is_refused(self, desk: Desk) -> None:
        desk.submit(*(f"doc-{number}" for number in range(5)))
        with pytest.raises(PlanRefused) as refused:
            desk.store.declare(papers("chunk", "embed"))
        message = str(refused.value)
        assert "5 at 'extract', such as 'doc-0', 'doc-1', 'doc-2'" in message
        assert "doc-3" not in message
        assert "Pipeline('papers', renamed={'extract': 'chunk'})" in message

    @pytest.mark.parametrize("state", ["waiting", "running", "paused"])
    def test_every_open_document_is_named_whatever_its_state(self, desk: Desk, state: str) -> None:
        claim = desk.take_in()
        if state != "running":
            desk.give_back(claim, state=state)
        with pytest.raises(PlanRefused, match="1 at 'extract', such as 'a'"):
            desk.store.declare(papers("chunk"))

    def test_every_step_with_stranded_documents_is_named(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.advance(desk.claim_one())
        with pytest.raises(PlanRefused, match=r"(?s)1 at 'chunk', such as 'a'.*1 at 'extract', such as 'b'"):
            desk.store.declare(papers("embed"))

    def test_a_refused_plan_changes_nothing(self, desk: Desk) -> None:
        desk.submit("a")
        before = desk.standing()
        with pytest.raises(PlanRefused):
            desk.store.declare(papers("chunk", "newest", embed="newest"))
        assert desk.standing() == before
        assert desk.store.shape("papers") == PAPERS
        assert desk.store.declare(PAPERS) == desk.plan

    @pytest.mark.parametrize("state", ["dead", "cancelled", "done"])
    def test_ended_documents_do_not_hinder_a_new_plan(self, desk: Desk, state: str) -> None:
        claim = desk.take_in()
        if state == "done":
            desk.finish(claim)
        elif state == "dead":
            desk.bury(claim)
        else:
            desk.store.cancel([claim.document_id], who="ann", reason="no")
        desk.store.declare(papers("scan"))

    def test_documents_of_other_pipelines_do_not_hinder_a_new_plan(self, desk: Desk, gated: Desk) -> None:
        gated.submit("a")
        desk.store.declare(papers("scan"))

    def test_a_plan_that_was_declared_before_can_come_back(self, desk: Desk) -> None:
        other = desk.store.declare(papers("scan"))
        assert other.plan_id != desk.plan.plan_id
        assert desk.store.declare(PAPERS) == desk.plan


class RenameConformance(Conformance):
    """What `renamed` promises."""

    def test_documents_at_a_renamed_step_stand_at_its_new_name(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2")
        desk.give_back(claim)
        desk.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        assert desk.standing().checkpoint == Checkpoint(0, "pages", 2, 1)

    def test_items_follow_a_renamed_step(self, desk: Desk) -> None:
        claim = desk.advance(desk.keep(desk.take_in(), "1", "2"))
        plan = desk.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        assert desk.items(claim) == [("pages", 0, "1"), ("pages", 1, "2")]
        assert desk.store.read(claim.document_id, 0, plan.step_ids["pages"], 0, 9) == [(0, "1"), (1, "2")]

    def test_a_worker_that_holds_a_document_at_a_renamed_step_goes_on(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        desk.advance(claim)
        assert desk.standing().checkpoint.step == "chunk"

    def test_documents_at_a_step_renamed_onto_another_begin_that_step(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1", "2")
        desk.give_back(claim)
        desk.store.declare(papers("chunk", "embed", extract="chunk"))
        assert desk.standing().checkpoint == Checkpoint(0, "chunk", None, 1)

    def test_a_running_document_is_not_moved_onto_another_step(self, desk: Desk) -> None:
        claim = desk.take_in()
        with pytest.raises(PlanRefused, match="1 at 'extract'"):
            desk.store.declare(papers("chunk", "embed", extract="chunk"))
        desk.advance(claim)

    def test_a_dead_letter_follows_onto_another_step(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.bury(claim)
        desk.plan = desk.store.declare(papers("chunk", "embed", extract="chunk"))
        assert desk.store.redrive([claim.document_id], who="ann", reason="again")
        assert desk.claim_one().checkpoint.step == "chunk"

    def test_renaming_a_step_that_never_was_does_nothing(self, desk: Desk) -> None:
        plan = desk.store.declare(replace(PAPERS, renamed={"scan": "extract"}))
        assert plan.step_ids == desk.plan.step_ids

    def test_declaring_a_renamed_step_again_does_nothing_more(self, desk: Desk) -> None:
        shape = papers("pages", "chunk", "embed", extract="pages")
        first = desk.store.declare(shape)
        claim = desk.store.claim(first, desk.worker, limit=1)
        assert claim == []
        assert desk.store.declare(shape) == first

    def test_a_step_of_the_same_name_in_another_pipeline_keeps_its_name(self, desk: Desk) -> None:
        letters = desk.store.declare(replace(PAPERS, pipeline="letters"))
        desk.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        assert desk.store.declare(replace(PAPERS, pipeline="letters")) == letters

    def test_what_a_rewound_document_reuses_follows_a_renamed_step(self, desk: Desk) -> None:
        claim = desk.advance(desk.keep(desk.take_in(), "1"))
        assert desk.store.rewind(desk.plan, claim, to="chunk", who="ann", reason="why")
        desk.store.retire(desk.worker)
        desk.worker = desk.enlist("bob")
        desk.plan = desk.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        assert desk.claim_one().reuses == {"pages": 0}
        assert desk.items(claim) == [("pages", 0, "1")]

    @pytest.mark.parametrize("state", ["waiting", "paused", "dead"])
    def test_documents_are_not_sent_back_by_a_rename(self, desk: Desk, state: State) -> None:
        claim = desk.advance(desk.keep(desk.take_in(), "1"))
        desk.give_back(claim, state=state)
        before = desk.standing()
        with pytest.raises(PlanRefused) as refused:
            desk.store.declare(papers("extract", "embed", chunk="extract"))
        assert str(refused.value) == (
            "renamed={'chunk': 'extract'} would send documents back, over what they kept: 'extract' comes before "
            "'chunk'.\n  1 at 'chunk', such as 'a'\nName a step that comes after 'chunk', such as 'embed', or bring "
            "'chunk' back until they are done."
        )
        assert desk.standing() == before

    def test_a_step_that_two_were_renamed_to_is_where_the_first_was(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.keep(desk.take_in(), "1")))
        with pytest.raises(PlanRefused, match="'pages' comes before 'chunk'"):
            desk.store.declare(papers("pages", "embed", extract="pages", chunk="pages"))

    def test_a_rename_to_an_earlier_step_hinders_nobody_who_does_not_stand_there(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        desk.give_back(claim)
        desk.plan = desk.store.declare(papers("extract", "embed", chunk="extract"))
        assert desk.claim_one().checkpoint == Checkpoint(0, "extract", 1, 1)


class OrderConformance(Conformance):
    """What becomes of documents when the order of the steps changes."""

    @pytest.mark.parametrize("state", ["waiting", "running", "paused"])
    def test_another_order_is_refused_while_documents_are_open(self, desk: Desk, state: State) -> None:
        claim = desk.advance(desk.keep(desk.take_in(), "1"))
        if state != "running":
            desk.give_back(claim, state=state)
        before = desk.standing()
        with pytest.raises(PlanRefused) as refused:
            desk.store.declare(papers("chunk", "extract", "embed"))
        assert str(refused.value) == (
            "pipeline 'papers' has its steps in another order than 1 open document was begun with, such as 'a': "
            "'extract' came before 'chunk'.\nWhat they have behind them would be done twice or left out. Keep the "
            "order extract, chunk, embed until they are done or cancelled, or give the pipeline another name."
        )
        assert desk.standing() == before
        assert desk.store.shape("papers") == PAPERS
        desk.store.declare(PAPERS)

    def test_many_open_documents_are_counted_and_three_named(self, desk: Desk) -> None:
        desk.submit(*(f"doc-{number}" for number in range(5)))
        with pytest.raises(PlanRefused, match="5 open documents were begun with, such as 'doc-0', 'doc-1', 'doc-2':"):
            desk.store.declare(papers("chunk", "extract", "embed"))

    def test_another_order_is_seen_through_renames(self, desk: Desk) -> None:
        desk.submit("a")
        desk.store.declare(papers("pages", "chunk", "embed", extract="pages"))
        with pytest.raises(PlanRefused, match="'pages' came before 'chunk'"):
            desk.store.declare(papers("chunk", "pages", "embed"))
        with pytest.raises(PlanRefused, match="'chunk' came before 'vectors'"):
            desk.store.declare(papers("pages", "vectors", "chunk", embed="vectors"))

    def test_more_and_fewer_steps_are_no_other_order(self, desk: Desk) -> None:
        desk.submit("a")
        desk.store.declare(papers("extract", "clean", "embed", "publish"))

    @pytest.mark.parametrize("state", ["done", "dead", "cancelled"])
    def test_ended_documents_do_not_hinder_another_order(self, desk: Desk, state: str) -> None:
        claim = desk.advance(desk.keep(desk.take_in(), "1"))
        if state == "done":
            desk.finish(claim)
        elif state == "dead":
            desk.bury(claim)
        else:
            desk.store.cancel([claim.document_id], who="ann", reason="no")
        desk.store.declare(papers("chunk", "extract", "embed"))

    def test_a_worker_of_the_old_order_is_refused_once_documents_are_open_under_the_new(self, desk: Desk) -> None:
        desk.plan = desk.store.declare(papers("chunk", "extract", "embed"))
        desk.submit("a")
        with pytest.raises(PlanRefused, match="'chunk' came before 'extract'"):
            desk.store.declare(PAPERS)

    def test_a_finished_document_that_changed_goes_through_the_new_order(self, desk: Desk) -> None:
        desk.finish(desk.advance(desk.keep(desk.take_in(), "1")))
        desk.plan = desk.store.declare(papers("chunk", "extract", "embed"))
        desk.submit("a", fingerprint="changed")
        claim = desk.advance(desk.keep(desk.claim_one(), "2"))
        claim = desk.advance(desk.keep(claim, "3"))
        assert claim.checkpoint.step == "embed"
        assert sorted(desk.items(claim)) == [("chunk", 0, "2"), ("extract", 0, "3")]
        desk.finish(claim)

    def test_a_dead_letter_begins_anew_under_another_order(self, desk: Desk) -> None:
        claim = desk.advance(desk.keep(desk.take_in(), "1"))
        desk.bury(desk.keep(claim, "2"))
        desk.clock.advance(SECOND)
        desk.plan = desk.store.declare(papers("chunk", "extract", "embed"))
        here = desk.standing()
        assert (here.state, here.checkpoint) == ("dead", Checkpoint(1, "chunk", None, 4))
        assert here.moved_at == desk.clock()
        line = desk.store.journal(claim.document_id)[-1]
        assert (line.verb, line.who, line.generation, line.step, line.cursor) == ("rewind", "declare", 1, "chunk", None)
        assert line.detail == {"from": "chunk", "cursor": 1, "to": "chunk", "reason": "the order of the steps changed"}
        assert desk.store.redrive([claim.document_id], who="ann", reason="again")
        claim = desk.claim_one()
        assert claim.reuses is None
        desk.finish(desk.advance(desk.keep(desk.advance(desk.keep(claim, "3")), "4")))
        assert sorted(desk.items(claim)) == [("chunk", 0, "3"), ("extract", 0, "4")]

    def test_a_dead_letter_of_the_same_order_stays_where_it_is(self, desk: Desk) -> None:
        desk.bury(desk.advance(desk.take_in()))
        before = desk.standing()
        desk.store.declare(papers("extract", "chunk", "clean", "embed"))
        assert desk.standing() == before


class ShapeConformance(Conformance):
    """What the ledger tells of plans."""

    def test_pipelines_are_named_in_the_order_of_their_declaration(self, store: Store) -> None:
        assert store.pipelines() == []
        store.declare(REVIEWS)
        store.declare(PAPERS)
        store.declare(REVIEWS)
        assert store.pipelines() == ["reviews", "papers"]

    def test_the_shape_comes_back_equal(self, store: Store) -> None:
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

    def test_the_shape_is_the_one_declared_last(self, desk: Desk) -> None:
        desk.clock.advance(SECOND)
        desk.store.declare(papers("scan"))
        assert desk.store.shape("papers") == papers("scan")
        desk.clock.advance(SECOND)
        desk.store.declare(PAPERS)
        assert desk.store.shape("papers") == PAPERS

    @pytest.mark.parametrize("later", [SECOND * 0, -SECOND], ids=["at the same moment", "by a clock that jumped back"])
    def test_no_clock_decides_which_shape_was_declared_last(self, desk: Desk, later: timedelta) -> None:
        desk.bury(desk.advance(desk.take_in()))
        desk.store.declare(papers("extract", "embed"))
        desk.clock.advance(later)
        desk.store.declare(PAPERS)
        assert desk.store.shape("papers") == PAPERS
        assert desk.store.redrive([desk.standing().id], who="ann", reason="its step is back")

    def test_an_undeclared_pipeline_has_no_shape(self, desk: Desk) -> None:
        assert desk.store.shape("letters") is None

    def test_a_document_is_claimed_by_the_plan_that_knows_its_step(self, desk: Desk) -> None:
        new = desk.store.declare(replace(PAPERS, steps=(*PAPERS.steps, StepShape("publish", "value"))))
        desk.submit("a")
        old_plan, desk.plan = desk.plan, new
        claim = desk.claim_one()
        for _ in range(3):
            claim = desk.advance(claim)
        desk.give_back(claim)
        assert desk.store.claim(old_plan, desk.worker, limit=1) == []
        assert desk.store.next_due(old_plan) is None
        assert desk.claim_one().checkpoint.step == "publish"

    def test_the_last_step_ends_the_document_under_its_own_plan(self, desk: Desk) -> None:
        claim = desk.take_in()
        ended = replace(desk.forward(claim), after=Checkpoint(0, None, None, 1), state="done")
        assert desk.commit(ended) == [ACCEPTED]
