"""Move rules: one table of allowed moves for each plan. Every store refuses all others: see the conformance suite."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.core.model import Checkpoint, Claim, Item, Plan
from holdfast.core.move_rules import moved_on, refused_moves
from holdfast.core.moves import Move

PLAN = Plan(
    "p", 1, 1, {"pages": 1, "check": 2, "split": 3, "walk": 4, "sign": 5}, ("stream", "gate", "value", "over", "gate")
)


def _move(before: Checkpoint, step: str | None, state: Any = "running", cursor: Any = None, **more: Any) -> Move:
    claim = Claim(1, 1, "b", "a", None, "", before, 1, 0, timedelta(0))
    return Move(claim, before, Checkpoint(0, step, cursor, before.moves + 1), state, **more)


def test_the_table_has_one_successor_for_each_step_and_none_for_a_gate() -> None:
    assert PLAN.transitions == {
        ("pages", "pages", "running"): "stream",
        ("pages", "check", "paused"): None,
        ("pages", "check", "running"): None,
        ("split", "walk", "running"): None,
        ("walk", "walk", "running"): "over",
        ("walk", "sign", "paused"): None,
        ("walk", "sign", "running"): None,
    }
    assert Plan("p", 1, 1, {"only": 1}, ("value",)).transitions == {("only", None, "done"): None}


def test_each_refused_move_of_a_group_is_named_by_its_place() -> None:
    start = Checkpoint(0, "split", None, 3)
    moves = [_move(start, "walk"), _move(start, "sign"), _move(start, "walk"), _move(start, "pages")]
    refused = refused_moves(PLAN, moves)
    assert [*refused] == [1, 3]
    assert str(refused[1]) == (
        "the document 'a' cannot go from 'split' to 'sign': the next step is 'walk'. Nothing was written. To go back "
        "on purpose, rewind the document"
    )


def test_a_document_at_its_end_does_not_move() -> None:
    (error,) = refused_moves(PLAN, [_move(Checkpoint(0, None, None, 3), "pages")]).values()
    assert "from its end to 'pages': a document that is at its end does not move" in str(error)


@pytest.mark.parametrize("steps", [["split", "split"], ["split"], []])
def test_items_of_the_step_itself_are_allowed(steps: list[str]) -> None:
    items = [Item(step, place, "1") for place, step in enumerate(steps)]
    assert refused_moves(PLAN, [_move(Checkpoint(0, "split", None, 3), "walk", items=items)]) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, 0), (None, -5), (1, 2), (1, 1.5), ("a", "b"), ("b", "a"), (3, "x"), ("x", 3), ([1], [0])],
)
def test_a_cursor_may_follow_another(before: Any, after: Any) -> None:
    assert moved_on(before, after)


@pytest.mark.parametrize(("before", "after"), [(None, None), (3, None), (2, 1), (2, 2), (2, 2.0), (1.5, 1), ("a", "a")])
def test_a_cursor_may_not_follow_another(before: Any, after: Any) -> None:
    assert not moved_on(before, after)
