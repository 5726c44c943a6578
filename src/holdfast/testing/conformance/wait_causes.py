"""Wait causes: documents counted by the reason why they wait."""

from __future__ import annotations

from holdfast.core.model import Failure, WorkerRecord
from holdfast.core.wait_causes import Cause
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, StoreHarness
from holdfast.testing.conformance.orphans import INSTANT, MINUTE


class WaitCausesConformance(Conformance):
    """Tests of wait_causes, holder, holders, count_ahead and documents_in_step."""

    def test_a_holder_has_its_last_heartbeat(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        sent_at = harness.clock()
        harness.clock.advance(LEASE)
        holder = harness.store.holder(claim.document_id)
        assert holder is not None
        assert (holder.worker, holder.heartbeat_at, holder.alive) == (harness.worker, sent_at, True)
        harness.clock.advance(INSTANT)
        assert _is_dead(harness, claim.document_id, harness.worker)

    def test_a_holder_that_was_given_up_is_not_alive(self, harness: StoreHarness, gated: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        gated.reclaim(gone=[harness.worker.id])
        assert _is_dead(harness, claim.document_id, harness.worker)

    def test_a_document_that_waits_has_no_holder(self, harness: StoreHarness) -> None:
        harness.submit("a")
        assert harness.store.holder(harness.document().id) is None
        assert harness.store.holder(12345) is None

    def test_holders_are_listed_with_the_number_of_their_documents(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        harness.submit(*"abcd")
        gated.submit("e")
        bob = harness.register_worker("bob", lease=LEASE * 9)
        harness.claim(limit=1, worker=bob)
        harness.claim(limit=2)
        gated.claim(worker=bob)
        harness.clock.advance(LEASE * 2)
        held = [(one.worker.name, one.alive, documents) for one, documents in harness.store.holders("papers")]
        assert held == [("ann", False, 2), ("bob", True, 1)]
        assert harness.store.holders("nothing") == []

    def test_documents_ahead_are_those_that_are_claimed_first(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.clock.advance(SECOND)
        harness.submit("late")
        harness.submit("dear", priority=5)
        harness.submit("elsewhere", batch="april", priority=9)
        ahead = {key: harness.store.count_ahead(harness.document(key).id) for key in ("dear", "a", "b", "late")}
        assert ahead == {"dear": 1, "a": 2, "b": 3, "late": 4}
        assert harness.keys_claimed(limit=2) == ["elsewhere", "dear"]

    def test_documents_that_are_not_due_or_suspect_are_not_ahead(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        gated.submit("other")
        harness.submit("crashed")
        harness.crash(times=2)
        harness.submit("put off", priority=9)
        harness.release(harness.claim_one(), delay=SECOND)
        harness.submit("me")
        assert harness.store.count_ahead(harness.document("me").id) == 0
        assert harness.store.count_ahead(harness.document("crashed").id) == 0
        assert harness.store.count_ahead(12345) == 0

    def test_no_document_is_ahead_of_one_that_is_not_waiting(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.make_dead(harness.claim(limit=2)[1])
        assert harness.store.count_ahead(harness.document("b").id) == 0

    def test_documents_in_a_step_are_listed(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        a, b, c = harness.claim()
        harness.store.admit(harness.plan, "extract", [a, b, c], limit=2)
        assert harness.store.documents_in_step("papers", "extract") == [(a.document_id, "a"), (b.document_id, "b")]
        harness.advance(a)
        assert harness.store.documents_in_step("papers", "extract") == [(b.document_id, "b")]
        assert harness.store.documents_in_step("papers", "chunk") == []
        assert harness.store.documents_in_step("papers", "nowhere") == []

    def test_a_document_that_another_worker_claimed_is_no_longer_in_the_step(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        a, _ = harness.claim()
        harness.store.admit(harness.plan, "extract", [a], limit=1)
        assert [cause.kind for cause in _causes(harness)] == ["worked on", "full step"]
        harness.reclaim(gone=[harness.worker.id])
        harness.claim(worker=harness.register_worker("bob"))
        assert harness.store.documents_in_step("papers", "extract") == []
        assert [(cause.kind, cause.documents) for cause in _causes(harness)] == [("worked on", 2)]

    def test_a_document_that_moved_on_is_no_longer_in_the_step(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        a, b = harness.claim()
        harness.store.admit(harness.plan, "extract", [a], limit=1)
        harness.advance(a)
        harness.advance(b)
        assert [(cause.kind, cause.step, cause.documents) for cause in _causes(harness)] == [("worked on", "chunk", 2)]

    def test_documents_are_counted_by_wait_cause(self, harness: StoreHarness) -> None:
        harness.submit(*"abcdefg")
        a, b, c, d, e, f, g = harness.claim()
        harness.finish(a)
        harness.make_dead(b)
        harness.make_dead(c)
        harness.release(d, state="paused", reason="ask ann")
        harness.release(e, state="paused", until=harness.clock() + MINUTE)
        harness.store.cancel([f.document_id], who="cat", reason="no")
        harness.advance(g)
        harness.submit("h", "i", "j")
        assert [(one.kind, one.state, one.step, one.error, one.documents, one.key) for one in _causes(harness)] == [
            ("due", "waiting", "extract", "", 3, "h"),
            ("dead", "dead", "extract", "ValueError", 2, "b"),
            ("person", "paused", "extract", "", 1, "d"),
            ("until", "paused", "extract", "", 1, "e"),
            ("cancelled", "cancelled", "extract", "", 1, "f"),
            ("worked on", "running", "chunk", "", 1, "g"),
        ]

    def test_a_backoff_is_counted_by_its_error_until_it_is_due(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        one, two = harness.claim()
        harness.release(one, delay=SECOND)
        harness.store.release([harness.a_release(two, delay=SECOND, failure=_torn())])
        assert [(cause.kind, cause.error) for cause in _causes(harness)] == [("backoff", ""), ("backoff", "OSError")]
        harness.clock.advance(SECOND)
        assert [(cause.kind, cause.error, cause.documents) for cause in _causes(harness)] == [("due", "", 2)]

    def test_suspects_have_their_own_wait_cause(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.crash(times=2)
        assert [cause.kind for cause in _causes(harness)] == ["suspect"]

    def test_running_documents_are_counted_by_wait_cause(self, harness: StoreHarness) -> None:
        harness.submit(*"abcd")
        a, b = harness.claim(limit=2)
        harness.store.admit(harness.plan, "extract", [a, b], limit=1)
        harness.claim(limit=1, timeouts={"extract": SECOND})
        harness.claim(limit=1, worker=harness.register_worker("bob"))
        harness.clock.advance(LEASE + INSTANT)
        harness.store.heartbeat(harness.worker)
        found = [(cause.kind, cause.key) for cause in _causes(harness)]
        assert found == [("worked on", "a"), ("full step", "b"), ("overdue", "c"), ("silent", "d")]

    def test_wait_causes_are_for_a_pipeline_or_a_batch(self, harness: StoreHarness, gated: StoreHarness) -> None:
        gated.submit("a")
        harness.submit("b")
        harness.submit("c", batch="april")
        (both,) = _causes(harness)
        (april,) = harness.store.wait_causes("papers", batch="april")
        assert (both.documents, both.key, both.batch) == (2, "b", "march")
        assert (april.documents, april.key, april.batch, april.moved_at) == (1, "c", "april", harness.clock())
        assert harness.store.wait_causes("papers", batch="may") == []
        assert harness.store.wait_causes("nothing") == []


def _causes(harness: StoreHarness) -> list[Cause]:
    return harness.store.wait_causes("papers")


def _torn() -> Failure:
    return Failure("OSError", "torn")


def _is_dead(harness: StoreHarness, document_id: int, worker: WorkerRecord) -> bool:
    holder = harness.store.holder(document_id)
    return holder is not None and holder.worker == worker and not holder.alive
