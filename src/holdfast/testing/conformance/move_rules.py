"""Move rules: a store commits no move except to the one successor of a step, or further inside the step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.errors import MoveRefused
from holdfast.core.model import Checkpoint, Claim, FailedItem, Failure, Item
from holdfast.core.moves import ACCEPTED, LOST, CommitResult, Move, Refused
from holdfast.testing.conformance.base import Conformance, StoreHarness, after, writes

TORN = Failure("ValueError", "torn")


def _commit(harness: StoreHarness, *moves: Move) -> list[CommitResult]:
    return harness.commit(*moves)


def _exchange(harness: StoreHarness, *moves: Move) -> list[CommitResult]:
    return harness.store.exchange(harness.plan, moves, harness.worker, limit=1)[0]


def _refuses(harness: StoreHarness, move: Move, why: str) -> None:
    """Check that a move is refused, with a sentence that names the document, and that nothing was written."""
    status, items = harness.store.documents_by_id([move.claim.document_id]), harness.items(move.claim)
    for commit in (_commit, _exchange):
        (answer,) = commit(harness, move)
        assert isinstance(answer, Refused), answer
        assert isinstance(answer.error, MoveRefused)
        assert str(answer.error).startswith(f"the document {move.claim.key!r} cannot go from ")
        assert why in str(answer.error)
    assert harness.store.documents_by_id([move.claim.document_id]) == status
    assert harness.items(move.claim) == items


def _leaving(claim: Claim, step: str | None, *, cursor: Any = None, **more: Any) -> Move:
    """Return a move to any step."""
    at = claim.checkpoint
    return Move(claim, at, Checkpoint(at.generation, step, cursor, at.moves + 1), **more)


Change = Callable[[Move], Move]

PLACES: dict[str, tuple[Change, str]] = {
    "to another generation": (
        lambda move: replace(move, after=replace(move.after, generation=1)),
        "it is of generation 0, and would become one of generation 1",
    ),
    "two moves at once": (
        lambda move: replace(move, after=replace(move.after, moves=move.after.moves + 1)),
        "it has made 1 moves, and this would be number 3",
    ),
    "no move": (
        lambda move: replace(move, after=replace(move.after, moves=move.before.moves)),
        "it has made 1 moves, and this would be number 1",
    ),
    "with an item of a later step": (
        lambda move: replace(move, items=[Item("extract", 2, "3"), Item("chunk", 0, "1")]),
        "the move has items of step 'chunk'",
    ),
    "with an item of no step": (
        lambda move: replace(move, items=[Item("walk", 0, "1")]),
        "the move has items of step 'walk'",
    ),
}


class MoveRulesConformance(Conformance):
    """Tests of moves that no worker makes. The store is the last guard."""

    def test_a_move_over_a_step_is_refused(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        _refuses(harness, _leaving(claim, "embed"), "from 'extract' to 'embed': the next step is 'chunk'")
        assert harness.commit(harness.forward(claim)) == [ACCEPTED]

    def test_a_move_back_to_an_earlier_step_is_refused(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.submit_and_claim())
        _refuses(harness, _leaving(claim, "extract"), "from 'chunk' to 'extract': the next step is 'embed'")
        assert harness.document().checkpoint.step == "chunk"

    @pytest.mark.parametrize("state", ["running", "paused", "done"])
    def test_a_move_to_a_step_that_the_plan_lacks_is_refused(self, harness: StoreHarness, state: Any) -> None:
        claim = harness.submit_and_claim()
        _refuses(harness, _leaving(claim, "walk", state=state), "pipeline 'papers' has no step 'walk'")

    def test_a_move_from_a_step_that_the_plan_lacks_is_refused(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        lies = replace(claim, checkpoint=replace(claim.checkpoint, step="walk"))
        _refuses(harness, _leaving(lies, "chunk"), "pipeline 'papers' has no step 'walk'")

    @pytest.mark.parametrize("steps", [0, 1])
    def test_a_document_is_done_only_after_the_last_step(self, harness: StoreHarness, steps: int) -> None:
        claim = harness.submit_and_claim()
        for _ in range(steps):
            claim = harness.advance(claim)
        _refuses(harness, _leaving(claim, None, state="done"), "to its end: the next step is ")
        assert harness.document().state == "running"

    def test_a_document_is_not_done_at_a_step(self, harness: StoreHarness) -> None:
        move = harness.forward(harness.submit_and_claim(), state="done")
        _refuses(harness, move, "it would be done there, not running")

    @pytest.mark.parametrize("state", ["running", "paused"])
    def test_a_document_at_its_end_is_done(self, harness: StoreHarness, state: Any) -> None:
        claim = harness.advance(harness.advance(harness.submit_and_claim()))
        _refuses(harness, harness.forward(claim, state=state), f"it would be {state} there, not done")

    def test_a_document_is_paused_only_at_a_gate(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        _refuses(harness, harness.forward(claim, state="paused"), "it would be paused there, not running")
        _refuses(harness, harness.within(claim, 1, state="paused"), "it would be paused there")

    def test_no_move_passes_a_gate(self, gated: StoreHarness) -> None:
        claim = gated.advance(gated.submit_and_claim())
        assert claim.checkpoint.step == "review"
        _refuses(gated, gated.forward(claim), "'review' is a gate, and only a decision passes it")
        _refuses(gated, gated.within(claim, 1), "'review' is a gate, and only a decision passes it")

    def test_a_step_that_returns_has_no_cursor(self, gated: StoreHarness) -> None:
        _refuses(gated, gated.within(gated.submit_and_claim(), 1), "'read' has no cursor")

    def test_a_step_begins_without_a_cursor(self, harness: StoreHarness) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1")
        _refuses(harness, _leaving(claim, "chunk", cursor=2), "to 2 in 'chunk': a step begins without a cursor")

    @pytest.mark.parametrize("after_cursor", [3, 5, 5.0, 4.5, -1, None])
    def test_a_cursor_that_is_a_number_goes_forward(self, harness: StoreHarness, after_cursor: Any) -> None:
        claim = harness.submit_and_claim()
        move = harness.within(claim, 5)
        assert harness.commit(move) == [ACCEPTED]
        _refuses(harness, harness.within(after(claim, move), after_cursor), "a cursor has to move forward")
        assert harness.document().checkpoint == Checkpoint(0, "extract", 5, 1)
        assert harness.commit(harness.within(after(claim, move), 5.5)) == [ACCEPTED]

    def test_a_cursor_of_any_other_kind_changes(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        for cursor in ("b", "a", {"page": "x"}, {"page": "w"}, 3):
            move = harness.within(claim, cursor)
            assert harness.commit(move) == [ACCEPTED]
            claim = after(claim, move)
            _refuses(harness, harness.within(claim, cursor), "a cursor has to move forward")

    @pytest.mark.parametrize(
        "path",
        [
            [2, 5, 10],
            [{"next": 0, "done": [[4, 6]]}, {"next": 0, "done": [[2, 6]]}, 6],
            [{"next": 4, "aside": [[1, 1]]}, {"next": 4, "aside": [[1, 2]]}, {"next": 6, "aside": [[1, 2]]}, 6],
            [{"next": 4, "aside": [[1, 1]]}, 4, {"next": 4, "done": [[8, 9]]}],
        ],
        ids=str,
    )
    def test_a_cursor_over_items_covers_more_and_more(self, harness: StoreHarness, path: list[Any]) -> None:
        claim = harness.advance(harness.advance(harness.submit_and_claim()))
        for cursor in path:
            move = harness.within(claim, cursor)
            assert harness.commit(move) == [ACCEPTED]
            claim = after(claim, move)

    @pytest.mark.parametrize(
        ("cursor", "then"),
        [
            (5, 3),
            (5, 5),
            (5, {"next": 4, "done": [[6, 8]]}),
            (5, -1),
            (5, "token"),
            (5, True),
            (5, None),
            (None, 0),
            (None, {"next": 0, "done": [[-2, 3]]}),
            ({"next": 2, "done": [[4, 8]]}, {"next": 4}),
            ({"next": 2, "done": [[4, 8]]}, 4),
            ({"next": 2, "done": [[4, 8]]}, {"next": 3, "done": [[5, 9]]}),
            ({"next": 4, "aside": [[1, 2]]}, {"next": 5, "aside": [[1, 1]]}),
            ({"next": 4, "aside": [[6, 2]]}, {"next": 5}),
            ({"next": 4, "aside": [[1, 2]]}, {"next": 4, "aside": [[1, 2]], "done": [[2, 3]]}),
        ],
        ids=str,
    )
    def test_a_cursor_over_items_never_covers_less(self, harness: StoreHarness, cursor: Any, then: Any) -> None:
        claim = harness.advance(harness.advance(harness.submit_and_claim()))
        if cursor is not None:
            move = harness.within(claim, cursor)
            assert harness.commit(move) == [ACCEPTED]
            claim = after(claim, move)
        _refuses(harness, harness.within(claim, then), "a cursor has to move forward")

    @pytest.mark.parametrize("change", PLACES)
    def test_a_move_has_one_successor(self, harness: StoreHarness, change: str) -> None:
        claim = harness.keep(harness.submit_and_claim(), "1", "2")
        changed, why = PLACES[change]
        for move in (harness.forward(claim), harness.within(claim, 3)):
            _refuses(harness, changed(move), why)
            assert harness.document().checkpoint == Checkpoint(0, "extract", 2, 1)

    def test_a_refused_move_leaves_the_rest_of_its_group_alone(
        self, harness: StoreHarness, notes: Callable[[], list[str]]
    ) -> None:
        harness.submit(*"abcde")
        claims = harness.claim()
        moves = [harness.forward(claim, items=[Item("extract", 0, "1")], effect=writes(claim.key)) for claim in claims]
        moves[1] = _leaving(claims[1], "embed", items=[Item("extract", 0, "1")], effect=writes("b"))
        moves[4] = _leaving(claims[4], "walk", asides=[FailedItem(0, 1, TORN)], effect=writes("e"))
        answers = harness.commit(*moves)
        assert [isinstance(answer, Refused) for answer in answers] == [False, True, False, False, True]
        assert [harness.document(key).checkpoint.moves for key in "abcde"] == [1, 0, 1, 1, 0]
        assert notes() == ["a", "c", "d"]
        assert harness.items(claims[1]) == []
        assert harness.store.failed_items(claims[4].document_id) == []

    def test_documents_are_claimed_beside_a_refused_move(self, harness: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        harness.submit("b")
        moves = [_leaving(claim, "embed")]
        answers, claims = harness.store.exchange(harness.plan, moves, harness.worker, limit=9)
        assert isinstance(answers[0], Refused)
        assert [one.key for one in claims] == ["b"]

    @pytest.mark.parametrize(
        "before",
        [
            Checkpoint(0, "chunk", None, 1),
            Checkpoint(0, "embed", 5, 1),
            Checkpoint(0, "extract", 2, 1),
            Checkpoint(0, "extract", None, 1),
            Checkpoint(0, "extract", "5", 1),
        ],
        ids=str,
    )
    def test_a_move_that_starts_where_the_document_is_not_is_lost(
        self, harness: StoreHarness, before: Checkpoint
    ) -> None:
        harness.submit("a", "b")
        claim, other = harness.claim()
        moved = harness.within(claim, 5)
        assert harness.commit(moved) == [ACCEPTED]
        lies = Move(claim, before, replace(before, cursor=6 if before.step == "embed" else 3, moves=2))
        lies = lies if before.step != "chunk" else replace(lies, after=Checkpoint(0, "embed", None, 2))
        for commit in (_commit, _exchange):
            assert commit(harness, lies) == [LOST]
        assert harness.commit(lies, harness.forward(other)) == [LOST, ACCEPTED]
        assert harness.document().checkpoint == Checkpoint(0, "extract", 5, 1)
        assert harness.commit(harness.within(after(claim, moved), 6)) == [ACCEPTED]

    def test_a_move_of_another_pipeline_is_lost(self, harness: StoreHarness, gated: StoreHarness) -> None:
        claim = harness.submit_and_claim()
        lies = Move(claim, Checkpoint(0, "read", None, 0), Checkpoint(0, "review", None, 1), "paused")
        assert gated.commit(lies) == [LOST]
        assert harness.document().checkpoint.step == "extract"

    def test_a_cursor_that_a_person_wrote_is_moved_on(self, harness: StoreHarness) -> None:
        claim = harness.advance(harness.advance(harness.submit_and_claim()))
        move = harness.within(claim, {"next": 2, "aside": [[1, 1]]})
        assert harness.commit(move) == [ACCEPTED]
        harness.release(after(claim, move), verb="release", costs="nothing")
        self.corrupt(harness.store, claim.document_id, cursor='{"aside": [[1, 1]],  "next": 2}')
        again = harness.claim_one()
        for cursor in ({"next": 3, "aside": [[1, 1]]}, 3):
            move = harness.within(again, cursor)
            assert harness.commit(move) == [ACCEPTED]
            again = after(again, move)
