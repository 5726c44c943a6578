"""What ended long ago loses what it kept, and big values that nobody refers to are deleted."""

from __future__ import annotations

from typing import Any

from holdfast.core.batches import Cleaned
from holdfast.core.model import Aside, Balance, Failure, Item
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, Desk
from holdfast.testing.conformance.batches import close, sealed
from holdfast.testing.conformance.cleanup import DAY, MONTH, clean_finished


class RetentionConformance(Conformance):
    """What becomes of finished documents in batches that are not closed."""

    def test_what_was_decided_lately_did_not_end_long_ago(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(2 * MONTH)
        desk.store.cancel([claim.document_id], who="cat", reason="no")
        assert clean_finished(desk, with_errors=True).documents == 0
        desk.clock.advance(2 * MONTH)
        assert clean_finished(desk, with_errors=True).documents == 1

    def test_what_a_finished_document_kept_goes_and_its_row_stays(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), '"page"')
        desk.finish(desk.advance(claim))
        desk.clock.advance(MONTH + SECOND)
        cleaned = clean_finished(desk)
        assert (cleaned.documents, cleaned.items) == (1, 1)
        here = desk.standing()
        assert (here.state, here.cleaned_at) == ("done", desk.clock())
        assert desk.items(claim) == []
        assert desk.balance("march") == Balance(1, done=1)
        (found,) = desk.store.census("papers")
        assert (found.balances, found.gone) == (True, 0)

    def test_submitting_it_again_is_still_nothing_to_do(self, desk: Desk) -> None:
        desk.finish(desk.take_in(fingerprint="f1"))
        desk.clock.advance(MONTH + SECOND)
        clean_finished(desk)
        assert desk.submit("a", fingerprint="f1").unchanged == 1
        assert desk.claim() == []

    def test_one_that_changed_begins_anew(self, desk: Desk) -> None:
        desk.finish(desk.take_in(fingerprint="f1"))
        desk.clock.advance(MONTH + SECOND)
        clean_finished(desk)
        assert desk.submit("a", fingerprint="f2").changed == 1
        assert desk.standing().cleaned_at is None
        desk.finish(desk.claim_one(worker=desk.enlist("bob")))

    def test_what_moved_lately_is_kept(self, desk: Desk) -> None:
        desk.finish(desk.take_in())
        desk.clock.advance(MONTH)
        assert clean_finished(desk).documents == 0
        desk.clock.advance(SECOND)
        assert clean_finished(desk).documents == 1

    def test_a_document_is_cleaned_up_once(self, desk: Desk) -> None:
        desk.finish(desk.take_in())
        desk.clock.advance(MONTH + SECOND)
        assert clean_finished(desk).documents == 1
        assert clean_finished(desk) == Cleaned(goes_on_at=None)
        assert [line.verb for line in desk.store.batch_journal("papers", "march")] == ["cleanup"]

    def _troubled(self, desk: Desk) -> None:
        """Leaves documents that were not done without errors, all of long ago."""
        desk.submit("aside", "dead", "failed", "cancelled", "waiting", "paused", "running")
        claims = {claim.key: claim for claim in desk.claim()}
        desk.finish(desk.advance(claims["aside"], asides=[Aside(0, 1, Failure("ValueError", "no"))]))
        desk.bury(claims["dead"])
        desk.give_back(claims["failed"], failure=Failure("ValueError", "not yet"))
        desk.finish(desk.claim_one())
        desk.store.cancel([claims["cancelled"].document_id], who="cat", reason="no")
        desk.give_back(claims["paused"], state="paused", verb="pause")
        desk.give_back(claims["waiting"], verb="defer")
        desk.clock.advance(MONTH + SECOND)

    def test_only_what_is_done_without_errors_is_cleaned_up_unless_told(self, desk: Desk) -> None:
        self._troubled(desk)
        assert clean_finished(desk).documents == 0

    def test_with_errors_the_rest_that_has_ended_goes_too(self, desk: Desk) -> None:
        self._troubled(desk)
        how: dict[str, Any] = {"older": MONTH, "with_errors": True}
        counted = desk.store.count_finished("papers", "march", **how)
        assert counted.counts() == clean_finished(desk, with_errors=True).counts()
        cleaned = {one.key for one in desk.store.standings("papers") if one.cleaned_at}
        assert cleaned == {"aside", "failed", "cancelled"}
        assert desk.balance("march").balances

    def test_the_documents_of_a_closed_batch_are_left_to_its_own_cleanup(self, desk: Desk) -> None:
        sealed(desk, done="a")
        close(desk)
        desk.clock.advance(MONTH + SECOND)
        assert clean_finished(desk).documents == 0
        assert desk.store.count_finished("papers", "march", older=MONTH, with_errors=False).documents == 0

    def test_slices_come_to_an_end_whatever_their_size(self, desk: Desk) -> None:
        desk.submit("", *"abcdefg")
        for claim in desk.claim():
            desk.finish(
                desk.advance(claim, items=[Item("extract", place, '"x"') for place in range(len(claim.key) * 3)])
            )
        desk.clock.advance(MONTH + SECOND)
        assert clean_finished(desk, limit=2).documents == 8


