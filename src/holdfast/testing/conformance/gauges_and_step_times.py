"""Gauges and step times: how many documents are at each step, and how long steps took."""

from __future__ import annotations

from datetime import timedelta

from holdfast.core.model import Failure
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, StoreHarness


class GaugesConformance(Conformance):
    """Tests of gauges."""

    def test_gauges_count_documents_by_state_and_step(self, harness: StoreHarness, gated: StoreHarness) -> None:
        gated.submit("elsewhere")
        harness.submit("a", "b", batch="march")
        harness.submit("c", "d", batch="april")
        first, second, *_ = harness.claim(limit=3)
        harness.finish(first)
        harness.advance(second)
        assert harness.store.gauges("papers").documents == {
            ("done", None): 1,
            ("running", "chunk"): 1,
            ("running", "extract"): 1,
            ("waiting", "extract"): 1,
        }

    def test_gauges_of_an_empty_pipeline_are_empty(self, harness: StoreHarness) -> None:
        for name in ("papers", "never declared"):
            seen = harness.store.gauges(name)
            assert (seen.pipeline, seen.documents, seen.dead, seen.oldest_due, seen.orphans) == (name, {}, {}, None, 0)

    def test_gauges_count_dead_letters_by_step_and_error(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        first, second, third = harness.claim()
        second = harness.advance(second)
        for claim, kind in ((first, "ValueError"), (second, "KeyError"), (third, "ValueError")):
            assert harness.release(claim, state="dead", failure=Failure(kind, "no"))
        assert harness.store.gauges("papers").dead == {("extract", "ValueError"): 2, ("chunk", "KeyError"): 1}

    def test_gauges_have_the_time_since_the_oldest_document_was_due(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert harness.store.gauges("papers").oldest_due == timedelta(0)
        harness.clock.advance(SECOND * 5)
        harness.submit("b")
        assert harness.store.gauges("papers").oldest_due == SECOND * 5
        harness.claim()
        assert harness.store.gauges("papers").oldest_due is None

    def test_a_delayed_document_is_not_counted_as_due(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim(), delay=SECOND * 10)
        assert harness.store.gauges("papers").oldest_due is None
        harness.clock.advance(SECOND * 12)
        assert harness.store.gauges("papers").oldest_due == SECOND * 2

    def test_gauges_count_documents_of_silent_workers_as_orphans(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.claim(limit=1)
        harness.claim(limit=1, worker=harness.register_worker("patient", lease=LEASE * 10))
        assert harness.store.gauges("papers").orphans == 0
        harness.clock.advance(LEASE * 2)
        assert harness.store.gauges("papers").orphans == 1
        harness.reclaim()
        assert harness.store.gauges("papers").orphans == 0

    def test_gauges_count_overdue_documents_as_orphans(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.claim(limit=1, timeouts={"extract": SECOND})
        harness.claim(limit=1)
        harness.clock.advance(SECOND * 2)
        assert harness.store.gauges("papers").orphans == 1


class StepTimesConformance(Conformance):
    """Tests of add_step_times and step_times."""

    def test_step_times_are_empty_at_first(self, harness: StoreHarness) -> None:
        assert harness.store.step_times("papers") == {}
        assert harness.store.step_times("never declared") == {}

    def test_step_times_add_up(self, harness: StoreHarness, other: Store) -> None:
        harness.store.add_step_times(harness.plan, {"extract": (10, 2.5), "chunk": (4, 0.5)})
        other.add_step_times(harness.plan, {"chunk": (6, 1.0)})
        assert harness.store.step_times("papers") == {"extract": (10, 2.5), "chunk": (10, 1.5)}

    def test_seconds_are_added_before_a_document_has_passed_the_step(self, harness: StoreHarness) -> None:
        harness.store.add_step_times(harness.plan, {"embed": (0, 60.0)})
        assert harness.store.step_times("papers") == {"embed": (0, 60.0)}

    def test_adding_empty_step_times_changes_nothing(self, harness: StoreHarness) -> None:
        harness.store.add_step_times(harness.plan, {})
        assert harness.store.step_times("papers") == {}

    def test_each_pipeline_has_its_own_step_times(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.store.add_step_times(harness.plan, {"extract": (1, 1.0)})
        gated.store.add_step_times(gated.plan, {"read": (2, 2.0)})
        assert harness.store.step_times("papers") == {"extract": (1, 1.0)}
        assert harness.store.step_times("reviews") == {"read": (2, 2.0)}

    def test_step_times_follow_a_renamed_step(self, harness: StoreHarness) -> None:
        harness.store.add_step_times(harness.plan, {"extract": (1, 1.0)})
        renamed = Shape("papers", (StepShape("pages", "stream"), *harness.shape.steps[1:]), {"extract": "pages"})
        harness.store.declare(renamed)
        assert harness.store.step_times("papers") == {"pages": (1, 1.0)}
