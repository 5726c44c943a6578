"""Cleanup of what is old: items of finished documents, big values without a reference, and records of workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast.core.batches import NOTHING_YET, Cleaned
from holdfast.core.model import Balance, FailedItem, Failure, Item
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, StoreHarness
from holdfast.testing.conformance.batches import close, sealed

DAY = timedelta(days=1)
MONTH = 30 * DAY


def clean_finished(
    harness: StoreHarness, *, older: timedelta = MONTH, with_errors: bool = False, limit: int = 100
) -> Cleaned:
    """Clean up finished documents, slice after slice."""
    cleaned, how = NOTHING_YET, {"older": older, "with_errors": with_errors}
    while cleaned.goes_on_at is not None:
        cleaned = harness.store.cleanup_finished("papers", "march", who="cat", limit=limit, so_far=cleaned, **how)  # type: ignore[arg-type]
    return cleaned


class CleanupFinishedConformance(Conformance):
    """Tests of cleanup_finished and count_finished: finished documents in batches that are not closed."""

    def test_a_document_with_a_recent_decision_is_not_cleaned_up(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(2 * MONTH)
        harness.store.cancel([claim.document_id], who="cat", reason="no")
        assert clean_finished(harness, with_errors=True).documents == 0
        harness.clock.advance(2 * MONTH)
        assert clean_finished(harness, with_errors=True).documents == 1

    def test_items_of_a_finished_document_are_deleted_and_its_row_stays(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), '"page"')
        harness.finish(harness.advance(claim))
        harness.clock.advance(MONTH + SECOND)
        cleaned = clean_finished(harness)
        assert (cleaned.documents, cleaned.items) == (1, 1)
        status = harness.document()
        assert (status.state, status.cleaned_at) == ("done", harness.clock())
        assert harness.items(claim) == []
        assert harness.balance("march") == Balance(1, done=1)
        (found,) = harness.store.batch_counts("papers")
        assert (found.balances, found.gone) == (True, 0)

    def test_submitting_a_cleaned_up_document_again_changes_nothing(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim(fingerprint="f1"))
        harness.clock.advance(MONTH + SECOND)
        clean_finished(harness)
        assert harness.submit("a", fingerprint="f1").unchanged == 1
        assert harness.claim() == []

    def test_a_cleaned_up_document_that_changed_starts_over(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim(fingerprint="f1"))
        harness.clock.advance(MONTH + SECOND)
        clean_finished(harness)
        assert harness.submit("a", fingerprint="f2").changed == 1
        assert harness.document().cleaned_at is None
        harness.finish(harness.claim_one(worker=harness.register_worker("bob")))

    def test_documents_that_moved_recently_are_not_cleaned_up(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        harness.clock.advance(MONTH)
        assert clean_finished(harness).documents == 0
        harness.clock.advance(SECOND)
        assert clean_finished(harness).documents == 1

    def test_a_document_is_cleaned_up_once(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        harness.clock.advance(MONTH + SECOND)
        assert clean_finished(harness).documents == 1
        assert clean_finished(harness) == Cleaned(goes_on_at=None)
        assert [line.verb for line in harness.store.batch_journal("papers", "march")] == ["cleanup"]

    def _troubled(self, harness: StoreHarness) -> None:
        """Make documents that ended long ago, with errors or not done."""
        harness.submit("aside", "dead", "failed", "cancelled", "waiting", "paused", "running")
        claims = {claim.key: claim for claim in harness.claim()}
        harness.finish(harness.advance(claims["aside"], asides=[FailedItem(0, 1, Failure("ValueError", "no"))]))
        harness.make_dead(claims["dead"])
        harness.release(claims["failed"], failure=Failure("ValueError", "not yet"))
        harness.finish(harness.claim_one())
        harness.store.cancel([claims["cancelled"].document_id], who="cat", reason="no")
        harness.release(claims["paused"], state="paused", verb="pause")
        harness.release(claims["waiting"], verb="defer")
        harness.clock.advance(MONTH + SECOND)

    def test_by_default_only_documents_done_without_errors_are_cleaned_up(self, harness: StoreHarness) -> None:
        self._troubled(harness)
        assert clean_finished(harness).documents == 0

    def test_with_errors_all_finished_documents_are_cleaned_up(self, harness: StoreHarness) -> None:
        self._troubled(harness)
        how: dict[str, Any] = {"older": MONTH, "with_errors": True}
        counted = harness.store.count_finished("papers", "march", **how)
        assert counted.counts() == clean_finished(harness, with_errors=True).counts()
        cleaned = {one.key for one in harness.store.documents("papers") if one.cleaned_at}
        assert cleaned == {"aside", "failed", "cancelled"}
        assert harness.balance("march").balances

    def test_documents_of_a_closed_batch_are_left_to_the_cleanup_of_the_batch(self, harness: StoreHarness) -> None:
        sealed(harness, done="a")
        close(harness)
        harness.clock.advance(MONTH + SECOND)
        assert clean_finished(harness).documents == 0
        assert harness.store.count_finished("papers", "march", older=MONTH, with_errors=False).documents == 0
        assert harness.store.count_finished("papers", "march", older=timedelta.max, with_errors=False).documents == 0
        assert harness.store.count_workers(older=timedelta.max) == 0

    def test_a_cleanup_ends_with_slices_of_any_size(self, harness: StoreHarness) -> None:
        harness.submit("", *"abcdefg")
        for claim in harness.claim():
            harness.finish(
                harness.advance(claim, items=[Item("extract", place, '"x"') for place in range(len(claim.key) * 3)])
            )
        harness.clock.advance(MONTH + SECOND)
        assert clean_finished(harness, limit=2).documents == 8


class CleanupBlobsConformance(Conformance):
    """Tests of cleanup_blobs and count_blobs: big values that no item refers to."""

    BIG = '"' + "x" * 70_000 + '"'

    def _sweep(self, store: Store) -> int:
        deleted, after = store.cleanup_blobs(limit=1)
        while after is not None:
            more, after = store.cleanup_blobs(limit=1, after=after)
            deleted += more
        return deleted

    def test_a_big_value_with_a_reference_stays(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        a, b = harness.claim()
        for claim in (a, b):
            harness.finish(harness.advance(claim, items=[Item("extract", 0, self.BIG)]))
        harness.clock.advance(MONTH + SECOND)
        assert (harness.store.count_blobs(), self._sweep(harness.store)) == (0, 0)
        assert [value for _, _, value in harness.items(b)] == [self.BIG]

    def test_a_big_value_without_a_reference_is_deleted_a_day_after_it_was_stored(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim(), items=[Item("extract", 0, self.BIG)])
        harness.finish(claim)
        clean_finished(harness, older=-SECOND)
        assert self._sweep(harness.store) == 0
        harness.clock.advance(DAY + SECOND)
        counted = harness.store.count_blobs()
        assert self._sweep(harness.store) == counted
        assert self._sweep(harness.store) == harness.store.count_blobs() == 0

    def test_storing_a_big_value_again_renews_its_time(self, harness: StoreHarness) -> None:
        harness.finish(harness.advance(harness.submit_and_claim(), items=[Item("extract", 0, self.BIG)]))
        harness.clock.advance(DAY * 3)
        claim = harness.advance(harness.submit_and_claim("b", batch="april"), items=[Item("extract", 0, self.BIG)])
        clean_finished(harness, older=-SECOND)
        harness.store.cancel([claim.document_id], who="cat", reason="no")
        assert self._sweep(harness.store) == 0
        assert [value for _, _, value in harness.items(claim)] == [self.BIG]


class CleanupWorkersConformance(Conformance):
    """Tests of cleanup_workers and count_workers."""

    def test_records_of_workers_gone_for_long_are_deleted(self, harness: StoreHarness) -> None:
        harness.store.retire_worker(harness.register_worker("bob"))
        harness.clock.advance(MONTH + SECOND)
        harness.store.heartbeat(harness.worker)
        assert harness.store.count_workers(older=MONTH) == harness.store.cleanup_workers(older=MONTH) == 1
        assert harness.store.cleanup_workers(older=MONTH) == 0
        assert [worker.name for worker, _, _ in harness.store.workers()] == ["ann"]

    def test_a_worker_silent_for_long_is_given_up_first_and_deleted_later(self, harness: StoreHarness) -> None:
        harness.clock.advance(MONTH + LEASE + SECOND)
        assert harness.store.cleanup_workers(older=MONTH) == 0
        assert harness.store.workers() == []
        assert not harness.store.heartbeat(harness.worker)
        harness.clock.advance(MONTH + SECOND)
        assert harness.store.cleanup_workers(older=MONTH) == 1
        assert not harness.store.heartbeat(harness.worker)
        assert harness.claim() == []

    def test_the_record_of_a_worker_that_holds_documents_is_not_deleted(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        gated.submit("a")
        gated.claim(worker=harness.worker)
        harness.reclaim(gone=[harness.worker.id])
        harness.clock.advance(MONTH + SECOND)
        assert harness.store.cleanup_workers(older=MONTH) == 0
        assert len(gated.reclaim()) == 1
        assert harness.store.cleanup_workers(older=MONTH) == 1

    def test_a_worker_id_is_never_used_twice(self, harness: StoreHarness) -> None:
        bob = harness.register_worker("bob")
        harness.store.retire_worker(bob)
        harness.clock.advance(MONTH + SECOND)
        harness.store.cleanup_workers(older=MONTH)
        assert harness.register_worker("cat").id > bob.id
