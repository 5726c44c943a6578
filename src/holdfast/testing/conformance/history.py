"""What a store tells of a pipeline from outside: how many documents are where, and how long its steps took so far."""

from __future__ import annotations

from datetime import timedelta

from holdfast.core.model import Failure
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, Desk


class SurveyConformance(Conformance):
    """What survey promises."""

    def test_a_survey_counts_documents_by_state_and_step(self, desk: Desk, gated: Desk) -> None:
        gated.submit("elsewhere")
        desk.submit("a", "b", batch="march")
        desk.submit("c", "d", batch="april")
        first, second, *_ = desk.claim(limit=3)
        desk.finish(first)
        desk.advance(second)
        assert desk.store.survey("papers").documents == {
            ("done", None): 1,
            ("running", "chunk"): 1,
            ("running", "extract"): 1,
            ("waiting", "extract"): 1,
        }

    def test_a_survey_of_nothing_is_empty(self, desk: Desk) -> None:
        for name in ("papers", "never declared"):
            seen = desk.store.survey(name)
            assert (seen.pipeline, seen.documents, seen.dead, seen.oldest_due, seen.orphans) == (name, {}, {}, None, 0)

    def test_a_survey_counts_dead_letters_by_step_and_error(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        first, second, third = desk.claim()
        second = desk.advance(second)
        for claim, kind in ((first, "ValueError"), (second, "KeyError"), (third, "ValueError")):
            assert desk.give_back(claim, state="dead", failure=Failure(kind, "no"))
        assert desk.store.survey("papers").dead == {("extract", "ValueError"): 2, ("chunk", "KeyError"): 1}

    def test_a_survey_tells_for_how_long_the_oldest_document_has_been_due(self, desk: Desk) -> None:
        desk.submit("a")
        assert desk.store.survey("papers").oldest_due == timedelta(0)
        desk.clock.advance(SECOND * 5)
        desk.submit("b")
        assert desk.store.survey("papers").oldest_due == SECOND * 5
        desk.claim()
        assert desk.store.survey("papers").oldest_due is None

    def test_a_document_that_is_put_off_is_not_due(self, desk: Desk) -> None:
        desk.give_back(desk.take_in(), delay=SECOND * 10)
        assert desk.store.survey("papers").oldest_due is None
        desk.clock.advance(SECOND * 12)
        assert desk.store.survey("papers").oldest_due == SECOND * 2

    def test_a_survey_counts_what_silent_workers_hold_as_orphans(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.claim(limit=1)
        desk.claim(limit=1, worker=desk.enlist("patient", lease=LEASE * 10))
        assert desk.store.survey("papers").orphans == 0
        desk.clock.advance(LEASE * 2)
        assert desk.store.survey("papers").orphans == 1
        desk.reclaim()
        assert desk.store.survey("papers").orphans == 0

    def test_a_survey_counts_overdue_documents_as_orphans(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.claim(limit=1, timeouts={"extract": SECOND})
        desk.claim(limit=1)
        desk.clock.advance(SECOND * 2)
        assert desk.store.survey("papers").orphans == 1


class PaceConformance(Conformance):
    """What pace and paces promise."""

    def test_there_is_no_history_before_the_first_pace(self, desk: Desk) -> None:
        assert desk.store.paces("papers") == {}
        assert desk.store.paces("never declared") == {}

    def test_paces_add_up(self, desk: Desk, other: Store) -> None:
        desk.store.pace(desk.plan, {"extract": (10, 2.5), "chunk": (4, 0.5)})
        other.pace(desk.plan, {"chunk": (6, 1.0)})
        assert desk.store.paces("papers") == {"extract": (10, 2.5), "chunk": (10, 1.5)}

    def test_seconds_count_before_a_document_is_past_the_step(self, desk: Desk) -> None:
        desk.store.pace(desk.plan, {"embed": (0, 60.0)})
        assert desk.store.paces("papers") == {"embed": (0, 60.0)}

    def test_a_pace_of_nothing_changes_nothing(self, desk: Desk) -> None:
        desk.store.pace(desk.plan, {})
        assert desk.store.paces("papers") == {}

    def test_each_pipeline_has_its_own_history(self, desk: Desk, gated: Desk) -> None:
        desk.store.pace(desk.plan, {"extract": (1, 1.0)})
        gated.store.pace(gated.plan, {"read": (2, 2.0)})
        assert desk.store.paces("papers") == {"extract": (1, 1.0)}
        assert desk.store.paces("reviews") == {"read": (2, 2.0)}

    def test_the_history_of_a_renamed_step_goes_with_it(self, desk: Desk) -> None:
        desk.store.pace(desk.plan, {"extract": (1, 1.0)})
        renamed = Shape("papers", (StepShape("pages", "stream"), *desk.shape.steps[1:]), {"extract": "pages"})
        desk.store.declare(renamed)
        assert desk.store.paces("papers") == {"pages": (1, 1.0)}
