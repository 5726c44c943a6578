"""Scans: one worker of many does each."""

from __future__ import annotations

from datetime import timedelta

from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, StoreHarness
from holdfast.testing.conformance.races import at_once_in_threads

HOUR = timedelta(hours=1)


class BeginScanConformance(Conformance):
    """Tests of begin_scan."""

    def test_a_scan_begins_once_in_each_interval(self, harness: StoreHarness, other: Store) -> None:
        assert harness.store.begin_scan(harness.plan, every=HOUR)
        harness.clock.advance(HOUR - SECOND)
        assert not other.begin_scan(harness.plan, every=HOUR)
        harness.clock.advance(SECOND)
        assert other.begin_scan(harness.plan, every=HOUR)
        assert not harness.store.begin_scan(harness.plan, every=HOUR)

    def test_each_pipeline_has_its_own_scans(self, harness: StoreHarness, gated: StoreHarness) -> None:
        assert harness.store.begin_scan(harness.plan, every=HOUR)
        assert harness.store.begin_scan(gated.plan, every=HOUR)

    def test_a_clock_that_was_set_back_does_not_end_the_scans(self, harness: StoreHarness) -> None:
        harness.clock.advance(24 * HOUR)
        assert harness.store.begin_scan(harness.plan, every=HOUR)
        harness.clock.advance(-24 * HOUR)
        assert harness.store.begin_scan(harness.plan, every=HOUR)
        assert not harness.store.begin_scan(harness.plan, every=HOUR)

    def test_of_many_workers_at_once_one_scans(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other, harness.store, other]
        with at_once_in_threads(4) as at_once:
            for _ in range(5):
                begun = at_once(lambda n: stores[n].begin_scan(harness.plan, every=HOUR))
                assert sorted(begun) == [False, False, False, True]
                harness.clock.advance(HOUR)
