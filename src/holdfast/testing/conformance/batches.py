"""Batches: counts that balance, sealing, closing, reports."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core.batches import BatchReport, Counted, Reconciliation
from holdfast.core.errors import BatchSealed, CloseRefused, SealRefused, UnknownBatch
from holdfast.core.model import Balance, FailedItem, Failure, NewDocument, Plan
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, StoreHarness
from holdfast.testing.conformance.reads import one_of_each

CLOSING = Shape("papers.closing", (StepShape("tell", "value"),))


def close(harness: StoreHarness, batch: str = "march", **more: Any) -> BatchReport:
    """Close a batch."""
    return harness.store.close_batch(harness.plan, batch, **{"who": "cat", "reason": "all in", **more}).report


def sealed(harness: StoreHarness, *, done: str = "", dead: str = "", cancelled: str = "", batch: str = "march") -> None:
    """Make a sealed batch of documents that have ended. Each letter is a key."""
    harness.submit(*done, *dead, *cancelled, batch=batch, fingerprint="f1")
    for claim in harness.claim(batch=batch):
        if claim.key in done:
            harness.finish(claim)
        elif claim.key in dead:
            harness.make_dead(claim)
        else:
            harness.store.cancel([claim.document_id], who="ann", reason="no")
    harness.store.seal("papers", batch, who="cat")


class BatchCountsConformance(Conformance):
    """Tests of batch_counts and missing."""

    def test_batch_counts_have_every_state_in_total_and_by_step(self, harness: StoreHarness) -> None:
        one_of_each(harness)
        (found,) = harness.store.batch_counts("papers")
        assert isinstance(found, Reconciliation)
        assert found.balances
        assert (found.expected, found.found, found.open) == (6, 6, 3)
        assert found.steps == {"extract": Counted(dead=1, cancelled=1, paused=1, running=1, waiting=1)}
        assert (found.done, found.dead, found.accepted, found.running, found.orphaned) == (1, 1, 0, 1, 0)

    def test_batch_counts_agree_with_the_balance(self, harness: StoreHarness) -> None:
        one_of_each(harness)
        harness.submit("x", batch="april")
        for found in harness.store.batch_counts("papers"):
            counts = {word: getattr(found, word) for word in Balance.__struct_fields__}
            assert Balance(**counts) == harness.balance(found.batch)

    def test_batch_counts_are_for_one_batch_or_for_all_oldest_first(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        harness.submit("a", batch="march")
        harness.submit("a", "b", batch="april")
        gated.submit("a", batch="may")
        assert [(one.batch, one.expected) for one in harness.store.batch_counts("papers")] == [
            ("march", 1),
            ("april", 2),
        ]
        assert [(one.batch, one.expected) for one in harness.store.batch_counts("papers", "april")] == [("april", 2)]
        assert harness.store.batch_counts("papers", "may") == harness.store.batch_counts("nowhere") == []

    def test_an_empty_batch_balances(self, harness: StoreHarness) -> None:
        harness.store.submit(harness.plan, "march", [], submission=1, part=0)
        (found,) = harness.store.batch_counts("papers")
        assert (found.expected, found.balances, found.moved_at, found.steps) == (0, True, None, {})

    def test_documents_of_a_silent_worker_are_counted_as_orphaned(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.advance(harness.claim_one())
        harness.claim_one(worker=harness.register_worker("bob", lease=LEASE * 3))
        harness.clock.advance(LEASE * 2)
        (found,) = harness.store.batch_counts("papers", "march")
        assert (found.running, found.orphaned) == (2, 1)
        assert (found.steps["chunk"].orphaned, found.steps["extract"].orphaned) == (1, 0)

    def test_documents_of_a_worker_that_was_given_up_are_counted_as_orphaned(
        self, harness: StoreHarness, gated: StoreHarness
    ) -> None:
        gated.submit("a")
        gated.claim(worker=harness.worker)
        harness.reclaim(gone=[harness.worker.id])
        assert [one.orphaned for one in harness.store.batch_counts("reviews")] == [1]

    def test_an_overdue_document_of_a_live_worker_is_counted_as_orphaned(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.claim(timeouts={"extract": SECOND})
        harness.clock.advance(SECOND * 2)
        assert [one.orphaned for one in harness.store.batch_counts("papers")] == [1]

    def test_batch_counts_have_the_time_of_the_last_move(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.clock.advance(SECOND)
        harness.advance(harness.claim_one())
        at = harness.clock()
        harness.clock.advance(SECOND)
        (found,) = harness.store.batch_counts("papers")
        assert found.moved_at == at

    def test_the_mark_of_a_batch_changes_only_when_a_document_changes(self, harness: StoreHarness) -> None:
        sealed(harness, done="a", dead="b")
        before = harness.store.batch_counts("papers")
        assert harness.store.batch_counts("papers") == before
        harness.store.redrive([harness.document("b").id], who="cat", reason="again")
        harness.make_dead(harness.claim_one())
        assert harness.store.batch_counts("papers")[0].mark > before[0].mark

    def test_nothing_is_missing_from_a_batch_that_balances(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.submit("b", "c")
        harness.submit("a", fingerprint="f2")
        harness.store.submit(harness.plan, "march", [NewDocument("d")], submission=70, part=0)
        harness.store.submit(harness.plan, "march", [NewDocument("d")], submission=70, part=0)
        assert harness.store.missing("papers", "march") == []

    def test_missing_documents_of_an_unknown_batch_raise(self, harness: StoreHarness) -> None:
        with pytest.raises(UnknownBatch):
            harness.store.missing("papers", "march")


class SealConformance(Conformance):
    """Tests of seal and batch_journal."""

    def test_a_seal_is_journalled_with_who_and_why(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.clock.advance(SECOND)
        assert harness.store.seal("papers", "march", who="cat", reason="the box is empty")
        (line,) = harness.store.batch_journal("papers", "march")
        assert (line.at, line.verb, line.who) == (harness.clock(), "seal", "cat")
        assert line.detail == {"reason": "the box is empty", "was": "open", "state": "sealed"}
        assert harness.store.batch_counts("papers")[0].sealed_at == harness.clock()

    def test_sealing_again_changes_nothing_and_writes_no_journal_line(self, harness: StoreHarness) -> None:
        harness.submit("a")
        harness.store.seal("papers", "march", who="cat")
        before = harness.store.batch_counts("papers")
        harness.clock.advance(SECOND)
        assert not harness.store.seal("papers", "march", who="dan")
        assert harness.store.batch_counts("papers") == before
        assert len(harness.store.batch_journal("papers", "march")) == 1

    def test_a_batch_with_the_declared_number_of_documents_is_sealed(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        assert harness.store.seal("papers", "march", who="cat", reason="all in", expect=2)
        (line,) = harness.store.batch_journal("papers", "march")
        assert line.detail == {"reason": "all in", "was": "open", "state": "sealed", "expect": 2}

    def test_a_batch_with_too_few_documents_is_not_sealed(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        with pytest.raises(SealRefused, match="has 2 documents, but 3 were declared") as refusal:
            harness.store.seal("papers", "march", who="cat", expect=3)
        assert (refusal.value.submitted, refusal.value.declared) == (2, 3)
        assert harness.store.batch_counts("papers")[0].state == "open"
        assert harness.store.batch_journal("papers", "march") == []

    def test_a_batch_with_too_many_documents_is_not_sealed(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        with pytest.raises(SealRefused, match="has 2 documents, but 1 were declared"):
            harness.store.seal("papers", "march", who="cat", expect=1)
        assert harness.store.batch_counts("papers")[0].state == "open"

    def test_a_sealed_batch_is_still_compared_with_the_declared_number(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        harness.store.seal("papers", "march", who="cat", expect=2)
        assert not harness.store.seal("papers", "march", who="cat", expect=2)
        with pytest.raises(SealRefused, match="It is still sealed"):
            harness.store.seal("papers", "march", who="cat", expect=3)

    def test_each_batch_has_its_own_journal(self, harness: StoreHarness) -> None:
        harness.submit("a", batch="march")
        harness.submit("a", batch="april")
        harness.make_dead(harness.claim_one())
        harness.store.seal("papers", "april", who="cat")
        assert harness.store.batch_journal("papers", "march") == harness.store.batch_journal("papers", "may") == []


class CloseBatchConformance(Conformance):
    """Tests of close_batch."""

    def test_a_batch_whose_documents_are_all_done_is_closed(self, harness: StoreHarness) -> None:
        sealed(harness, done="ab")
        harness.clock.advance(SECOND)
        report = close(harness)
        (found,) = harness.store.batch_counts("papers", "march")
        assert (found.state, found.closed_at, found.balances) == ("closed", harness.clock(), True)
        assert (report.state, report.closed_at, report.closed_by, report.reason) == (
            "closed",
            harness.clock(),
            "cat",
            "all in",
        )
        assert (report.expected, report.balances, report.in_all) == (2, True, Counted(done=2))

    def test_a_close_is_journalled_with_who_and_why(self, harness: StoreHarness) -> None:
        sealed(harness, done="a")
        report = close(harness)
        line = harness.store.batch_journal("papers", "march")[-1]
        assert (line.verb, line.who) == ("close", "cat")
        assert line.detail == {"reason": "all in", "was": "sealed", "state": "closed", "sha256": report.sha256}

    def test_closing_a_closed_batch_returns_its_first_report(self, harness: StoreHarness, other: Store) -> None:
        sealed(harness, done="a")
        closing = harness.store.declare(CLOSING)
        first = harness.store.close_batch(harness.plan, "march", who="cat", reason="all in", closing=closing)
        harness.clock.advance(SECOND)
        again = other.close_batch(harness.plan, "march", who="dan", reason="me too", closing=closing)
        assert (first.is_new, again.is_new) == (True, False)
        assert again.report == first.report == other.report("papers", "march")
        assert [line.verb for line in harness.store.batch_journal("papers", "march")] == ["seal", "close"]
        assert harness.store.balance("papers.closing") == Balance(1, waiting=1)

    def test_an_open_batch_is_refused(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        with pytest.raises(CloseRefused, match="it is open: seal it first"):
            close(harness)

    def test_a_batch_with_open_documents_is_refused_with_their_number(self, harness: StoreHarness) -> None:
        harness.submit(*"abcd")
        harness.claim(limit=1)
        harness.release(harness.claim_one(), state="paused")
        harness.store.seal("papers", "march", who="cat")
        with pytest.raises(CloseRefused, match="2 waiting, 1 running, 1 paused"):
            close(harness)

    def test_dead_letters_that_nobody_accepted_are_named(self, harness: StoreHarness) -> None:
        sealed(harness, done="a", dead="bcdef")
        with pytest.raises(CloseRefused, match="5 dead letters not accepted: b, c, d and 2 more") as refusal:
            close(harness)
        assert (refusal.value.refusal.not_accepted, refusal.value.refusal.dead) == (5, ("b", "c", "d"))

    def test_a_refused_close_changes_nothing(self, harness: StoreHarness) -> None:
        sealed(harness, done="a", dead="bc")
        before = harness.store.batch_counts("papers"), harness.store.batch_journal("papers", "march")
        closing = harness.store.declare(CLOSING)
        with pytest.raises(CloseRefused):
            close(harness, tolerate=0.5, closing=closing)
        assert (harness.store.batch_counts("papers"), harness.store.batch_journal("papers", "march")) == before
        assert harness.document("b").accepted_by == ""
        assert harness.store.balance("papers.closing") == Balance(0)

    def test_an_unknown_batch_cannot_be_closed(self, harness: StoreHarness) -> None:
        harness.submit("a", batch="april")
        with pytest.raises(UnknownBatch, match="has no batch 'march'; it has: april"):
            close(harness)

    def test_tolerated_dead_letters_are_accepted_by_the_tolerance(self, harness: StoreHarness) -> None:
        sealed(harness, done="abc", dead="d")
        report = close(harness, tolerate=0.25)
        status = harness.document("d")
        assert (status.state, status.accepted_by) == ("dead", "tolerance of 25%")
        line = harness.store.journal(status.id)[-1]
        assert (line.verb, line.who) == ("accept", "cat")
        assert line.detail == {"reason": "tolerance of 25%", "was": "dead", "state": "dead"}
        assert (report.tolerance, report.in_all) == (0.25, Counted(done=3, dead=1, accepted=1))
        assert report.at_step == {"extract": Counted(dead=1, accepted=1)}

    def test_one_dead_letter_more_than_the_tolerance_is_refused(self, harness: StoreHarness) -> None:
        sealed(harness, done="abc", dead="de")
        with pytest.raises(CloseRefused, match="2 dead letters not accepted, more than the 39% that are tolerated"):
            close(harness, tolerate=0.39)
        assert close(harness, tolerate=0.4).in_all.accepted == 2

    def test_cancelled_documents_need_no_acceptance(self, harness: StoreHarness) -> None:
        sealed(harness, done="a", cancelled="bc")
        report = close(harness)
        assert (report.in_all, report.cancelled) == (Counted(done=1, cancelled=2), ("b", "c"))

    def test_a_closed_batch_takes_no_documents_and_is_not_sealed_again(self, harness: StoreHarness) -> None:
        sealed(harness, done="a")
        close(harness)
        with pytest.raises(BatchSealed, match="'march' of 'papers' is closed"):
            harness.submit("b")
        assert not harness.store.seal("papers", "march", who="cat")

    def test_closing_one_batch_leaves_the_others_alone(self, harness: StoreHarness) -> None:
        sealed(harness, done="a")
        harness.submit("a", batch="april")
        close(harness)
        assert [batch.state for batch in harness.store.batches("papers")] == ["closed", "open"]

    def test_an_empty_batch_may_be_closed(self, harness: StoreHarness) -> None:
        harness.store.submit(harness.plan, "march", [], submission=1, part=0)
        harness.store.seal("papers", "march", who="cat")
        assert close(harness).expected == 0

    def test_dead_letters_of_a_closed_batch_stay_though_the_order_of_steps_changes(self, harness: StoreHarness) -> None:
        sealed(harness, dead="a")
        report = close(harness, tolerate=1.0)
        before = harness.document("a")
        harness.store.declare(replace(harness.shape, steps=(harness.shape.steps[1], harness.shape.steps[0])))
        assert harness.document("a") == before
        assert harness.store.report("papers", "march") == report


class ClosingStepsConformance(Conformance):
    """Tests of the document that a close submits for the closing steps."""

    @pytest.fixture
    def closing(self, store: Store) -> Plan:
        """The plan of the closing steps."""
        return store.declare(CLOSING)

    def test_a_close_submits_one_document_for_the_closing_steps(self, harness: StoreHarness, closing: Plan) -> None:
        sealed(harness, done="ab")
        report = close(harness, closing=closing)
        (claim,) = harness.store.claim(closing, harness.worker, limit=10)
        assert (claim.batch, claim.key, claim.payload) == ("march", "march", report.summary())
        assert (claim.payload["done"], claim.payload["report_sha256"]) == (2, report.sha256)

    def test_without_closing_steps_no_document_is_submitted(self, harness: StoreHarness) -> None:
        sealed(harness, done="a")
        close(harness)
        assert harness.store.balance("papers.closing") == Balance(0)

    def test_each_batch_has_its_own_closing_document(self, harness: StoreHarness, closing: Plan) -> None:
        for batch in ("march", "april"):
            sealed(harness, done="a", batch=batch)
            close(harness, batch, closing=closing)
        assert [batch.name for batch in harness.store.batches("papers.closing")] == ["march", "april"]
        assert harness.store.balance("papers.closing") == Balance(2, waiting=2)

    def test_no_other_document_can_be_submitted_to_a_closing_pipeline(
        self, harness: StoreHarness, closing: Plan
    ) -> None:
        sealed(harness, done="a")
        close(harness, closing=closing)
        with pytest.raises(BatchSealed, match="is sealed"):
            harness.store.submit(closing, "march", [NewDocument("another")], submission=9, part=0)


class ReportConformance(Conformance):
    """Tests of report."""

    def test_a_dead_letter_is_reported_with_its_time(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(5 * SECOND)
        harness.make_dead(claim)
        died = harness.clock()
        harness.clock.advance(5 * SECOND)
        (letter,) = harness.store.report("papers", "march").dead_letters
        assert letter.died_at == died

    def test_a_report_has_every_dead_letter_with_its_error(self, harness: StoreHarness) -> None:
        sealed(harness, done="a", dead="b")
        report = close(harness, tolerate=1.0)
        (dead,) = report.dead_letters
        assert (dead.key, dead.step, dead.error, dead.reason) == (
            "b",
            "extract",
            "ValueError",
            "ValueError: not a page",
        )
        assert (dead.attempts, dead.crashes, dead.fingerprint) == (1, 0, "f1")
        assert (dead.accepted_by, dead.died_at) == ("tolerance of 100%", harness.document("b").moved_at)

    def test_a_report_has_versions_times_and_workers(self, harness: StoreHarness) -> None:
        sealed(harness, done="a")
        harness.clock.advance(SECOND)
        report = harness.store.report("papers", "march")
        assert (report.state, report.plan, report.steps) == ("sealed", harness.shape.digest(), harness.shape.steps)
        assert (report.made_at, report.closed_at) == (harness.clock(), None)
        assert (report.created_at, report.sealed_at) == (harness.clock() - SECOND, harness.clock() - SECOND)
        assert report.workers == ("ann",)
        assert report.holdfast

    def test_a_report_counts_failed_items(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        aside = FailedItem(0, 1, Failure("ValueError", "no"))
        harness.finish(harness.advance(claim, asides=[aside]))
        assert harness.store.report("papers", "march").asides == 1

    def test_the_documents_hash_can_be_computed_from_the_documentation(self, harness: StoreHarness) -> None:
        harness.submit("ü", "B", "a", "", fingerprint="f1")
        lines = [f'["{key}","f1",0,"waiting"]\n' for key in ("", "B", "a", "ü")]
        expected = sha256("".join(lines).encode()).hexdigest()
        assert harness.store.report("papers", "march").documents_sha256 == expected

    def test_the_documents_hash_changes_with_any_document(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", fingerprint="f1")
        before = harness.store.report("papers", "march").documents_sha256
        harness.store.cancel([harness.document("a").id], who="cat", reason="no")
        assert harness.store.report("papers", "march").documents_sha256 != before

    def test_a_changed_report_is_detected(self, harness: StoreHarness) -> None:
        sealed(harness, done="a")
        report = close(harness)
        read_again = msgspec.json.decode(msgspec.json.encode(report), type=BatchReport)
        assert read_again == report
        assert read_again.is_whole
        assert not replace(read_again, closed_by="eve").is_whole

    def test_an_unknown_batch_has_no_report(self, harness: StoreHarness) -> None:
        with pytest.raises(UnknownBatch):
            harness.store.report("papers", "march")

    def test_a_report_of_an_open_batch_is_current(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        assert harness.store.report("papers", "march").in_all == Counted(waiting=2)
        harness.finish(harness.claim_one())
        assert harness.store.report("papers", "march").in_all == Counted(waiting=1, done=1)
