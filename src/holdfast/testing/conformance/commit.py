"""Commits: moves are written once or not at all. An exchange commits moves and claims more documents."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast.core.model import Checkpoint, Claim, Item
from holdfast.core.moves import ACCEPTED, LOST, CommitResult, Move, Refused
from holdfast.core.plan import StepShape
from holdfast.stores.protocol import Store
from holdfast.testing.conformance.base import SECOND, Conformance, StoreHarness, after, breaks, papers, writes


class CommitConformance(Conformance):
    """Tests of the checkpoints that commit writes."""

    def test_a_move_takes_a_document_to_the_next_step(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.clock.advance(SECOND)
        assert harness.commit(harness.forward(claim)) == [ACCEPTED]
        status = harness.document()
        assert (status.state, status.holder, status.moved_at) == ("running", "ann", harness.clock())
        assert status.checkpoint == Checkpoint(0, "chunk", None, 1)

    def test_a_move_may_go_further_inside_a_step(self, harness: StoreHarness) -> None:
        harness.commit(harness.within(harness.submit_and_claim(), 12))
        assert harness.document().checkpoint == Checkpoint(0, "extract", 12, 1)

    def test_a_worker_moves_a_document_again_and_again(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        for cursor in range(1, 6):
            move = harness.within(claim, cursor)
            assert harness.commit(move) == [ACCEPTED]
            claim = after(claim, move)
        assert harness.document().checkpoint == Checkpoint(0, "extract", 5, 5)

    def test_the_last_move_ends_the_document(self, harness: StoreHarness) -> None:
        harness.finish(harness.submit_and_claim())
        status = harness.document()
        assert (status.state, status.holder, status.due_at, status.attempts) == ("done", "", None, 0)
        assert status.checkpoint == Checkpoint(0, None, None, 3)
        assert harness.balance().done == 1

    def test_plain_progress_is_not_journalled(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.finish(claim)
        assert harness.store.journal(claim.document_id) == []

    def test_a_commit_of_no_moves_does_nothing(self, harness: StoreHarness) -> None:
        assert harness.commit() == []

    def test_a_commit_through_one_store_is_seen_by_another(self, harness: StoreHarness, other: Store) -> None:
        harness.advance(harness.submit_and_claim())
        assert other.document("papers", "march", "a").checkpoint.step == "chunk"

    def test_a_claim_of_one_store_commits_through_another(self, harness: StoreHarness, other: Store) -> None:
        assert other.commit(harness.plan, [harness.forward(harness.submit_and_claim())]) == [ACCEPTED]

    def test_documents_of_many_workers_commit_in_one_group(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first = harness.claim_one()
        second = harness.claim_one(worker=harness.register_worker("bob"))
        assert harness.commit(harness.forward(first), harness.forward(second)) == [ACCEPTED, ACCEPTED]
        assert (harness.document("a").holder, harness.document("b").holder) == ("ann", "bob")

    def test_a_group_may_contain_every_kind_of_move(self, harness: StoreHarness) -> None:
        harness.plan = harness.store.declare(papers("extract", "chunk", StepShape("review", "gate"), "embed"))
        harness.submit("a", "b", "c", "d")
        a, b, c, d = harness.claim()
        c = harness.advance(c)
        d = harness.pass_gate(harness.advance(d), at="review")
        moves = [
            harness.forward(a),
            harness.within(b, 3),
            harness.forward(c, state="paused", reason="gate"),
            harness.forward(d),
        ]
        assert harness.commit(*moves) == [ACCEPTED] * 4
        assert [harness.document(key).state for key in "abcd"] == ["running", "running", "paused", "done"]

    @pytest.mark.parametrize("size", [2, 3, 17, 65, 300])
    def test_groups_of_every_size_commit_completely(self, harness: StoreHarness, size: int) -> None:
        harness.submit(*(f"doc-{number}" for number in range(size)))
        claims = harness.claim(limit=size)
        moves = [harness.forward(claim, items=[Item("extract", -1, f'"{claim.key}"')]) for claim in claims]
        assert harness.commit(*moves) == [ACCEPTED] * size
        assert harness.store.batches("papers")[0].at_step == {"chunk": size}
        for claim in (claims[0], claims[-1]):
            assert harness.items(claim) == [("extract", -1, f'"{claim.key}"')]

    def test_a_parked_document_is_released_by_its_worker(self, gated: StoreHarness) -> None:
        gated.commit(gated.forward(gated.submit_and_claim(), state="paused", reason="gate review"))
        status = gated.document()
        assert (status.state, status.holder, status.reason, status.due_at) == ("paused", "", "gate review", None)
        assert status.checkpoint.step == "review"


class FenceConformance(Conformance):
    """Tests that a worker that lost its claim cannot write."""

    def test_a_stale_claim_cannot_commit(self, harness: StoreHarness) -> None:
        stale = harness.submit_and_claim()
        harness.reclaim(gone=[harness.worker.id])
        assert harness.commit(harness.forward(stale)) == [LOST]
        assert harness.document().checkpoint.step == "extract"

    def test_a_stale_claim_cannot_commit_while_another_worker_holds_the_document(self, harness: StoreHarness) -> None:
        stale = harness.submit_and_claim()
        harness.reclaim(gone=[harness.worker.id])
        fresh = harness.claim_one(worker=harness.register_worker("bob"))
        assert harness.commit(harness.forward(stale, items=[Item("extract", 0, "1")])) == [LOST]
        assert harness.items(fresh) == []
        assert harness.document().holder == "bob"
        harness.advance(fresh)

    def test_a_stale_claim_cannot_commit_after_the_document_came_back_to_the_same_worker(
        self, harness: StoreHarness
    ) -> None:
        stale = harness.submit_and_claim()
        harness.release(stale)
        fresh = harness.claim_one()
        assert harness.commit(harness.forward(stale)) == [LOST]
        harness.advance(fresh)

    def test_a_stale_claim_cannot_end_a_document(self, harness: StoreHarness) -> None:
        stale = harness.advance(harness.advance(harness.submit_and_claim()))
        harness.reclaim(gone=[harness.worker.id])
        harness.claim_one(worker=harness.register_worker("bob"))
        assert harness.commit(harness.forward(stale)) == [LOST]
        assert harness.document().state == "running"

    def test_a_released_claim_cannot_commit(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.release(claim)
        assert harness.commit(harness.forward(claim)) == [LOST]

    def test_the_fence_holds_whatever_the_clock_says(self, harness: StoreHarness) -> None:
        stale = harness.submit_and_claim()
        harness.reclaim(gone=[harness.worker.id])
        fresh = harness.claim_one(worker=harness.register_worker("bob"))
        harness.clock.advance(-SECOND * 3600)
        assert harness.commit(harness.forward(stale)) == [LOST]
        harness.advance(fresh)

    def test_a_move_from_a_wrong_generation_is_lost(self, harness: StoreHarness) -> None:
        move = harness.forward(harness.submit_and_claim())
        for wrong in (1, -1):
            before, to = replace(move.before, generation=wrong), replace(move.after, generation=wrong)
            assert harness.commit(replace(move, before=before, after=to)) == [LOST]

    @pytest.mark.parametrize("moves", [0, 2, 3])
    def test_a_move_with_an_outdated_move_count_is_lost(self, harness: StoreHarness, moves: int) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        at = replace(claim.checkpoint, moves=moves)
        assert harness.commit(harness.forward(replace(claim, checkpoint=at))) == [LOST]
        assert harness.document().checkpoint == Checkpoint(0, "extract", 1, 1)

    def test_the_same_move_is_made_once(self, harness: StoreHarness) -> None:
        move = harness.forward(harness.submit_and_claim())
        assert harness.commit(move) == [ACCEPTED]
        assert harness.commit(move) == [LOST]
        assert harness.document().checkpoint.moves == 1

    def test_the_same_move_is_made_once_beside_good_ones(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        move = harness.forward(first, items=[Item("extract", 0, "1")])
        assert harness.commit(move) == [ACCEPTED]
        assert harness.commit(move, harness.forward(second)) == [LOST, ACCEPTED]

    def test_a_move_of_a_document_that_is_done_is_lost(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.advance(harness.submit_and_claim()))
        last = harness.forward(claim)
        assert harness.commit(last) == [ACCEPTED]
        assert harness.commit(last) == [LOST]
        assert harness.commit(harness.within(claim, 1)) == [LOST]

    def test_a_move_of_an_unknown_document_is_lost(self, harness: StoreHarness) -> None:
        claim = replace(harness.submit_and_claim(), document_id=10**9)
        assert harness.commit(harness.forward(claim)) == [LOST]

    def test_a_cancelled_document_cannot_be_moved(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.store.cancel([claim.document_id], who="ann", reason="no")
        assert harness.commit(harness.forward(claim)) == [LOST]

    def test_a_group_with_one_lost_move_commits_the_others(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        a, b, c = harness.claim()
        harness.store.cancel([b.document_id], who="ann", reason="no")
        moves = [harness.forward(one, items=[Item("extract", 0, "1")]) for one in (a, b, c)]
        assert harness.commit(*moves) == [ACCEPTED, LOST, ACCEPTED]
        assert [harness.items(one) for one in (a, b, c)] == [[("extract", 0, "1")], [], [("extract", 0, "1")]]
        assert [harness.document(key).checkpoint.moves for key in "abc"] == [1, 0, 1]

    def test_all_moves_of_a_group_may_be_lost(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        moves = [harness.forward(claim) for claim in harness.claim()]
        harness.store.retire_worker(harness.worker)
        assert harness.commit(*moves) == [LOST, LOST]

    def test_a_big_group_with_many_lost_moves_has_an_answer_for_each(self, harness: StoreHarness) -> None:
        harness.submit(*(f"doc-{number}" for number in range(90)))
        claims = harness.claim()
        for claim in claims[::3]:
            harness.store.cancel([claim.document_id], who="ann", reason="no")
        answers = harness.commit(*(harness.forward(claim) for claim in claims))
        assert answers == [LOST if place % 3 == 0 else ACCEPTED for place in range(90)]


class CheckConstraintConformance(Conformance):
    """Tests that CHECK constraints forbid illegal rows."""

    @pytest.mark.parametrize("state", ["running", "done"])
    def test_a_document_cannot_be_released_as_running_or_done(self, harness: StoreHarness, state: str) -> None:
        claim = harness.submit_and_claim()
        with pytest.raises(self.forbidden):
            harness.release(claim, state=state)
        harness.advance(claim)

    def test_a_state_that_does_not_exist_cannot_be_written(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        with pytest.raises(self.forbidden):
            harness.release(claim, state="EXTRACTING")
        harness.advance(claim)

    def test_a_forbidden_release_rolls_back_its_whole_group(self, harness: StoreHarness) -> None:
        harness.submit("a", "b")
        first, second = harness.claim()
        with pytest.raises(self.forbidden):
            harness.store.release([harness.a_release(first), harness.a_release(second, state="done")])
        assert harness.balance().running == 2
        assert harness.verbs(first) == []

    def test_a_position_below_minus_one_cannot_be_stored(self, harness: StoreHarness) -> None:
        (answer,) = harness.commit(harness.forward(harness.submit_and_claim(), items=[Item("extract", -2, "1")]))
        assert isinstance(answer, Refused)
        assert isinstance(answer.error, self.forbidden)

    def test_an_item_of_a_position_is_stored_once(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        (answer,) = harness.commit(harness.within(claim, 2, items=[Item("extract", 0, "2")]))
        assert isinstance(answer, Refused)
        assert harness.items(claim) == [("extract", 0, "1")]
        assert harness.document().checkpoint.cursor == 1

    def test_a_forbidden_move_is_refused_and_the_rest_of_its_group_commits(self, harness: StoreHarness) -> None:
        harness.submit(*"abcde")
        claims = harness.claim()
        moves = [harness.forward(claim) for claim in claims]
        moves[3] = harness.forward(claims[3], items=[Item("extract", 0, "1"), Item("extract", 0, "2")])
        answers = harness.commit(*moves)
        assert [isinstance(answer, Refused) for answer in answers] == [False, False, False, True, False]
        assert [harness.document(key).checkpoint.moves for key in "abcde"] == [1, 1, 1, 0, 1]


def exchange(
    harness: StoreHarness, *moves: Move, limit: int = 100, batch: str | None = None
) -> tuple[list[CommitResult], list[Claim]]:
    """Commit moves of the worker ann, and claim for her."""
    return harness.store.exchange(harness.plan, moves, harness.worker, limit=limit, batch=batch)


class ExchangeConformance(Conformance):
    """Tests that exchange does the same as commit and then claim."""

    def test_an_exchange_commits_moves_and_claims_documents(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim("a")
        harness.submit("b", "c", "d")
        answers, claims = exchange(harness, harness.forward(first, items=[Item("extract", 0, "1")]), limit=2)
        assert answers == [ACCEPTED]
        assert [claim.key for claim in claims] == ["b", "c"]
        assert harness.document("a").checkpoint.step == "chunk"
        assert harness.items(first) == [("extract", 0, "1")]
        assert (harness.document("b").holder, harness.document("d").state) == ("ann", "waiting")

    def test_documents_claimed_by_an_exchange_can_be_moved(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim("a")
        harness.submit("b")
        _, (second,) = exchange(harness, harness.forward(first))
        assert exchange(harness, harness.forward(second)) == ([ACCEPTED], [])

    def test_a_document_finished_by_an_exchange_is_not_claimed_by_it(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.advance(harness.submit_and_claim()))
        assert exchange(harness, harness.forward(claim)) == ([ACCEPTED], [])
        assert harness.document().state == "done"

    def test_a_lost_claim_does_not_undo_the_rest_of_an_exchange(self, harness: StoreHarness) -> None:
        harness.submit("a", "b", "c")
        a, b = harness.claim(limit=2)
        assert harness.store.cancel([a.document_id], who="eve", reason="not wanted")
        answers, claims = exchange(harness, harness.forward(a), harness.forward(b))
        assert answers == [LOST, ACCEPTED]
        assert [claim.key for claim in claims] == ["c"]

    def test_a_refused_effect_does_not_undo_the_rest_of_an_exchange(
        self, harness: StoreHarness, notes: Callable[[], list[str]]
    ) -> None:
        harness.submit("a", "b", "c")
        a, b = harness.claim(limit=2)
        answers, claims = exchange(harness, harness.forward(a, effect=breaks), harness.forward(b, effect=writes("b")))
        assert isinstance(answers[0], Refused)
        assert answers[1] == ACCEPTED
        assert notes() == ["b"]
        assert [(claim.key, claim.attempts) for claim in claims] == [("c", 1)]

    def test_a_deferred_constraint_does_not_undo_the_rest_of_an_exchange(self, harness: StoreHarness) -> None:
        harness.sql(
            "create table authors (id integer primary key)",
            "create table books (author integer references authors (id) deferrable initially deferred)",
        )
        harness.submit("a", "b", "c")
        a, b = harness.claim(limit=2)
        bad = harness.forward(a, effect=lambda tx: tx.execute("insert into books values (7)"))
        answers, claims = exchange(harness, bad, harness.forward(b))
        assert isinstance(answers[0], Refused)
        assert answers[1] == ACCEPTED
        assert [(claim.key, claim.attempts) for claim in claims] == [("c", 1)]

    def test_an_exchange_claims_only_from_the_batch_it_names(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim("a")
        harness.submit("b", batch="april")
        harness.submit("c")
        _, claims = exchange(harness, harness.forward(first), batch="april")
        assert [claim.key for claim in claims] == ["b"]

    def test_claims_have_their_deadlines(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim("a")
        harness.submit("b")
        minute = timedelta(minutes=1)
        _, (claim,) = harness.store.exchange(
            harness.plan, [harness.forward(first)], harness.worker, limit=1, timeouts={"extract": minute}
        )
        harness.clock.advance(minute * 2)
        harness.store.heartbeat(harness.worker)
        assert [status.key for status in harness.reclaim()] == [claim.key]

    def test_an_exchange_of_a_worker_that_was_given_up_claims_nothing(self, harness: StoreHarness) -> None:
        first = harness.submit_and_claim("a")
        harness.submit("b")
        harness.reclaim(gone=[harness.worker.id])
        assert exchange(harness, harness.forward(first)) == ([LOST], [])
