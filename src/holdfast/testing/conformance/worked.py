"""Which worker had a document last, and what each brought to an end."""

from __future__ import annotations

from datetime import timedelta

from holdfast.core.model import NewDocument
from holdfast.core.moves import LOST
from holdfast.testing.conformance.base import LEASE, SECOND, Conformance, Desk, dies

HOUR = timedelta(hours=1)


def _ended(desk: Desk, *, since: timedelta = HOUR) -> list[tuple[str, bool, int, int]]:
    """What workers ended: their names, whether they are gone, done and dead."""
    found = desk.store.by_worker(since=desk.clock() - since)
    return [(one.worker.name, one.gone, one.done, one.dead) for one in found]


class WorkedConformance(Conformance):
    """What a store tells of who did what."""

    def test_nobody_had_a_document_before_the_first_claim_ended(self, desk: Desk) -> None:
        desk.submit("a")
        assert desk.standing().worked_by is None
        claim = desk.claim_one()
        assert (desk.standing().holder, desk.standing().worked_by) == ("ann", None)
        desk.advance(claim)
        assert desk.standing().worked_by is None
        assert _ended(desk) == []

    def test_a_document_is_done_by_the_worker_that_finished_it(self, desk: Desk) -> None:
        desk.finish(desk.take_in())
        here = desk.standing()
        assert (here.state, here.holder, here.worked_by) == ("done", "", "ann")
        assert desk.store.look([here.id]) == desk.store.find("a") == desk.store.standings("papers") == [here]

    def test_a_document_is_not_done_by_a_worker_that_lost_it(self, desk: Desk) -> None:
        claim, bob = desk.advance(desk.take_in()), desk.enlist("bob")
        desk.clock.advance(LEASE + SECOND)
        desk.store.beat(bob)
        desk.reclaim()
        assert desk.standing().worked_by == "ann"
        taken = desk.claim_one(worker=bob)
        assert desk.commit(desk.forward(claim, state="done")) == [LOST]
        desk.finish(taken)
        assert desk.commit(desk.forward(claim, state="done")) == [LOST]
        assert desk.standing().worked_by == "bob"
        assert _ended(desk) == [("bob", False, 1, 0)]

    def test_a_dead_letter_is_of_the_worker_that_failed_it(self, desk: Desk) -> None:
        desk.give_back(desk.take_in())
        bob = desk.enlist("bob")
        desk.bury(desk.claim_one(worker=bob))
        assert desk.standing().worked_by == "bob"
        assert _ended(desk) == [("bob", False, 0, 1)]

    def test_an_orphan_that_dies_is_of_the_worker_that_is_gone(self, desk: Desk) -> None:
        desk.take_in()
        desk.clock.advance(LEASE + SECOND)
        (dead,) = desk.reclaim(verdict=dies)
        assert (dead.state, dead.worked_by) == ("dead", "ann")
        assert _ended(desk) == [("ann", True, 0, 1)]

    def test_a_document_past_the_last_gate_is_done_by_the_worker_that_brought_it_there(self, gated: Desk) -> None:
        claim = gated.take_in()
        gated.park(claim, at="review")
        assert gated.standing().worked_by == "ann"
        ids = [claim.document_id]
        assert gated.store.resume(gated.plan, ids, who="cat", reason="fine") == ids
        gated.park(gated.claim_one(worker=gated.enlist("bob")), at="sign")
        assert gated.store.resume(gated.plan, ids, who="cat", reason="fine") == ids
        here = gated.standing()
        assert (here.state, here.worked_by) == ("done", "bob")

    def test_what_people_take_from_a_worker_it_had_last(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        desk.store.cancel([first.document_id], who="cat", reason="no")
        desk.store.pause([second.document_id], who="cat", reason="later")
        desk.store.reject([second.document_id], who="cat", reason="never")
        assert (desk.standing("a").worked_by, desk.standing("b").worked_by) == ("ann", "ann")
        assert _ended(desk) == [], "a person brought them to an end"

    def test_a_document_that_is_renamed_while_it_runs_was_had_last_by_the_worker_that_lost_it(self, desk: Desk) -> None:
        desk.take_in()
        desk.store.rename("papers", "march", {"a": NewDocument("b", None)}, who="cat", reason="moved")
        assert (desk.standing("b").holder, desk.standing("b").worked_by) == ("", "ann")

    def test_what_a_worker_lets_go_it_had_last(self, desk: Desk) -> None:
        desk.take_in()
        assert desk.store.surrender(desk.worker, keeping=()) == 1
        assert (desk.standing().state, desk.standing().worked_by) == ("waiting", "ann")

    def test_changed_content_begins_anew_with_nobody(self, desk: Desk) -> None:
        desk.finish(desk.take_in())
        desk.submit("a", fingerprint="changed")
        assert desk.standing().worked_by is None
        assert _ended(desk) == []

    def test_a_rewound_document_is_nobodys_until_it_ends_again(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.finish(claim)
        ids = [claim.document_id]
        assert desk.store.rewind_to(desk.plan, ids, to="chunk", who="cat", reason="again") == ids
        assert desk.standing().worked_by is None
        bob = desk.enlist("bob")
        desk.finish(desk.claim_one(worker=bob))
        assert desk.standing().worked_by == "bob"

    def test_a_document_that_its_worker_rewinds_is_nobodys_until_it_ends_again(self, desk: Desk) -> None:
        desk.give_back(desk.advance(desk.take_in()))
        assert desk.standing().worked_by == "ann"
        claim = desk.claim_one()
        assert desk.store.rewind(desk.plan, claim, to="extract", who="ann", reason="gone")
        assert desk.standing().worked_by is None

    def test_a_redriven_document_is_of_the_worker_that_ends_it(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.bury(claim)
        desk.store.redrive([claim.document_id], who="cat", reason="again")
        desk.finish(desk.claim_one(worker=desk.enlist("bob")))
        assert desk.standing().worked_by == "bob"
        assert _ended(desk) == [("bob", False, 1, 0)]

    def test_workers_that_are_gone_are_counted_since_a_moment(self, desk: Desk) -> None:
        desk.finish(desk.take_in())
        desk.store.retire(desk.worker)
        desk.clock.advance(HOUR)
        assert _ended(desk) == [("ann", True, 1, 0)]
        assert _ended(desk, since=HOUR - SECOND) == []

    def test_documents_of_all_pipelines_are_counted(self, desk: Desk, gated: Desk) -> None:
        desk.finish(desk.take_in())
        gated.submit("b")
        gated.bury(gated.claim_one(worker=desk.worker))
        assert _ended(desk) == [("ann", False, 1, 1)]

    def test_a_worker_that_was_cleaned_up_is_told_no_more(self, desk: Desk) -> None:
        desk.finish(desk.take_in())
        desk.store.retire(desk.worker)
        desk.clock.advance(HOUR)
        assert desk.store.cleanup_workers(older=SECOND) == 1
        assert (desk.standing().state, desk.standing().worked_by) == ("done", None)
        assert _ended(desk, since=HOUR * 2) == []
