"""Gauges, step times and totals of workers: what is where, how long steps took, and which worker finished what."""

from __future__ import annotations

from datetime import timedelta

from holdfast.core.model import Failure, NewDocument
from holdfast.core.moves import LOST
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, StoreHarness, dies


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


HOUR = timedelta(hours=1)


def _ended(harness: StoreHarness, *, since: timedelta = HOUR) -> list[tuple[str, bool, int, int]]:
    """Return what each worker finished: name, whether it is gone, documents done, documents dead."""
    found = harness.store.worker_totals(since=harness.clock() - since)
    return [(one.worker.name, one.gone, one.done, one.dead) for one in found]


class WorkerTotalsConformance(Conformance):
    """Tests of worker_totals, and of `worked_by` of a document."""

    def test_a_document_has_no_last_worker_before_its_first_claim_ends(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert harness.document().worked_by is None
        claim = harness.claim_one()
        assert (harness.document().holder, harness.document().worked_by) == ("ann", None)
        harness.advance(claim)
        assert harness.document().worked_by is None
        assert _ended(harness) == []

    def test_a_finished_document_is_counted_for_the_worker_that_finished_it(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        status = harness.document()
        assert (status.state, status.holder, status.worked_by) == ("done", "", "ann")
        assert (
            harness.store.documents_by_id([status.id])
            == harness.store.find("a")
            == harness.store.documents("papers")
            == [status]
        )

    def test_a_finished_document_is_not_counted_for_a_worker_that_lost_it(self, harness: StoreHarness) -> None:
        claim, bob = harness.submit_and_claim(), harness.register_worker("bob")
        claim = harness.advance(harness.advance(claim))
        harness.clock.advance(LEASE + SECOND)
        harness.store.heartbeat(bob)
        harness.reclaim()
        assert harness.document().worked_by == "ann"
        taken = harness.claim_one(worker=bob)
        assert harness.commit(harness.forward(claim)) == [LOST]
        harness.finish(taken)
        assert harness.commit(harness.forward(claim)) == [LOST]
        assert harness.document().worked_by == "bob"
        assert _ended(harness) == [("bob", False, 1, 0)]

    def test_a_dead_letter_is_counted_for_the_worker_that_failed_it(self, harness: StoreHarness) -> None:
        harness.release(harness.submit_and_claim())
        bob = harness.register_worker("bob")
        harness.make_dead(harness.claim_one(worker=bob))
        assert harness.document().worked_by == "bob"
        assert _ended(harness) == [("bob", False, 0, 1)]

    def test_an_orphan_that_becomes_dead_is_counted_for_the_lost_worker(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.clock.advance(LEASE + SECOND)
        (dead,) = harness.reclaim(decide=dies)
        assert (dead.state, dead.worked_by) == ("dead", "ann")
        assert _ended(harness) == [("ann", True, 0, 1)]

    def test_a_document_finished_by_its_last_gate_is_counted_for_the_worker_that_brought_it_there(
        self, gated: StoreHarness
    ) -> None:
        claim = gated.submit_and_claim()
        gated.park(claim, at="review")
        assert gated.document().worked_by == "ann"
        ids = [claim.document_id]
        assert gated.store.resume(gated.plan, ids, who="cat", reason="fine") == ids
        gated.park(gated.claim_one(worker=gated.register_worker("bob")), at="sign")
        assert gated.store.resume(gated.plan, ids, who="cat", reason="fine") == ids
        status = gated.document()
        assert (status.state, status.worked_by) == ("done", "bob")

    def test_a_document_that_people_take_from_a_worker_has_it_as_last_worker(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.cancel([first.document_id], who="cat", reason="no")
        harness.store.pause([second.document_id], who="cat", reason="later")
        harness.store.reject([second.document_id], who="cat", reason="never")
        assert (harness.document("a").worked_by, harness.document("b").worked_by) == ("ann", "ann")
        assert _ended(harness) == [], "a person brought them to an end"

    def test_a_dead_letter_with_an_error_named_like_a_rejection_is_counted(self, harness: StoreHarness) -> None:
        assert harness.release(harness.submit_and_claim(), state="dead", failure=Failure("Rejected", "no such page"))
        assert _ended(harness) == [("ann", False, 0, 1)]

    def test_a_dead_letter_of_a_deadline_is_not_counted(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        harness.store.set_deadline("papers", "march", at=harness.clock() + SECOND, who="cat")
        harness.clock.advance(SECOND)
        assert harness.store.expire_batch(harness.plan, who="bob") is not None
        assert (harness.document().state, harness.document().worked_by) == ("dead", "ann")
        assert _ended(harness) == [], "a deadline brought it to an end"

    def test_a_document_that_is_renamed_while_running_has_the_worker_that_lost_it_as_last_worker(
        self, harness: StoreHarness
    ) -> None:
        harness.submit_and_claim()
        harness.store.rename("papers", "march", {"a": NewDocument("b", None)}, who="cat", reason="moved")
        assert (harness.document("b").holder, harness.document("b").worked_by) == ("", "ann")

    def test_a_released_document_has_the_releasing_worker_as_last_worker(self, harness: StoreHarness) -> None:
        harness.submit_and_claim()
        assert harness.store.release_unknown(harness.worker, keeping=()) == 1
        assert (harness.document().state, harness.document().worked_by) == ("waiting", "ann")

    def test_changed_content_has_no_last_worker(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        harness.submit("a", fingerprint="changed")
        assert harness.document().worked_by is None
        assert _ended(harness) == []

    def test_a_rewound_document_is_not_counted_until_it_is_finished_again(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.finish(claim)
        ids = [claim.document_id]
        assert harness.store.rewind_to(harness.plan, ids, to="chunk", who="cat", reason="again") == ids
        assert harness.document().worked_by is None
        bob = harness.register_worker("bob")
        harness.finish(harness.claim_one(worker=bob))
        assert harness.document().worked_by == "bob"

    def test_a_document_that_its_worker_rewinds_is_not_counted_until_it_is_finished_again(
        self, harness: StoreHarness
    ) -> None:
        harness.release(harness.advance(harness.submit_and_claim()))
        assert harness.document().worked_by == "ann"
        claim = harness.claim_one()
        assert harness.store.rewind(harness.plan, claim, to="extract", who="ann", reason="gone")
        assert harness.document().worked_by is None

    def test_a_redriven_document_is_counted_for_the_worker_that_finishes_it(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.make_dead(claim)
        harness.store.redrive([claim.document_id], who="cat", reason="again")
        harness.finish(harness.claim_one(worker=harness.register_worker("bob")))
        assert harness.document().worked_by == "bob"
        assert _ended(harness) == [("bob", False, 1, 0)]

    def test_lost_workers_are_listed_since_a_given_time(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        harness.store.retire_worker(harness.worker)
        harness.clock.advance(HOUR)
        assert _ended(harness) == [("ann", True, 1, 0)]
        assert _ended(harness, since=HOUR - SECOND) == []

    def test_documents_of_all_pipelines_are_counted(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        gated.submit("b")
        gated.make_dead(gated.claim_one(worker=harness.worker))
        assert _ended(harness) == [("ann", False, 1, 1)]

    def test_a_worker_that_was_cleaned_up_is_not_listed(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        harness.store.retire_worker(harness.worker)
        harness.clock.advance(HOUR)
        assert harness.store.cleanup_workers(older=SECOND) == 1
        assert (harness.document().state, harness.document().worked_by) == ("done", None)
        assert _ended(harness, since=HOUR * 2) == []
