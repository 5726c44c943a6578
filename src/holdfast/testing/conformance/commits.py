"""Checkpoints move through one door: the guard, the fence, and groups."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.model import Checkpoint, Item
from holdfast.core.moves import ACCEPTED, LOST, Refused
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, Desk, after


class CommitConformance(Conformance):
    """What commit promises for checkpoints."""

    def test_a_move_takes_a_document_to_the_next_step(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.clock.advance(SECOND)
        assert desk.commit(desk.forward(claim)) == [ACCEPTED]
        here = desk.standing()
        assert (here.state, here.holder, here.moved_at) == ("running", "ann", desk.clock())
        assert here.checkpoint == Checkpoint(0, "chunk", None, 1)

    def test_a_move_may_go_further_inside_a_step(self, desk: Desk) -> None:
        desk.commit(desk.within(desk.take_in(), 12))
        assert desk.standing().checkpoint == Checkpoint(0, "extract", 12, 1)

    def test_a_worker_moves_a_document_again_and_again(self, desk: Desk) -> None:
        claim = desk.take_in()
        for cursor in range(1, 6):
            move = desk.within(claim, cursor)
            assert desk.commit(move) == [ACCEPTED]
            claim = after(claim, move)
        assert desk.standing().checkpoint == Checkpoint(0, "extract", 5, 5)

    def test_the_last_move_ends_the_document(self, desk: Desk) -> None:
        desk.finish(desk.take_in())
        here = desk.standing()
        assert (here.state, here.holder, here.due_at, here.attempts) == ("done", "", None, 0)
        assert here.checkpoint == Checkpoint(0, None, None, 3)
        assert desk.balance().done == 1

    def test_plain_progress_is_not_journalled(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.finish(claim)
        assert desk.store.journal(claim.document_id) == []

    def test_no_moves_are_no_work(self, desk: Desk) -> None:
        assert desk.commit() == []

    def test_what_one_store_commits_another_sees(self, desk: Desk, other: Store) -> None:
        desk.advance(desk.take_in())
        assert other.standing("papers", "march", "a").checkpoint.step == "chunk"

    def test_a_claim_of_one_store_commits_through_another(self, desk: Desk, other: Store) -> None:
        assert other.commit(desk.plan, [desk.forward(desk.take_in())]) == [ACCEPTED]

    def test_documents_of_many_workers_commit_in_one_group(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first = desk.claim_one()
        second = desk.claim_one(worker=desk.enlist("bob"))
        assert desk.commit(desk.forward(first), desk.forward(second)) == [ACCEPTED, ACCEPTED]
        assert (desk.standing("a").holder, desk.standing("b").holder) == ("ann", "bob")

    def test_a_group_may_hold_every_kind_of_move(self, desk: Desk) -> None:
        desk.submit("a", "b", "c", "d")
        a, b, c, d = desk.claim()
        d = desk.advance(desk.advance(d))
        moves = [desk.forward(a), desk.within(b, 3), desk.forward(c, state="paused", reason="gate"), desk.forward(d)]
        assert desk.commit(*moves) == [ACCEPTED] * 4
        assert [desk.standing(key).state for key in "abcd"] == ["running", "running", "paused", "done"]

    @pytest.mark.parametrize("size", [2, 3, 17, 65, 300])
    def test_groups_of_every_size_commit_whole(self, desk: Desk, size: int) -> None:
        desk.submit(*(f"doc-{number}" for number in range(size)))
        claims = desk.claim(limit=size)
        moves = [desk.forward(claim, items=[Item("extract", -1, f'"{claim.key}"')]) for claim in claims]
        assert desk.commit(*moves) == [ACCEPTED] * size
        assert desk.store.batches("papers")[0].at_step == {"chunk": size}
        for claim in (claims[0], claims[-1]):
            assert desk.items(claim) == [("extract", -1, f'"{claim.key}"')]

    def test_a_document_that_parks_leaves_its_worker(self, desk: Desk) -> None:
        desk.commit(desk.forward(desk.take_in(), state="paused", reason="gate chunk"))
        here = desk.standing()
        assert (here.state, here.holder, here.reason, here.due_at) == ("paused", "", "gate chunk", None)
        assert here.checkpoint.step == "chunk"


class FenceConformance(Conformance):
    """A worker that lost its claim cannot write."""

    def test_a_stale_claim_cannot_commit(self, desk: Desk) -> None:
        stale = desk.take_in()
        desk.reclaim(gone=[desk.worker.id])
        assert desk.commit(desk.forward(stale)) == [LOST]
        assert desk.standing().checkpoint.step == "extract"

    def test_a_stale_claim_cannot_commit_while_another_worker_holds_the_document(self, desk: Desk) -> None:
        stale = desk.take_in()
        desk.reclaim(gone=[desk.worker.id])
        fresh = desk.claim_one(worker=desk.enlist("bob"))
        assert desk.commit(desk.forward(stale, items=[Item("extract", 0, "1")])) == [LOST]
        assert desk.items(fresh) == []
        assert desk.standing().holder == "bob"
        desk.advance(fresh)

    def test_a_stale_claim_cannot_commit_after_the_document_came_back_to_the_same_worker(self, desk: Desk) -> None:
        stale = desk.take_in()
        desk.give_back(stale)
        fresh = desk.claim_one()
        assert desk.commit(desk.forward(stale)) == [LOST]
        desk.advance(fresh)

    def test_a_stale_claim_cannot_end_a_document(self, desk: Desk) -> None:
        stale = desk.advance(desk.advance(desk.take_in()))
        desk.reclaim(gone=[desk.worker.id])
        desk.claim_one(worker=desk.enlist("bob"))
        assert desk.commit(desk.forward(stale)) == [LOST]
        assert desk.standing().state == "running"

    def test_a_claim_that_was_given_back_cannot_commit(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.give_back(claim)
        assert desk.commit(desk.forward(claim)) == [LOST]

    def test_the_fence_holds_whatever_the_clock_says(self, desk: Desk) -> None:
        stale = desk.take_in()
        desk.reclaim(gone=[desk.worker.id])
        fresh = desk.claim_one(worker=desk.enlist("bob"))
        desk.clock.advance(-SECOND * 3600)
        assert desk.commit(desk.forward(stale)) == [LOST]
        desk.advance(fresh)

    def test_a_move_from_a_wrong_generation_is_lost(self, desk: Desk) -> None:
        move = desk.forward(desk.take_in())
        for wrong in (1, -1):
            before, to = replace(move.before, generation=wrong), replace(move.after, generation=wrong)
            assert desk.commit(replace(move, before=before, after=to)) == [LOST]

    @pytest.mark.parametrize("moves", [0, 2, 3])
    def test_a_move_from_a_wrong_place_is_lost(self, desk: Desk, moves: int) -> None:
        claim = desk.keep(desk.take_in(), "1")
        at = replace(claim.checkpoint, moves=moves)
        assert desk.commit(desk.forward(replace(claim, checkpoint=at))) == [LOST]
        assert desk.standing().checkpoint == Checkpoint(0, "extract", 1, 1)

    def test_the_same_move_is_made_once(self, desk: Desk) -> None:
        move = desk.forward(desk.take_in())
        assert desk.commit(move) == [ACCEPTED]
        assert desk.commit(move) == [LOST]
        assert desk.standing().checkpoint.moves == 1

    def test_the_same_move_is_made_once_beside_good_ones(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        move = desk.forward(first, items=[Item("extract", 0, "1")])
        assert desk.commit(move) == [ACCEPTED]
        assert desk.commit(move, desk.forward(second)) == [LOST, ACCEPTED]

    def test_a_move_of_a_document_that_is_done_is_lost(self, desk: Desk) -> None:
        claim = desk.advance(desk.advance(desk.take_in()))
        last = desk.forward(claim)
        assert desk.commit(last) == [ACCEPTED]
        assert desk.commit(last) == [LOST]
        assert desk.commit(desk.within(claim, 1)) == [LOST]

    def test_a_move_of_a_document_that_never_was_is_lost(self, desk: Desk) -> None:
        claim = replace(desk.take_in(), document_id=10**9)
        assert desk.commit(desk.forward(claim)) == [LOST]

    def test_a_cancelled_document_cannot_be_moved(self, desk: Desk) -> None:
        claim = desk.take_in()
        desk.store.cancel([claim.document_id], who="ann", reason="no")
        assert desk.commit(desk.forward(claim)) == [LOST]

    def test_a_group_with_one_lost_move_commits_the_others(self, desk: Desk) -> None:
        desk.submit("a", "b", "c")
        a, b, c = desk.claim()
        desk.store.cancel([b.document_id], who="ann", reason="no")
        moves = [desk.forward(one, items=[Item("extract", 0, "1")]) for one in (a, b, c)]
        assert desk.commit(*moves) == [ACCEPTED, LOST, ACCEPTED]
        assert [desk.items(one) for one in (a, b, c)] == [[("extract", 0, "1")], [], [("extract", 0, "1")]]
        assert [desk.standing(key).checkpoint.moves for key in "abc"] == [1, 0, 1]

    def test_a_group_of_lost_moves_is_lost(self, desk: Desk) -> None:
        desk.submit("a", "b")
        moves = [desk.forward(claim) for claim in desk.claim()]
        desk.store.retire(desk.worker)
        assert desk.commit(*moves) == [LOST, LOST]

    def test_a_big_group_with_many_lost_moves_answers_for_each(self, desk: Desk) -> None:
        desk.submit(*(f"doc-{number}" for number in range(90)))
        claims = desk.claim()
        for claim in claims[::3]:
            desk.store.cancel([claim.document_id], who="ann", reason="no")
        answers = desk.commit(*(desk.forward(claim) for claim in claims))
        assert answers == [LOST if place % 3 == 0 else ACCEPTED for place in range(90)]


class CheckConformance(Conformance):
    """What a CHECK constraint forbids cannot be written."""

    def test_a_document_cannot_be_done_at_a_step(self, desk: Desk) -> None:
        (answer,) = desk.commit(desk.forward(desk.take_in(), state="done"))
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, self.forbidden)
        assert desk.standing().state == "running"

    def test_a_document_cannot_be_parked_past_its_last_step(self, desk: Desk) -> None:
        claim = desk.advance(desk.advance(desk.take_in()))
        (answer,) = desk.commit(desk.forward(claim, state="paused"))
        assert isinstance(answer, Refused)
        assert desk.standing().checkpoint.step == "embed"

    @pytest.mark.parametrize("state", ["running", "done"])
    def test_a_document_cannot_be_given_back_as_running_or_done(self, desk: Desk, state: str) -> None:
        claim = desk.take_in()
        with pytest.raises(self.forbidden):
            desk.give_back(claim, state=state)
        desk.advance(claim)

    def test_a_state_that_does_not_exist_cannot_be_written(self, desk: Desk) -> None:
        claim = desk.take_in()
        with pytest.raises(self.forbidden):
            desk.give_back(claim, state="EXTRACTING")
        desk.advance(claim)

    def test_a_forbidden_ending_takes_its_whole_group_back(self, desk: Desk) -> None:
        desk.submit("a", "b")
        first, second = desk.claim()
        with pytest.raises(self.forbidden):
            desk.store.give_back([desk.ending(first), desk.ending(second, state="done")])
        assert desk.balance().running == 2
        assert desk.verbs(first) == []

    def test_a_position_below_the_whole_cannot_be_kept(self, desk: Desk) -> None:
        (answer,) = desk.commit(desk.forward(desk.take_in(), items=[Item("extract", -2, "1")]))
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, self.forbidden)

    def test_a_position_is_kept_once(self, desk: Desk) -> None:
        claim = desk.keep(desk.take_in(), "1")
        (answer,) = desk.commit(desk.within(claim, 2, items=[Item("extract", 0, "2")]))
        assert isinstance(answer, Refused)
        assert desk.items(claim) == [("extract", 0, "1")]
        assert desk.standing().checkpoint.cursor == 1

    def test_a_forbidden_move_is_refused_and_the_rest_of_its_group_commits(self, desk: Desk) -> None:
        desk.submit(*"abcde")
        claims = desk.claim()
        moves = [desk.forward(claim) for claim in claims]
        moves[3] = desk.forward(claims[3], items=[Item("extract", 0, "1"), Item("extract", 0, "2")])
        answers = desk.commit(*moves)
        assert [isinstance(answer, Refused) for answer in answers] == [False, False, False, True, False]
        assert [desk.standing(key).checkpoint.moves for key in "abcde"] == [1, 1, 1, 0, 1]
