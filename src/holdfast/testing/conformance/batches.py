"""Batches balance, are sealed and closed, and leave a report."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core.batches import BatchReport, Counted, Reconciliation
from holdfast.core.errors import BatchSealed, CloseRefused, UnknownBatch
from holdfast.core.model import Aside, Balance, Failure, NewDocument, Plan
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, Desk
from holdfast.testing.conformance.ledger import one_of_each

CLOSING = Shape("papers.closing", (StepShape("tell", "value"),))


def close(desk: Desk, batch: str = "march", **more: Any) -> BatchReport:
    """Closes a batch."""
    return desk.store.close_batch(desk.plan, batch, **{"who": "cat", "reason": "all in", **more}).report


def sealed(desk: Desk, *, done: str = "", dead: str = "", cancelled: str = "", batch: str = "march") -> None:
    """Leaves a sealed batch of documents that have ended, each named by one letter."""
    desk.submit(*done, *dead, *cancelled, batch=batch, fingerprint="f1")
    for claim in desk.claim(batch=batch):
        if claim.key in done:
            desk.finish(claim)
        elif claim.key in dead:
            desk.bury(claim)
        else:
            desk.store.cancel([claim.document_id], who="ann", reason="no")
    desk.store.seal("papers", batch, who="cat")


class CensusConformance(Conformance):
    """What a census counts."""

    def test_a_census_counts_every_state_in_all_and_by_step(self, desk: Desk) -> None:
        one_of_each(desk)
        (found,) = desk.store.census("papers")
        assert isinstance(found, Reconciliation)
        assert found.balances
        assert (found.expected, found.found, found.open) == (6, 6, 3)
        assert found.steps == {"extract": Counted(dead=1, cancelled=1, paused=1, running=1, waiting=1)}
        assert (found.done, found.dead, found.accepted, found.running, found.orphaned) == (1, 1, 0, 1, 0)

    def test_a_census_says_the_same_as_the_balance(self, desk: Desk) -> None:
        one_of_each(desk)
        desk.submit("x", batch="april")
        for found in desk.store.census("papers"):
            counts = {word: getattr(found, word) for word in Balance.__struct_fields__}
            assert Balance(**counts) == desk.balance(found.batch)

    def test_a_census_is_of_one_batch_or_of_each_oldest_first(self, desk: Desk, gated: Desk) -> None:
        desk.submit("a", batch="march")
        desk.submit("a", "b", batch="april")
        gated.submit("a", batch="may")
        assert [(one.batch, one.expected) for one in desk.store.census("papers")] == [("march", 1), ("april", 2)]
        assert [(one.batch, one.expected) for one in desk.store.census("papers", "april")] == [("april", 2)]
        assert desk.store.census("papers", "may") == desk.store.census("nowhere") == []

    def test_an_empty_batch_balances(self, desk: Desk) -> None:
        desk.store.submit(desk.plan, "march", [], submission=1, part=0)
        (found,) = desk.store.census("papers")
        assert (found.expected, found.balances, found.moved_at, found.steps) == (0, True, None, {})

    def test_what_a_silent_worker_holds_is_orphaned(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.advance(desk.claim_one())
        desk.claim_one(worker=desk.enlist("bob", lease=LEASE * 3))
        desk.clock.advance(LEASE * 2)
        (found,) = desk.store.census("papers", "march")
        assert (found.running, found.orphaned) == (2, 1)
        assert (found.steps["chunk"].orphaned, found.steps["extract"].orphaned) == (1, 0)

    def test_what_a_worker_that_was_given_up_holds_is_orphaned(self, desk: Desk, gated: Desk) -> None:
        gated.submit("a")
        gated.claim(worker=desk.worker)
        desk.reclaim(gone=[desk.worker.id])
        assert [one.orphaned for one in desk.store.census("reviews")] == [1]

    def test_an_overdue_document_is_orphaned_though_its_worker_lives(self, desk: Desk) -> None:
        desk.submit("a")
        desk.claim(timeouts={"extract": SECOND})
        desk.clock.advance(SECOND * 2)
        assert [one.orphaned for one in desk.store.census("papers")] == [1]

    def test_a_census_knows_when_something_moved_last(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.clock.advance(SECOND)
        desk.advance(desk.claim_one())
        at = desk.clock()
        desk.clock.advance(SECOND)
        (found,) = desk.store.census("papers")
        assert found.moved_at == at

    def test_its_mark_stays_while_nothing_is_begun(self, desk: Desk) -> None:
        sealed(desk, done="a", dead="b")
        before = desk.store.census("papers")
        assert desk.store.census("papers") == before
        desk.store.redrive([desk.standing("b").id], who="cat", reason="again")
        desk.bury(desk.claim_one())
        assert desk.store.census("papers")[0].mark > before[0].mark

    def test_nothing_is_missing_from_a_batch_that_balances(self, desk: Desk) -> None:
        desk.submit("a", "b")
        desk.submit("b", "c")
        desk.submit("a", fingerprint="f2")
        desk.store.submit(desk.plan, "march", [NewDocument("d")], submission=70, part=0)
        desk.store.submit(desk.plan, "march", [NewDocument("d")], submission=70, part=0)
        assert desk.store.missing("papers", "march") == []

    def test_what_is_missing_from_an_unknown_batch_cannot_be_said(self, desk: Desk) -> None:
        with pytest.raises(UnknownBatch):
            desk.store.missing("papers", "march")


class SealConformance(Conformance):
    """What sealing leaves behind."""

    def test_a_seal_is_journalled_with_who_and_why(self, desk: Desk) -> None:
        desk.submit("a")
        desk.clock.advance(SECOND)
        assert desk.store.seal("papers", "march", who="cat", reason="the box is empty")
        (line,) = desk.store.batch_journal("papers", "march")
        assert (line.at, line.verb, line.who) == (desk.clock(), "seal", "cat")
        assert line.detail == {"reason": "the box is empty", "was": "open", "state": "sealed"}
        assert desk.store.census("papers")[0].sealed_at == desk.clock()

    def test_sealing_again_changes_and_says_nothing(self, desk: Desk) -> None:
        desk.submit("a")
        desk.store.seal("papers", "march", who="cat")
        before = desk.store.census("papers")
        desk.clock.advance(SECOND)
        assert not desk.store.seal("papers", "march", who="dan")
        assert desk.store.census("papers") == before
        assert len(desk.store.batch_journal("papers", "march")) == 1

    def test_a_batchs_journal_is_its_own(self, desk: Desk) -> None:
        desk.submit("a", batch="march")
        desk.submit("a", batch="april")
        desk.bury(desk.claim_one())
        desk.store.seal("papers", "april", who="cat")
        assert desk.store.batch_journal("papers", "march") == desk.store.batch_journal("papers", "may") == []


class CloseConformance(Conformance):
    """What closing needs, and what it leaves behind."""

    def test_a_batch_whose_documents_are_all_done_is_closed(self, desk: Desk) -> None:
        sealed(desk, done="ab")
        desk.clock.advance(SECOND)
        report = close(desk)
        (found,) = desk.store.census("papers", "march")
        assert (found.state, found.closed_at, found.balances) == ("closed", desk.clock(), True)
        assert (report.state, report.closed_at, report.closed_by, report.reason) == (
            "closed",
            desk.clock(),
            "cat",
            "all in",
        )
        assert (report.expected, report.balances, report.in_all) == (2, True, Counted(done=2))

    def test_a_close_is_journalled_with_who_and_why(self, desk: Desk) -> None:
        sealed(desk, done="a")
        report = close(desk)
        line = desk.store.batch_journal("papers", "march")[-1]
        assert (line.verb, line.who) == ("close", "cat")
        assert line.detail == {"reason": "all in", "was": "sealed", "state": "closed", "sha256": report.sha256}

    def test_closing_a_closed_batch_answers_the_report_it_left(self, desk: Desk, other: Store) -> None:
        sealed(desk, done="a")
        closing = desk.store.declare(CLOSING)
        first = desk.store.close_batch(desk.plan, "march", who="cat", reason="all in", closing=closing)
        desk.clock.advance(SECOND)
        again = other.close_batch(desk.plan, "march", who="dan", reason="me too", closing=closing)
        assert (first.is_new, again.is_new) == (True, False)
        assert again.report == first.report == other.report("papers", "march")
        assert [line.verb for line in desk.store.batch_journal("papers", "march")] == ["seal", "close"]
        assert desk.store.balance("papers.closing") == Balance(1, waiting=1)

    def test_an_open_batch_is_refused(self, desk: Desk) -> None:
        desk.finish(desk.take_in())
        with pytest.raises(CloseRefused, match="it is open: seal it first"):
            close(desk)

    def test_a_batch_with_open_documents_is_refused_and_says_how_many(self, desk: Desk) -> None:
        desk.submit(*"abcd")
        desk.claim(limit=1)
        desk.give_back(desk.claim_one(), state="paused")
        desk.store.seal("papers", "march", who="cat")
        with pytest.raises(CloseRefused, match="2 waiting, 1 running, 1 paused"):
            close(desk)

    def test_dead_letters_that_nobody_accepted_are_named(self, desk: Desk) -> None:
        sealed(desk, done="a", dead="bcdef")
        with pytest.raises(CloseRefused, match="5 dead letters not accepted: b, c, d and 2 more") as refusal:
            close(desk)
        assert (refusal.value.refusal.not_accepted, refusal.value.refusal.dead) == (5, ("b", "c", "d"))

    def test_a_refused_close_changes_nothing(self, desk: Desk) -> None:
        sealed(desk, done="a", dead="bc")
        before = desk.store.census("papers"), desk.store.batch_journal("papers", "march")
        closing = desk.store.declare(CLOSING)
        with pytest.raises(CloseRefused):
            close(desk, tolerate=0.5, closing=closing)
        assert (desk.store.census("papers"), desk.store.batch_journal("papers", "march")) == before
        assert desk.standing("b").accepted_by == ""
        assert desk.store.balance("papers.closing") == Balance(0)

    def test_a_batch_that_is_not_there_cannot_be_closed(self, desk: Desk) -> None:
        desk.submit("a", batch="april")
        with pytest.raises(UnknownBatch, match="has no batch 'march'; it has: april"):
            close(desk)

    def test_what_is_tolerated_is_accepted_by_the_tolerance(self, desk: Desk) -> None:
        sealed(desk, done="abc", dead="d")
        report = close(desk, tolerate=0.25)
        here = desk.standing("d")
        assert (here.state, here.accepted_by) == ("dead", "tolerance of 25%")
        line = desk.store.journal(here.id)[-1]
        assert (line.verb, line.who) == ("accept", "cat")
        assert line.detail == {"reason": "tolerance of 25%", "was": "dead", "state": "dead"}
        assert (report.tolerance, report.in_all) == (0.25, Counted(done=3, dead=1, accepted=1))
        assert report.at_step == {"extract": Counted(dead=1, accepted=1)}

    def test_one_dead_letter_more_than_is_tolerated_is_too_many(self, desk: Desk) -> None:
        sealed(desk, done="abc", dead="de")
        with pytest.raises(CloseRefused, match="2 dead letters not accepted, more than the 39% that are tolerated"):
            close(desk, tolerate=0.39)
        assert close(desk, tolerate=0.4).in_all.accepted == 2

    def test_what_was_cancelled_needs_nobodys_acceptance(self, desk: Desk) -> None:
        sealed(desk, done="a", cancelled="bc")
        report = close(desk)
        assert (report.in_all, report.cancelled) == (Counted(done=1, cancelled=2), ("b", "c"))

    def test_a_closed_batch_takes_no_documents_and_is_not_sealed_again(self, desk: Desk) -> None:
        sealed(desk, done="a")
        close(desk)
        with pytest.raises(BatchSealed, match="'march' of 'papers' is closed"):
            desk.submit("b")
        assert not desk.store.seal("papers", "march", who="cat")

    def test_closing_one_batch_leaves_the_others_alone(self, desk: Desk) -> None:
        sealed(desk, done="a")
        desk.submit("a", batch="april")
        close(desk)
        assert [batch.state for batch in desk.store.batches("papers")] == ["closed", "open"]

    def test_an_empty_batch_may_be_closed(self, desk: Desk) -> None:
        desk.store.submit(desk.plan, "march", [], submission=1, part=0)
        desk.store.seal("papers", "march", who="cat")
        assert close(desk).expected == 0

    def test_dead_letters_of_a_closed_batch_stay_though_the_order_of_steps_changes(self, desk: Desk) -> None:
        sealed(desk, dead="a")
        report = close(desk, tolerate=1.0)
        before = desk.standing("a")
        desk.store.declare(replace(desk.shape, steps=(desk.shape.steps[1], desk.shape.steps[0])))
        assert desk.standing("a") == before
        assert desk.store.report("papers", "march") == report


class ClosingConformance(Conformance):
    """What a close begins: the one document of the closing steps."""

    @pytest.fixture
    def closing(self, store: Store) -> Plan:
        """The plan of the closing steps."""
        return store.declare(CLOSING)

    def test_a_close_begins_one_document_for_the_closing_steps(self, desk: Desk, closing: Plan) -> None:
        sealed(desk, done="ab")
        report = close(desk, closing=closing)
        (claim,) = desk.store.claim(closing, desk.worker, limit=10)
        assert (claim.batch, claim.key, claim.payload) == ("march", "march", report.summary())
        assert (claim.payload["done"], claim.payload["report_sha256"]) == (2, report.sha256)

    def test_without_closing_steps_nothing_is_begun(self, desk: Desk) -> None:
        sealed(desk, done="a")
        close(desk)
        assert desk.store.balance("papers.closing") == Balance(0)

    def test_each_batch_has_its_own_closing(self, desk: Desk, closing: Plan) -> None:
        for batch in ("march", "april"):
            sealed(desk, done="a", batch=batch)
            close(desk, batch, closing=closing)
        assert [batch.name for batch in desk.store.batches("papers.closing")] == ["march", "april"]
        assert desk.store.balance("papers.closing") == Balance(2, waiting=2)

    def test_nobody_else_can_submit_to_a_closing(self, desk: Desk, closing: Plan) -> None:
        sealed(desk, done="a")
        close(desk, closing=closing)
        with pytest.raises(BatchSealed, match="is sealed"):
            desk.store.submit(closing, "march", [NewDocument("another")], submission=9, part=0)


class ReportConformance(Conformance):
    """What is filed about a batch."""

    def test_a_dead_letter_is_reported_with_when_it_died(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(5 * SECOND)
        desk.bury(claim)
        died = desk.clock()
        desk.clock.advance(5 * SECOND)
        (letter,) = desk.store.report("papers", "march").dead_letters
        assert letter.died_at == died

    def test_a_report_says_what_became_of_every_dead_letter(self, desk: Desk) -> None:
        sealed(desk, done="a", dead="b")
        report = close(desk, tolerate=1.0)
        (dead,) = report.dead_letters
        assert (dead.key, dead.step, dead.error, dead.reason) == (
            "b",
            "extract",
            "ValueError",
            "ValueError: not a page",
        )
        assert (dead.attempts, dead.crashes, dead.fingerprint) == (1, 0, "f1")
        assert (dead.accepted_by, dead.died_at) == ("tolerance of 100%", desk.standing("b").moved_at)

    def test_a_report_has_versions_times_and_workers(self, desk: Desk) -> None:
        sealed(desk, done="a")
        desk.clock.advance(SECOND)
        report = desk.store.report("papers", "march")
        assert (report.state, report.plan, report.steps) == ("sealed", desk.shape.digest(), desk.shape.steps)
        assert (report.made_at, report.closed_at) == (desk.clock(), None)
        assert (report.created_at, report.sealed_at) == (desk.clock() - SECOND, desk.clock() - SECOND)
        assert report.workers == ("ann",)
        assert report.holdfast

    def test_a_report_counts_what_was_set_aside(self, desk: Desk) -> None:
        claim = desk.take_in()
        aside = Aside(0, 1, Failure("ValueError", "no"))
        desk.finish(desk.advance(claim, asides=[aside]))
        assert desk.store.report("papers", "march").asides == 1

    def test_the_documents_hash_can_be_made_by_anybody(self, desk: Desk) -> None:
        desk.submit("ü", "B", "a", "", fingerprint="f1")
        lines = [f'["{key}","f1",0,"waiting"]\n' for key in ("", "B", "a", "ü")]
        expected = sha256("".join(lines).encode()).hexdigest()
        assert desk.store.report("papers", "march").documents_sha256 == expected

    def test_the_documents_hash_changes_with_any_document(self, desk: Desk) -> None:
        desk.submit("a", "b", fingerprint="f1")
        before = desk.store.report("papers", "march").documents_sha256
        desk.store.cancel([desk.standing("a").id], who="cat", reason="no")
        assert desk.store.report("papers", "march").documents_sha256 != before

    def test_a_report_that_was_altered_shows_it(self, desk: Desk) -> None:
        sealed(desk, done="a")
        report = close(desk)
        read_again = msgspec.json.decode(msgspec.json.encode(report), type=BatchReport)
        assert read_again == report
        assert read_again.is_whole
        assert not replace(read_again, closed_by="eve").is_whole

    def test_a_batch_that_is_not_there_has_no_report(self, desk: Desk) -> None:
        with pytest.raises(UnknownBatch):
            desk.store.report("papers", "march")

    def test_a_report_of_an_open_batch_is_of_this_moment(self, desk: Desk) -> None:
        desk.submit("a", "b")
        assert desk.store.report("papers", "march").in_all == Counted(waiting=2)
        desk.finish(desk.claim_one())
        assert desk.store.report("papers", "march").in_all == Counted(waiting=1, done=1)
