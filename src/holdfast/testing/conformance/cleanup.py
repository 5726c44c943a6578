"""What nobody needs any more of a closed batch is deleted in slices, and still counted."""

from __future__ import annotations

import itertools
import threading
from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.batches import NOTHING_YET, Cleaned
from holdfast.core.errors import BatchSealed, UnknownDocument
from holdfast.core.model import Aside, Balance, Failure, Item, NewDocument
from holdfast.core.moves import LOST
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, Desk, waits
from holdfast.testing.conformance.batches import CLOSING, close, sealed
from holdfast.testing.conformance.races import at_once_in_threads

DAY = timedelta(days=1)
MONTH = 30 * DAY


def clean_closed(desk: Desk, batch: str = "march", *, limit: int = 100) -> Cleaned:
    """Cleans a closed batch up, slice after slice."""
    cleaned = NOTHING_YET
    while cleaned.goes_on_at is not None:
        cleaned = desk.store.cleanup_closed("papers", batch, who="cat", limit=limit, so_far=cleaned)
    return cleaned


def clean_finished(desk: Desk, *, older: timedelta = MONTH, with_errors: bool = False, limit: int = 100) -> Cleaned:
    """Cleans finished documents up, slice after slice."""
    cleaned, how = NOTHING_YET, {"older": older, "with_errors": with_errors}
    while cleaned.goes_on_at is not None:
        cleaned = desk.store.cleanup_finished("papers", "march", who="cat", limit=limit, so_far=cleaned, **how)  # type: ignore[arg-type]
    return cleaned