class BlobConformance(Conformance):
    """What becomes of big values, and of workers."""

    BIG = '"' + "x" * 70_000 + '"'

    def _sweep(self, store: Store) -> int:
        deleted, after = store.cleanup_blobs(limit=1)
        while after is not None:
            more, after = store.cleanup_blobs(limit=1, after=after)
            deleted += more
        return deleted

    def test_a_big_value_that_an_item_refers_to_stays(self, desk: Desk) -> None:
        desk.submit("a", "b")
        a, b = desk.claim()
        for claim in (a, b):
            desk.finish(desk.advance(claim, items=[Item("extract", 0, self.BIG)]))
        desk.clock.advance(MONTH + SECOND)
        assert (desk.store.count_blobs(), self._sweep(desk.store)) == (0, 0)
        assert [value for _, _, value in desk.items(b)] == [self.BIG]

    def test_a_big_value_goes_a_day_after_it_was_kept_when_no_item_refers_to_it(self, desk: Desk) -> None:
        claim = desk.advance(desk.take_in(), items=[Item("extract", 0, self.BIG)])
        desk.finish(claim)
        clean_finished(desk, older=-SECOND)
        assert self._sweep(desk.store) == 0
        desk.clock.advance(DAY + SECOND)
        counted = desk.store.count_blobs()
        assert self._sweep(desk.store) == counted
        assert self._sweep(desk.store) == desk.store.count_blobs() == 0

    def test_a_big_value_that_is_kept_again_is_young_again(self, desk: Desk) -> None:
        desk.finish(desk.advance(desk.take_in(), items=[Item("extract", 0, self.BIG)]))
        desk.clock.advance(DAY * 3)
        claim = desk.advance(desk.take_in("b", batch="april"), items=[Item("extract", 0, self.BIG)])
        clean_finished(desk, older=-SECOND)
        desk.store.cancel([claim.document_id], who="cat", reason="no")
        assert self._sweep(desk.store) == 0
        assert [value for _, _, value in desk.items(claim)] == [self.BIG]

    def test_workers_gone_for_long_are_forgotten(self, desk: Desk) -> None:
        desk.store.retire(desk.enlist("bob"))
        desk.clock.advance(MONTH + SECOND)
        desk.store.beat(desk.worker)
        assert desk.store.count_workers(older=MONTH) == desk.store.cleanup_workers(older=MONTH) == 1
        assert desk.store.cleanup_workers(older=MONTH) == 0
        assert [worker.name for worker, _, _ in desk.store.workers()] == ["ann"]

    def test_a_worker_silent_for_long_is_given_up_and_forgotten_as_long_after(self, desk: Desk) -> None:
        desk.clock.advance(MONTH + LEASE + SECOND)
        assert desk.store.cleanup_workers(older=MONTH) == 0
        assert desk.store.workers() == []
        assert not desk.store.beat(desk.worker)
        desk.clock.advance(MONTH + SECOND)
        assert desk.store.cleanup_workers(older=MONTH) == 1
        assert not desk.store.beat(desk.worker)
        assert desk.claim() == []

    def test_a_worker_that_holds_something_is_not_forgotten(self, desk: Desk, gated: Desk) -> None:
        gated.submit("a")
        gated.claim(worker=desk.worker)
        desk.reclaim(gone=[desk.worker.id])
        desk.clock.advance(MONTH + SECOND)
        assert desk.store.cleanup_workers(older=MONTH) == 0
        assert len(gated.reclaim()) == 1
        assert desk.store.cleanup_workers(older=MONTH) == 1

    def test_an_incarnation_is_never_given_twice(self, desk: Desk) -> None:
        bob = desk.enlist("bob")
        desk.store.retire(bob)
        desk.clock.advance(MONTH + SECOND)
        desk.store.cleanup_workers(older=MONTH)
        assert desk.enlist("cat").id > bob.id
