"""Cleanup: of closed batches, of old items, of big values without a reference, and of records of workers."""

from __future__ import annotations

import itertools
import threading
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.batches import NOTHING_YET, Cleaned
from holdfast.core.errors import BatchSealed, UnknownDocument
from holdfast.core.model import Balance, FailedItem, Failure, Item, NewDocument
from holdfast.core.moves import LOST
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, StoreHarness, waits
from holdfast.testing.conformance.batches import CLOSING, close, sealed
from holdfast.testing.conformance.races import at_once_in_threads


def clean_closed(harness: StoreHarness, batch: str = "march", *, limit: int = 100) -> Cleaned:
    """Clean up a closed batch, slice after slice."""
    cleaned = NOTHING_YET
    while cleaned.goes_on_at is not None:
        cleaned = harness.store.cleanup_closed("papers", batch, who="cat", limit=limit, so_far=cleaned)
    return cleaned


class CleanupClosedConformance(Conformance):
    """Tests of cleanup_closed and count_closed."""

    def test_a_cleaned_up_batch_has_no_documents_and_still_balances(self, harness: StoreHarness) -> None:
        sealed(harness, done="ab", dead="c", cancelled="d")
        close(harness, tolerate=1.0)
        cleaned = clean_closed(harness)
        assert cleaned.documents == 4
        assert harness.store.documents("papers") == []
        assert harness.balance("march") == Balance(4, done=2, dead=1, cancelled=1)
        (found,) = harness.store.batch_counts("papers")
        assert (found.balances, found.gone, found.accepted) == (True, 4, 1)

    def test_the_balance_holds_after_every_slice(self, harness: StoreHarness) -> None:
        sealed(harness, done="abcde", dead="f")
        close(harness, tolerate=1.0)
        cleaned, slices = NOTHING_YET, 0
        while cleaned.goes_on_at is not None:
            cleaned = harness.store.cleanup_closed("papers", "march", who="cat", limit=2, so_far=cleaned)
            slices += 1
            assert harness.balance("march") == Balance(6, done=5, dead=1)
            assert harness.store.missing("papers", "march") == []
        assert slices > 3

    def test_a_cleanup_keeps_the_report_and_journal_of_the_batch(self, harness: StoreHarness) -> None:
        sealed(harness, done="a")
        report = close(harness)
        clean_closed(harness)
        assert harness.store.report("papers", "march") == report
        assert close(harness) == report
        assert [line.verb for line in harness.store.batch_journal("papers", "march")] == ["seal", "close", "cleanup"]

    def test_a_cleanup_in_many_slices_is_one_journal_line_with_who_and_counts(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim("a"), '"page"', '"page"')
        harness.finish(harness.advance(claim, asides=[FailedItem(0, 1, Failure("ValueError", "no"))]))
        sealed(harness, done="bc", dead="d")
        close(harness, tolerate=1.0)
        cleaned = clean_closed(harness, limit=1)
        line = harness.store.batch_journal("papers", "march")[-1]
        assert (line.verb, line.who) == ("cleanup", "cat")
        assert line.detail == cleaned.counts() == {"documents": 4, "items": 2, "asides": 1, "lines": 2}

    def test_an_interrupted_cleanup_continues_when_called_again(self, harness: StoreHarness) -> None:
        sealed(harness, done="abcd")
        close(harness)
        for _ in range(3):
            harness.store.cleanup_closed("papers", "march", who="cat", limit=1)
        assert 0 < len(harness.store.documents("papers")) < 4
        clean_closed(harness)
        assert harness.balance("march") == Balance(4, done=4)
        clean_closed(harness)
        assert harness.balance("march") == Balance(4, done=4)

    def test_items_failed_items_and_journals_are_deleted_with_their_documents(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), '"page"')
        harness.finish(harness.advance(claim, asides=[FailedItem(0, 1, Failure("ValueError", "no"))]))
        sealed(harness, dead="b")
        (a, b) = harness.document("a").id, harness.document("b").id
        close(harness, tolerate=1.0)
        clean_closed(harness)
        for document_id in (a, b):
            assert not any([[*harness.store.items(document_id)], harness.store.failed_items(document_id)])
            assert not any([harness.store.outputs(document_id), harness.store.journal(document_id)])
        with pytest.raises(UnknownDocument):
            harness.document("a")

    def test_a_batch_that_is_not_closed_is_not_cleaned_up(self, harness: StoreHarness) -> None:
        sealed(harness, done="a")
        assert clean_closed(harness) == clean_closed(harness, "never") == Cleaned(goes_on_at=None)
        assert harness.document("a").state == "done"

    def test_a_batch_whose_closing_steps_are_not_done_is_not_cleaned_up(self, harness: StoreHarness) -> None:
        closing = harness.store.declare(CLOSING)
        sealed(harness, done="a")
        close(harness, closing=closing)
        assert clean_closed(harness).documents == 0
        (claim,) = harness.store.claim(closing, harness.worker, limit=1)
        assert clean_closed(harness).documents == 0
        StoreHarness(harness.store, harness.clock, CLOSING).finish(claim)
        assert clean_closed(harness).documents == 1

    def test_a_count_agrees_with_what_the_cleanup_deletes(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim("a"), '"page"', '"page"')
        harness.finish(harness.advance(claim, asides=[FailedItem(0, 1, Failure("ValueError", "no"))]))
        sealed(harness, done="b", dead="c")
        assert harness.store.count_closed("papers", "march").documents == 0
        close(harness, tolerate=1.0)
        counted = harness.store.count_closed("papers", "march")
        assert (
            counted.counts() == clean_closed(harness).counts() == {"documents": 3, "items": 2, "asides": 1, "lines": 2}
        )
        assert harness.store.count_closed("papers", "march").documents == 0

    def test_a_late_commit_to_a_deleted_document_writes_nothing(self, harness: StoreHarness) -> None:
        late = harness.submit_and_claim("a")
        harness.reclaim(gone=[harness.worker.id])
        harness.finish(harness.claim_one(worker=harness.register_worker("bob")))
        harness.store.seal("papers", "march", who="cat")
        close(harness)
        clean_closed(harness)
        moves = [harness.forward(late, items=[Item("extract", 0, "1")])]
        assert harness.commit(*moves) == [LOST]
        assert not harness.release(late)
        assert not harness.store.rewind(harness.plan, late, to="extract", who="ann", reason="late")
        assert not any([harness.items(late), harness.verbs(late)])
        assert harness.store.next_position(late.document_id, 0, harness.plan.step_ids["extract"]) == 0

    def test_a_document_id_is_never_used_twice(self, harness: StoreHarness) -> None:
        late = harness.submit_and_claim("a")
        harness.reclaim(gone=[harness.worker.id])
        harness.finish(harness.claim_one(worker=harness.register_worker("bob")))
        harness.store.seal("papers", "march", who="cat")
        close(harness)
        clean_closed(harness)
        harness.submit("a", batch="april")
        claim = harness.claim_one(worker=harness.register_worker("cat"))
        assert claim.document_id > late.document_id
        assert harness.commit(harness.forward(late)) == [LOST]

    def test_a_late_permit_for_a_deleted_document_is_dropped(self, harness: StoreHarness) -> None:
        late = harness.submit_and_claim("a")
        harness.store.cancel([late.document_id], who="cat", reason="no")
        harness.store.seal("papers", "march", who="cat")
        close(harness)
        clean_closed(harness)
        harness.store.admit(harness.plan, "extract", [late], limit=1)
        harness.submit("b", batch="april")
        assert harness.store.admit(harness.plan, "extract", [harness.claim_one()], limit=1) == [True]

    def test_a_late_submit_to_a_batch_that_was_cleaned_up_is_refused(self, harness: StoreHarness) -> None:
        sealed(harness, done="a")
        close(harness)
        clean_closed(harness)
        with pytest.raises(BatchSealed, match="is closed"):
            harness.submit("a")
        assert harness.balance("march") == Balance(1, done=1)


