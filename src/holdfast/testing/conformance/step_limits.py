"""Step limits: how many documents may be in a step at once, over all workers."""

from __future__ import annotations

from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import Conformance, StoreHarness


class StepLimitConformance(Conformance):
    """Tests of admit."""

    def test_no_more_than_the_limit_are_admitted(self, harness: StoreHarness) -> None:
        harness.submit(*"abcd")
        assert harness.store.admit(harness.plan, "extract", harness.claim(), limit=2) == [True, True, False, False]

    def test_no_more_than_the_limit_are_admitted_over_two_workers(self, harness: StoreHarness, other: Store) -> None:
        harness.submit(*"abcd")
        mine = harness.claim(limit=2)
        theirs = harness.claim(limit=2, worker=harness.register_worker("bob"))
        assert harness.store.admit(harness.plan, "extract", mine, limit=3) == [True, True]
        assert other.admit(harness.plan, "extract", theirs, limit=3) == [True, False]

    def test_an_admitted_document_stays_admitted(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        assert harness.store.admit(harness.plan, "extract", [first], limit=1) == [True]
        assert harness.store.admit(harness.plan, "extract", [second, first], limit=1) == [False, True]

    def test_a_move_within_the_step_keeps_the_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.admit(harness.plan, "extract", [first], limit=1)
        first = harness.keep(first, "1")
        assert harness.store.admit(harness.plan, "extract", [second], limit=1) == [False]

    def test_a_move_to_the_next_step_returns_the_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.admit(harness.plan, "extract", [first], limit=1)
        harness.advance(first)
        assert harness.store.admit(harness.plan, "extract", [second], limit=1) == [True]

    def test_a_release_returns_the_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.admit(harness.plan, "extract", [first], limit=1)
        harness.release(first)
        assert harness.store.admit(harness.plan, "extract", [second], limit=1) == [True]

    def test_a_cancel_returns_the_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.admit(harness.plan, "extract", [first], limit=1)
        harness.store.cancel([first.document_id], who="ann", reason="no")
        assert harness.store.admit(harness.plan, "extract", [second], limit=1) == [True]

    def test_a_reclaim_returns_the_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.store.admit(harness.plan, "extract", [harness.claim_one()], limit=1)
        harness.reclaim(gone=[harness.worker.id])
        bob = harness.register_worker("bob")
        claims = harness.claim(worker=bob)
        assert harness.store.admit(harness.plan, "extract", claims[1:], limit=1) == [True]

    def test_a_reclaimed_document_needs_a_new_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        harness.store.admit(harness.plan, "extract", [first], limit=1)
        harness.release(first)
        harness.store.admit(harness.plan, "extract", [second], limit=1)
        again = harness.claim_one()
        assert harness.store.admit(harness.plan, "extract", [again], limit=1) == [False]

    def test_a_stale_claim_takes_no_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        stale, second = harness.claim()
        harness.release(stale)
        harness.store.admit(harness.plan, "extract", [stale], limit=1)
        assert harness.store.admit(harness.plan, "extract", [second], limit=1) == [True]

    def test_a_stale_claim_is_not_admitted_and_frees_no_permit(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        stale, second = harness.claim()
        harness.release(stale)
        (again,) = harness.claim()
        assert harness.store.admit(harness.plan, "extract", [stale, again], limit=1) == [False, True]
        assert harness.store.admit(harness.plan, "extract", [stale, second], limit=1) == [False, False]
        assert harness.store.admit(harness.plan, "extract", [again], limit=1) == [True]

    def test_each_step_has_its_own_permits(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        second = harness.advance(second)
        assert harness.store.admit(harness.plan, "extract", [first], limit=1) == [True]
        assert harness.store.admit(harness.plan, "chunk", [second], limit=1) == [True]

    def test_a_raised_limit_admits_more(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        claims = harness.claim()
        assert harness.store.admit(harness.plan, "extract", claims, limit=1) == [True, False]
        assert harness.store.admit(harness.plan, "extract", claims, limit=2) == [True, True]

    def test_a_lowered_limit_takes_no_permit_back(self, harness: StoreHarness) -> None:
        harness.submit(*"abc")
        *inside, outside = harness.claim()
        harness.store.admit(harness.plan, "extract", inside, limit=2)
        assert harness.store.admit(harness.plan, "extract", [*inside, outside], limit=1) == [True, True, False]

    def test_admitting_no_claims_returns_nothing(self, harness: StoreHarness) -> None:
        assert harness.store.admit(harness.plan, "extract", [], limit=1) == []
