"""Which moves are allowed: to the one successor of a step, or further inside the step. The same for every store.

The executor makes no other moves. A store checks them all the same, because it is the last guard: a move that jumps
over a step, or goes back, would be durable, and nobody would notice that work is missing or done twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import ValidationError

from holdfast.core.errors import MoveRefused
from holdfast.core.item_windows import Windows, windows_cursor
from holdfast.core.model import Checkpoint, Plan, StepKind
from holdfast.core.moves import Move

REFUSED: Literal["refused"] = "refused"
"""No kind of step: the plan has no such move."""


def refused_moves(plan: Plan, moves: Sequence[Move]) -> dict[int, MoveRefused]:
    """Return the moves of a group that the plan does not allow, by their place in the group: nearly always none."""
    refused: dict[int, MoveRefused] = {}
    stays = plan.transitions.get
    for place, move in enumerate(moves):
        before, after, items = move.before, move.after, move.items
        step = before.step
        kind = stays((step, after.step, move.state), REFUSED)
        if kind is None:
            if after.cursor is not None:
                refused[place] = _refusal(move, "a step begins without a cursor")
        elif kind == REFUSED:
            refused[place] = _refusal(move, _wrong_step(plan, move))
        elif not _is_further(kind, before.cursor, after.cursor):
            refused[place] = _refusal(move, "a cursor has to move forward")
        if after.moves != before.moves + 1 or after.generation != before.generation:
            refused[place] = _refusal(move, _wrong_count(move))
        if items and (items[0].step != step or (len(items) > 1 and {item.step for item in items} != {step})):
            refused[place] = _refusal(move, f"the move has items of step {_other_step(move)!r}")
    return refused


def _is_further(kind: StepKind, before: Any, after: Any) -> bool:
    if type(before) is int and type(after) is int:
        return before < after
    return _covers_more(before, after) if kind == "over" else moved_on(before, after)


def moved_on(before: Any, after: Any) -> bool:
    """Return True if the cursor of a stream may follow another. Numbers have to grow; anything else has to differ."""
    if after is None or after == before:
        return False
    numbers = isinstance(before, (int, float)) and isinstance(after, (int, float))
    return not numbers or after > before


def _covers_more(before: Any, after: Any) -> bool:
    """Return True if a cursor over items goes on from another: what is done or was set aside stays so.

    An item that was set aside may be done later, or fail again after more tries.
    """
    try:
        is_position = windows_cursor(after).is_valid()
    except ValidationError:
        return False
    earlier, later = Windows(0, cursor=before), Windows(0, cursor=after)
    if not is_position or later.cursor() == earlier.cursor() or not later.covers(earlier):
        return False
    return all(later.aside[place] >= tries for place, tries in earlier.aside.items() if place in later.aside)


def _refusal(move: Move, why: str) -> MoveRefused:
    before, after = move.before, move.after
    return MoveRefused(
        f"the document {move.claim.key!r} cannot go from {_place(before)} to {_place(after)}: {why}. Nothing was "
        "written. To go back on purpose, rewind the document"
    )


def _place(at: Checkpoint) -> str:
    if at.step is None:
        return "its end"
    return f"{at.step!r}" if at.cursor is None else f"{at.cursor!r} in {at.step!r}"


def _wrong_step(plan: Plan, move: Move) -> str:
    before, after = move.before.step, move.after.step
    for step in (before, after):
        if step is not None and step not in plan.step_ids:
            return f"pipeline {plan.pipeline!r} has no step {step!r}"
    if before in plan.gates:
        return f"{before!r} is a gate, and only a decision passes it"
    if before is not None and before == after:
        return f"it would be {move.state} there" if move.state != "running" else f"{before!r} has no cursor"
    for start, successor, state in plan.transitions:
        if start == before != successor:
            then = f"the next step is {successor!r}" if successor else f"{before!r} is the last step"
            return f"it would be {move.state} there, not {state}" if successor == after else then
    return "a document that is at its end does not move"


def _wrong_count(move: Move) -> str:
    before, after = move.before, move.after
    if after.moves != before.moves + 1:
        return f"it has made {before.moves} moves, and this would be number {after.moves}"
    return f"it is of generation {before.generation}, and would become one of generation {after.generation}"


def _other_step(move: Move) -> str:
    return next(item.step for item in move.items if item.step != move.before.step)