class CleanupConformance(Conformance):
    """What becomes of a closed batch."""

    def test_a_closed_batch_loses_its_documents_and_still_balances(self, desk: Desk) -> None:
        sealed(desk, done="ab", dead="c", cancelled="d")
        close(desk, tolerate=1.0)
        cleaned = clean_closed(desk)
        assert cleaned.documents == 4
        assert desk.store.standings("papers") == []
        assert desk.balance("march") == Balance(4, done=2, dead=1, cancelled=1)
        (found,) = desk.store.census("papers")
        assert (found.balances, found.gone, found.accepted) == (True, 4, 1)

    def test_the_balance_holds_after_every_slice(self, desk: Desk) -> None:
        sealed(desk, done="abcde", dead="f")
        close(desk, tolerate=1.0)
        cleaned, slices = NOTHING_YET, 0
        while cleaned.goes_on_at is not None:
            cleaned = desk.store.cleanup_closed("papers", "march", who="cat", limit=2, so_far=cleaned)
            slices += 1
            assert desk.balance("march") == Balance(6, done=5, dead=1)
            assert desk.store.missing("papers", "march") == []
        assert slices > 3

    def test_report_and_journal_of_the_batch_stay(self, desk: Desk) -> None:
        sealed(desk, done="a")
        report = close(desk)
        clean_closed(desk)
        assert desk.store.report("papers", "march") == report
        assert close(desk) == report
        assert [line.verb for line in desk.store.batch_journal("papers", "march")] == ["seal", "close", "cleanup"]

    def test_a_cleanup_is_one_line_with_who_and_counts_however_many_slices(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in("a"), '"page"', '"page"')
        desk.finish(desk.advance(claim, asides=[Aside(0, 1, Failure("ValueError", "no"))]))
        sealed(desk, done="bc", dead="d")
        close(desk, tolerate=1.0)
        cleaned = clean_closed(desk, limit=1)
        line = desk.store.batch_journal("papers", "march")[-1]
        assert (line.verb, line.who) == ("cleanup", "cat")
        assert line.detail == cleaned.counts() == {"documents": 4, "items": 2, "asides": 1, "lines": 2}

    def test_a_cleanup_that_was_broken_off_goes_on_when_called_again(self, desk: Desk) -> None:
        sealed(desk, done="abcd")
        close(desk)
        for _ in range(3):
            desk.store.cleanup_closed("papers", "march", who="cat", limit=1)
        assert 0 < len(desk.store.standings("papers")) < 4
        clean_closed(desk)
        assert desk.balance("march") == Balance(4, done=4)
        clean_closed(desk)
        assert desk.balance("march") == Balance(4, done=4)

    def test_items_asides_and_journals_go_with_their_documents(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), '"page"')
        desk.finish(desk.advance(claim, asides=[Aside(0, 1, Failure("ValueError", "no"))]))
        sealed(desk, dead="b")
        (a, b) = desk.standing("a").id, desk.standing("b").id
        close(desk, tolerate=1.0)
        clean_closed(desk)
        for document_id in (a, b):
            assert not any([[*desk.store.items(document_id)], desk.store.asides(document_id)])
            assert not any([desk.store.outputs(document_id), desk.store.journal(document_id)])
        with pytest.raises(UnknownDocument):
            desk.standing("a")

    def test_a_batch_that_is_not_closed_is_left_alone(self, desk: Desk) -> None:
        sealed(desk, done="a")
        assert clean_closed(desk) == clean_closed(desk, "never") == Cleaned(goes_on_at=None)
        assert desk.standing("a").state == "done"

    def test_a_batch_whose_closing_steps_are_not_done_is_left_alone(self, desk: Desk) -> None:
        closing = desk.store.declare(CLOSING)
        sealed(desk, done="a")
        close(desk, closing=closing)
        assert clean_closed(desk).documents == 0
        (claim,) = desk.store.claim(closing, desk.worker, limit=1)
        assert clean_closed(desk).documents == 0
        Desk(desk.store, desk.clock, CLOSING).finish(claim)
        assert clean_closed(desk).documents == 1

    def test_what_a_cleanup_would_delete_is_counted_the_same(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in("a"), '"page"', '"page"')
        desk.finish(desk.advance(claim, asides=[Aside(0, 1, Failure("ValueError", "no"))]))
        sealed(desk, done="b", dead="c")
        assert desk.store.count_closed("papers", "march").documents == 0
        close(desk, tolerate=1.0)
        counted = desk.store.count_closed("papers", "march")
        assert counted.counts() == clean_closed(desk).counts() == {"documents": 3, "items": 2, "asides": 1, "lines": 2}
        assert desk.store.count_closed("papers", "march").documents == 0

    def test_a_late_commit_to_a_document_that_is_gone_writes_nothing(self, desk: Desk) -> None:
        late = desk.take_in("a")
        desk.reclaim(gone=[desk.worker.id])
        desk.finish(desk.claim_one(worker=desk.enlist("bob")))
        desk.store.seal("papers", "march", who="cat")
        close(desk)
        clean_closed(desk)
        moves = [desk.forward(late, items=[Item("extract", 0, "1")])]
        assert desk.commit(*moves) == [LOST]
        assert not desk.give_back(late)
        assert not desk.store.rewind(desk.plan, late, to="extract", who="ann", reason="late")
        assert not any([desk.items(late), desk.verbs(late)])
        assert desk.store.extent(late.document_id, 0, desk.plan.step_ids["extract"]) == 0

    def test_a_number_is_never_given_twice(self, desk: Desk) -> None:
        late = desk.take_in("a")
        desk.reclaim(gone=[desk.worker.id])
        desk.finish(desk.claim_one(worker=desk.enlist("bob")))
        desk.store.seal("papers", "march", who="cat")
        close(desk)
        clean_closed(desk)
        desk.submit("a", batch="april")
        claim = desk.claim_one(worker=desk.enlist("cat"))
        assert claim.document_id > late.document_id
        assert desk.commit(desk.forward(late)) == [LOST]

    def test_a_late_permit_for_a_document_that_is_gone_is_dropped(self, desk: Desk) -> None:
        late = desk.take_in("a")
        desk.store.cancel([late.document_id], who="cat", reason="no")
        desk.store.seal("papers", "march", who="cat")
        close(desk)
        clean_closed(desk)
        desk.store.admit(desk.plan, "extract", [late], limit=1)
        desk.submit("b", batch="april")
        assert desk.store.admit(desk.plan, "extract", [desk.claim_one()], limit=1) == [True]

    def test_a_late_submit_to_a_batch_that_was_cleaned_up_is_refused(self, desk: Desk) -> None:
        sealed(desk, done="a")
        close(desk)
        clean_closed(desk)
        with pytest.raises(BatchSealed, match="is closed"):
            desk.submit("a")
        assert desk.balance("march") == Balance(1, done=1)