class CleanupRaceConformance(Conformance):
    """Tests of a cleanup and another writer on the same documents at the same time."""

    def test_two_cleanups_count_every_document_once(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other]
        with at_once_in_threads(2) as at_once:
            for turn in range(5):
                batch = f"batch-{turn}"
                sealed(harness, done="abcdefgh", batch=batch)
                close(harness, batch)

                def clean(number: int, batch: str = batch) -> int:
                    cleaned = NOTHING_YET
                    while cleaned.goes_on_at is not None:
                        options: dict[str, Any] = {"who": "cat", "limit": 2, "so_far": cleaned}
                        cleaned = stores[number].cleanup_closed("papers", batch, **options)
                    return cleaned.documents

                assert sum(at_once(clean)) == 8
                assert harness.balance(batch) == Balance(8, done=8)

    def test_two_closes_at_once_make_one_report(self, harness: StoreHarness, other: Store) -> None:
        stores, closing = [harness.store, other], harness.store.declare(CLOSING)
        with at_once_in_threads(2) as at_once:
            for turn in range(10):
                batch = f"batch-{turn}"
                sealed(harness, done="ab", dead="c", batch=batch)
                how: dict[str, Any] = {"reason": "", "tolerate": 0.5, "closing": closing}
                closed = at_once(
                    lambda n: stores[n].close_batch(harness.plan, batch, who=f"w{n}", **how)  # noqa: B023
                )
                assert sorted(one.is_new for one in closed) == [False, True]
                assert closed[0].report == closed[1].report
                assert [line.verb for line in harness.store.batch_journal("papers", batch)] == ["seal", "close"]
                assert harness.store.balance("papers.closing", batch).expected == 1

    def test_a_close_and_a_submit_at_once_happen_one_after_the_other(self, harness: StoreHarness, other: Store) -> None:
        def either(number: int, batch: str) -> str:
            try:
                if number:
                    other.submit(harness.plan, batch, [NewDocument("late")], submission=900, part=0)
                else:
                    harness.store.seal("papers", batch, who="cat")
                    close(harness, batch)
            except BatchSealed:
                return "refused"
            except Exception as error:  # noqa: BLE001 - the test compares the names of all errors
                return type(error).__name__
            return "fine"

        with at_once_in_threads(2) as at_once:
            for turn in range(10):
                batch = f"batch-{turn}"
                harness.finish(harness.submit_and_claim("a", batch=batch))
                outcome = at_once(lambda n: either(n, batch))  # noqa: B023
                assert outcome in (["fine", "refused"], ["CloseRefused", "fine"])
                (found,) = harness.store.batch_counts("papers", batch)
                assert found.balances
                assert (found.state == "closed") == (found.open == 0)
                for claim in harness.claim(batch=batch):
                    harness.finish(claim)

    def test_a_cleanup_beside_a_change_keeps_the_items_of_the_new_content(
        self, harness: StoreHarness, other: Store
    ) -> None:
        def either(number: int, turn: int) -> None:
            if number:
                clean_finished(StoreHarness(other, harness.clock), older=-SECOND)
            else:
                harness.submit("a", fingerprint=f"f{turn}")

        with at_once_in_threads(2) as at_once:
            for turn in itertools.islice(itertools.count(1), 10):
                at_once(lambda n: either(n, turn))  # noqa: B023
                assert harness.document().cleaned_at is None
                claim = harness.claim_one()
                harness.finish(harness.advance(claim, items=[Item("extract", 0, str(turn))]))
                assert harness.items(claim) == [("extract", 0, str(turn))]

    def test_the_balance_holds_at_every_moment_of_work_crashes_and_cleanup(
        self, harness: StoreHarness, other: Store
    ) -> None:
        sealed(harness, done="abcdefghijklmnop", dead="qrst", batch="old")
        close(harness, "old", tolerate=1.0)
        harness.submit(*(f"doc-{number}" for number in range(30)))
        finished = threading.Event()

        def work() -> bool:
            for turn in range(100):
                worker = harness.register_worker(f"w{turn}")
                claims = harness.claim(limit=3, worker=worker)
                if not claims:
                    return True
                if turn % 3 == 0:
                    harness.store.reclaim(harness.plan, who="bob", decide=waits, gone=[worker.id])
                    continue
                for claim in claims:
                    harness.finish(claim)
            return False

        def watch() -> bool:
            balanced = True
            while not finished.is_set():
                old, march = other.batch_counts("papers")
                balanced = balanced and (old.balances, old.expected, old.done) == (True, 20, 16)
                balanced = balanced and (march.balances, march.expected) == (True, 30)
                balanced = balanced and other.balance("papers").balances
            return balanced

        def either(number: int) -> bool:
            if number == 0:
                return watch()
            try:
                if number == 1:
                    return bool(clean_closed(harness, "old", limit=1).documents == 20)
                return work()
            finally:
                if number == 2:
                    finished.set()

        with at_once_in_threads(3) as at_once:
            assert at_once(either) == [True, True, True]


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
