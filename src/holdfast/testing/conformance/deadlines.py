"""Deadlines of batches, and scans: what is open at a deadline is ended, once; one worker of many does each scan."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.batches import Counted, ExpiredBatch
from holdfast.core.errors import BatchSealed, UnknownBatch
from holdfast.core.moves import LOST
from holdfast.core.reasons import BATCH_DEADLINE
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, StoreHarness
from holdfast.testing.conformance.races import at_once_in_threads

HOUR = timedelta(hours=1)


def set_deadline(harness: StoreHarness, *, batch: str = "march", after: timedelta = HOUR, **more: Any) -> bool:
    """Set the deadline of a batch, an hour from now."""
    return harness.store.set_deadline("papers", batch, at=harness.clock() + after, **{"who": "cat"} | more)


def expire(harness: StoreHarness, **more: Any) -> list[ExpiredBatch]:
    """End everything whose deadline has passed."""
    expired = []
    while (one := harness.store.expire_batch(harness.plan, who="bob", **more)) is not None:
        expired.append(one)
        assert len(expired) < 20, "it never ends"
    return expired


class DeadlineConformance(Conformance):
    """Tests of set_deadline and expire_batch."""

    def test_a_deadline_is_counted_and_journalled(self, harness: StoreHarness) -> None:
        harness.submit("a")
        at = harness.clock() + HOUR
        assert set_deadline(harness, action="cancel", reason="the case closes")
        (found,) = harness.store.batch_counts("papers")
        assert (found.deadline_at, found.deadline_action, found.expired_at) == (at, "cancel", None)
        (line,) = harness.store.batch_journal("papers", "march")
        assert (line.verb, line.who) == ("deadline", "cat")
        assert line.detail == {"reason": "the case closes", "deadline": at.isoformat(), "action": "cancel"}

    def test_nothing_is_ended_before_the_deadline(self, harness: StoreHarness) -> None:
        harness.submit("a")
        set_deadline(harness)
        harness.clock.advance(HOUR - SECOND)
        assert expire(harness) == []
        assert harness.document("a").state == "waiting"

    def test_at_the_deadline_open_documents_become_dead_letters(self, harness: StoreHarness) -> None:
        harness.submit(*"abcd")
        harness.finish(harness.claim_one())
        harness.claim_one()
        harness.release(harness.claim_one(), state="paused")
        set_deadline(harness)
        harness.clock.advance(HOUR)
        expired = expire(harness)
        assert [document.key for one in expired for document in one.documents] == ["b", "c", "d"]
        assert {(one.batch, one.action) for one in expired} == {("march", "fail")}
        assert expired[-1].is_over
        (found,) = harness.store.batch_counts("papers")
        assert (found.done, found.dead, found.open, found.state) == (1, 3, 0, "sealed")
        assert found.expired_at == harness.clock()
        for key, was in {"b": "running", "c": "paused", "d": "waiting"}.items():
            status = harness.document(key)
            assert (status.state, status.error, status.code) == ("dead", "BatchDeadline", BATCH_DEADLINE)
            line = harness.store.journal(status.id)[-1]
            assert (line.verb, line.who, line.code) == ("fail", "bob", BATCH_DEADLINE)
            assert line.detail == {"reason": status.reason, "was": was, "state": "dead"}

    def test_at_the_deadline_open_documents_are_cancelled_if_it_says_so(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        set_deadline(harness, action="cancel")
        harness.clock.advance(HOUR)
        expire(harness)
        status = harness.document("a")
        assert (status.state, status.error, status.code) == ("cancelled", "", BATCH_DEADLINE)
        report = harness.store.close_batch(harness.plan, "march", who="cat", reason="late").report
        assert report.in_all == Counted(cancelled=2)

    def test_a_worker_that_holds_a_document_at_the_deadline_cannot_write_to_it(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        set_deadline(harness)
        harness.clock.advance(HOUR)
        expire(harness)
        assert harness.commit(harness.forward(claim)) == [LOST]
        assert harness.store.lost_claims([claim]) == [claim.document_id]
        assert harness.document("a").state == "dead"

    def test_at_the_deadline_an_open_batch_is_sealed(self, harness: StoreHarness) -> None:
        harness.submit("a")
        set_deadline(harness)
        harness.clock.advance(HOUR)
        expire(harness)
        with pytest.raises(BatchSealed):
            harness.submit("b")
        verbs = [(line.verb, line.who) for line in harness.store.batch_journal("papers", "march")]
        assert verbs == [("deadline", "cat"), ("seal", "bob"), ("expire", "bob")]

    def test_documents_are_ended_in_slices(self, harness: StoreHarness) -> None:
        harness.submit(*"abcde")
        set_deadline(harness)
        harness.clock.advance(HOUR)
        expired = expire(harness, limit=2)
        assert [len(one.documents) for one in expired] == [2, 2, 1, 0]
        assert [one.is_over for one in expired] == [False, False, False, True]

    def test_a_document_that_is_opened_after_the_deadline_is_left_alone(self, harness: StoreHarness) -> None:
        harness.submit("a")
        set_deadline(harness)
        harness.clock.advance(HOUR)
        expire(harness)
        harness.store.redrive([harness.document("a").id], who="cat", reason="it is needed after all")
        assert expire(harness) == []
        assert harness.document("a").state == "waiting"

    def test_a_later_deadline_replaces_one_that_has_passed(self, harness: StoreHarness) -> None:
        harness.submit("a")
        set_deadline(harness)
        harness.clock.advance(HOUR)
        set_deadline(harness)
        assert expire(harness) == []
        harness.clock.advance(HOUR)
        assert expire(harness)[-1].is_over

    def test_a_removed_deadline_ends_nothing(self, harness: StoreHarness) -> None:
        harness.submit("a")
        set_deadline(harness)
        assert harness.store.set_deadline("papers", "march", at=None, who="cat")
        harness.clock.advance(HOUR)
        assert expire(harness) == []
        assert harness.store.batch_counts("papers")[0].deadline_at is None

    def test_each_batch_has_its_own_deadline(self, harness: StoreHarness, gated: StoreHarness) -> None:
        harness.submit("a", batch="march")
        harness.submit("a", batch="april")
        harness.submit("a", batch="may")
        gated.submit("a")
        set_deadline(harness, batch="april", after=HOUR)
        set_deadline(harness, batch="march", after=HOUR / 2)
        gated.store.set_deadline("reviews", "march", at=harness.clock() + HOUR, who="cat")
        harness.clock.advance(HOUR)
        assert [one.batch for one in expire(harness) if one.is_over] == ["march", "april"]
        assert harness.document("a", batch="may").state == "waiting"
        assert gated.document("a").state == "waiting"

    def test_a_closed_batch_gets_no_deadline(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        harness.store.seal("papers", "march", who="cat")
        set_deadline(harness)
        harness.store.close_batch(harness.plan, "march", who="cat", reason="all in")
        assert not set_deadline(harness)
        harness.clock.advance(HOUR)
        assert expire(harness) == []

    def test_an_unknown_batch_gets_no_deadline(self, harness: StoreHarness) -> None:
        with pytest.raises(UnknownBatch):
            set_deadline(harness)

    def test_of_many_workers_at_once_one_ends_each_document(self, harness: StoreHarness, other: Store) -> None:
        stores = [harness.store, other, harness.store, other]

        def expire_all(number: int) -> list[str]:
            ended = []
            while (one := stores[number].expire_batch(harness.plan, who=f"w{number}", limit=3)) is not None:
                ended += [document.key for document in one.documents] + ["over"] * one.is_over
            return ended

        with at_once_in_threads(4) as at_once:
            for turn in range(5):
                batch = f"batch-{turn}"
                harness.submit(*"abcdefgh", batch=batch)
                set_deadline(harness, batch=batch, after=-SECOND)
                ended = sorted(key for keys in at_once(expire_all) for key in keys)
                assert ended == [*"abcdefgh", "over"]
                for key in "abcdefgh":
                    document = harness.document(key, batch=batch)
                    assert [line.verb for line in harness.store.journal(document.id)] == ["fail"]
                verbs = [line.verb for line in harness.store.batch_journal("papers", batch)]
                assert verbs == ["deadline", "seal", "expire"]


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