class CleanupRaceConformance(Conformance):
    """What holds when a cleanup and somebody else come to the same documents at once."""

    def test_two_cleanups_count_every_document_once(self, desk: Desk, other: Store) -> None:
        stores = [desk.store, other]
        with at_once_in_threads(2) as at_once:
            for turn in range(5):
                batch = f"batch-{turn}"
                sealed(desk, done="abcdefgh", batch=batch)
                close(desk, batch)

                def clean(number: int, batch: str = batch) -> int:
                    cleaned = NOTHING_YET
                    while cleaned.goes_on_at is not None:
                        asked: dict[str, Any] = {"who": "cat", "limit": 2, "so_far": cleaned}
                        cleaned = stores[number].cleanup_closed("papers", batch, **asked)
                    return cleaned.documents

                assert sum(at_once(clean)) == 8
                assert desk.balance(batch) == Balance(8, done=8)

    def test_of_two_closes_one_wins_and_the_other_finds_its_report(self, desk: Desk, other: Store) -> None:
        stores, closing = [desk.store, other], desk.store.declare(CLOSING)
        with at_once_in_threads(2) as at_once:
            for turn in range(10):
                batch = f"batch-{turn}"
                sealed(desk, done="ab", dead="c", batch=batch)
                how: dict[str, Any] = {"reason": "", "tolerate": 0.5, "closing": closing}
                closed = at_once(
                    lambda n: stores[n].close_batch(desk.plan, batch, who=f"w{n}", **how)  # noqa: B023
                )
                assert sorted(one.is_new for one in closed) == [False, True]
                assert closed[0].report == closed[1].report
                assert [line.verb for line in desk.store.batch_journal("papers", batch)] == ["seal", "close"]
                assert desk.store.balance("papers.closing", batch).expected == 1

    def test_of_close_and_submit_one_comes_first(self, desk: Desk, other: Store) -> None:
        def either(number: int, batch: str) -> str:
            try:
                if number:
                    other.submit(desk.plan, batch, [NewDocument("late")], submission=900, part=0)
                else:
                    desk.store.seal("papers", batch, who="cat")
                    close(desk, batch)
            except BatchSealed:
                return "refused"
            except Exception as error:  # noqa: BLE001
                return type(error).__name__
            return "fine"

        with at_once_in_threads(2) as at_once:
            for turn in range(10):
                batch = f"batch-{turn}"
                desk.finish(desk.take_in("a", batch=batch))
                outcome = at_once(lambda n: either(n, batch))  # noqa: B023
                assert outcome in (["fine", "refused"], ["CloseRefused", "fine"])
                (found,) = desk.store.census("papers", batch)
                assert found.balances
                assert (found.state == "closed") == (found.open == 0)
                for claim in desk.claim(batch=batch):
                    desk.finish(claim)

    def test_of_change_and_cleanup_the_changed_document_keeps_what_it_makes_now(self, desk: Desk, other: Store) -> None:
        def either(number: int, turn: int) -> None:
            if number:
                clean_finished(Desk(other, desk.clock), older=-SECOND)
            else:
                desk.submit("a", fingerprint=f"f{turn}")

        with at_once_in_threads(2) as at_once:
            for turn in itertools.islice(itertools.count(1), 10):
                at_once(lambda n: either(n, turn))  # noqa: B023
                assert desk.standing().cleaned_at is None
                claim = desk.claim_one()
                desk.finish(desk.advance(claim, items=[Item("extract", 0, str(turn))]))
                assert desk.items(claim) == [("extract", 0, str(turn))]

    def test_the_balance_holds_at_every_moment_of_work_crashes_and_cleanup(self, desk: Desk, other: Store) -> None:
        sealed(desk, done="abcdefghijklmnop", dead="qrst", batch="old")
        close(desk, "old", tolerate=1.0)
        desk.submit(*(f"doc-{number}" for number in range(30)))
        finished = threading.Event()

        def work() -> bool:
            for turn in range(100):
                worker = desk.enlist(f"w{turn}")
                claims = desk.claim(limit=3, worker=worker)
                if not claims:
                    return True
                if turn % 3 == 0:
                    desk.store.reclaim(desk.plan, who="bob", verdict=waits, gone=[worker.id])
                    continue
                for claim in claims:
                    desk.finish(claim)
            return False

        def watch() -> bool:
            balanced = True
            while not finished.is_set():
                old, march = other.census("papers")
                balanced = balanced and (old.balances, old.expected, old.done) == (True, 20, 16)
                balanced = balanced and (march.balances, march.expected) == (True, 30)
                balanced = balanced and other.balance("papers").balances
            return balanced

        def either(number: int) -> bool:
            if number == 0:
                return watch()
            try:
                if number == 1:
                    return bool(clean_closed(desk, "old", limit=1).documents == 20)
                return work()
            finally:
                if number == 2:
                    finished.set()

        with at_once_in_threads(3) as at_once:
            assert at_once(either) == [True, True, True]
