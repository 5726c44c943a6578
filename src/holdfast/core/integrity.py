"""Check whether a checkpoint can be true, by comparing it with what the store keeps.

A checkpoint is committed together with the items that it counts, so both always agree. They disagree only if rows were
edited by hand, restored from different backups, or damaged by a disk. Then a guess would lose or repeat work, so a
person decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, ValidationError

from holdfast.core.extents import UNKNOWN, items_expected, of_finished_steps
from holdfast.core.item_windows import Windows, windows_cursor
from holdfast.core.model import WHOLE, Checkpoint, Claim, Damage, StepKind
from holdfast.core.plan import Shape, StepShape
from holdfast.core.reasons import DAMAGED, DAMAGED_STEP, sentence


class StepItems(Struct, frozen=True):
    """What a store keeps of one step of a document: the number of items, of whole values, and of items set aside."""

    items: int = 0
    whole: int = 0
    aside: int = 0

    def is_extent(self, extent: int) -> bool:
        """Return True if a step that kept this can have the extent that was recorded when it ended."""
        if extent == WHOLE:
            return (self.items, self.whole, self.aside) == (0, 1, 0)
        return not self.whole and self.items + self.aside == extent

    def __str__(self) -> str:
        return f"{self.items + self.whole}" + (f" and {self.aside} set aside" if self.aside else "")


NO_ITEMS = StepItems()


class KeptState(Struct, frozen=True):
    """What the store keeps for a document.

    Attributes:
        latest: The latest generation of which there is an item; -1 if there is none.
        extent: One more than the last position of its current step.
        plan_id: The plan under which its earlier steps were done.
        steps: What each of its steps kept, in the generation that it uses. None if that takes long to count.
    """

    latest: int
    extent: int
    plan_id: int
    steps: Mapping[str, StepItems] | None = None


MANY_ITEMS = 10_000
"""A document with more items than this in one step is counted by a thread of its own, not with all others."""


def takes_long_to_count(claim: Claim) -> bool:
    """Return True if a document has too many items to count while others wait."""
    cursor = claim.checkpoint.cursor
    places = cursor.get("next") if isinstance(cursor, dict) else cursor
    places = places if type(places) is int else 0
    return max((places, *map(abs, (claim.extents or {}).values()))) > MANY_ITEMS


def row_damage(claim: Claim) -> Damage | None:
    """Return what of a document's row cannot be read."""
    return claim.damage or _number_damage(claim)


def _number_damage(claim: Claim) -> Damage | None:
    """Return which count is not a number. SQLite tables made before strict tables take any value."""
    at = claim.checkpoint
    if type(at.generation) is type(at.moves) is type(claim.attempts) is type(claim.crashes) is int:
        return None
    counts = {"generation": at.generation, "moves": at.moves, "attempts": claim.attempts, "crashes": claim.crashes}
    name, number = next((name, number) for name, number in counts.items() if type(number) is not int)
    return Damage(f"its {name} cannot be read: {number!r} is not a number", "nothing")


def checkpoint_damage(kind: StepKind, claim: Claim, kept: KeptState) -> Damage | None:
    """Return what about a checkpoint cannot be true, without counting items."""
    at = claim.checkpoint
    for step, made in (claim.reuses or {}).items():
        if not is_earlier(made, at.generation):
            return Damage(f"it is of generation {at.generation} and reuses generation {made!r} of {step!r}", "nothing")
    if kept.latest > at.generation:
        return Damage(f"it is of generation {at.generation}, and items of generation {kept.latest} are kept", "nothing")
    if at.cursor is None and kept.extent:
        return Damage(f"it has not begun step {at.step!r}, and {kept.extent} items of this step are kept")
    if at.cursor is not None and kind == "value":
        return Damage(f"it is at {at.cursor!r} inside step {at.step!r}, which has no cursor")
    return None


def order_damage(claim: Claim, shape: Shape) -> Damage | None:
    """Return what is wrong if a document is not at the step after the last one that it finished.

    Args:
        claim: The document.
        shape: The plan under which its earlier steps were done.
    """
    at, extents = claim.checkpoint, claim.extents or {}
    behind = steps_behind(shape, at.step)
    ahead = [step.name for step in shape.steps[len(behind) :] if step.name != at.step or at.cursor is None]
    if ended := next((step for step in ahead if step in extents), None):
        return Damage(f"it is at step {at.step!r}, and step {ended!r} has ended already")
    if UNKNOWN in extents:
        return None
    done = [step.name for step in behind if step.kind != "gate"]
    last = next((step.name for step in reversed(behind) if step.kind != "gate" and not step.gone), None)
    if last is not None and not any(step in extents for step in done[done.index(last) :]):
        return Damage(f"it is at step {at.step!r}, and step {last!r} before it has not ended", "nothing")
    return None


def steps_behind(shape: Shape, at: str | None) -> Sequence[StepShape]:
    """Return the steps of a plan before one; none if the plan does not have it."""
    return shape.steps[: shape.names.index(at)] if at in shape.names else ()


def count_damage(claim: Claim, shape: Shape, kept: Mapping[str, StepItems]) -> Damage | None:
    """Return which step did not keep as many items as were recorded when it ended.

    Args:
        claim: The document.
        shape: The plan under which its earlier steps were done.
        kept: What each step kept.
    """
    at = claim.checkpoint
    counts = kept.get(at.step or "", NO_ITEMS)
    if at.cursor is None and counts != NO_ITEMS:
        return Damage(f"it has not begun step {at.step!r}, and {counts} items of this step are kept")
    behind = [step for step in steps_behind(shape, at.step) if step.kind != "gate"]
    gone = {step.name for step in behind if step.gone}
    for step, extent in of_finished_steps(claim.extents or {}, [step.name for step in behind]).items():
        found = kept.get(step, NO_ITEMS)
        if step not in gone and not found.is_extent(extent):
            ended = "one value" if extent == WHOLE else f"{extent} items"
            return Damage(f"step {step!r} ended with {ended}, and {found} are kept", "nothing")
    return None


def stream_damage(claim: Claim, extent: int, counts: StepItems | None) -> Damage | None:
    """Return what is wrong if the cursor of a stream does not belong to the items that the stream kept.

    A count is compared with the items. What a cursor of the stream's own means, only the stream knows. But the number
    of items is recorded with it.

    Args:
        claim: The document, inside the stream.
        extent: One more than the last position of the stream.
        here: What the stream kept; None if it was not counted.
    """
    at, extents = claim.checkpoint, claim.extents or {}
    if UNKNOWN in extents and at.step not in extents:
        return None
    expected = items_expected(extents.get(at.step or "", 0), at.cursor)
    if expected is None:
        return Damage(f"the cursor {at.cursor!r} of step {at.step!r} is not the count of its items, which is recorded")
    return _items_damage(at, expected, found=extent if counts is None else counts.items, last=extent)


def windows_damage(claim: Claim, counts: StepItems | None) -> Damage | None:
    """Return what is wrong if the cursor of a step over items does not belong to what the step kept.

    Args:
        claim: The document, inside the step, with a cursor that can be one (see `cursor_damage`).
        here: What the step kept; None if it was not counted.
    """
    at, extents = claim.checkpoint, claim.extents or {}
    if counts is None or (UNKNOWN in extents and at.step not in extents):
        return None
    windows = Windows(0, cursor=at.cursor)
    expected = items_expected(extents.get(at.step or "", 0), windows.done_places)
    if expected is None:
        return Damage(f"the cursor {at.cursor!r} of step {at.step!r} has fewer places than were recorded")
    if counts.aside != len(windows.aside):
        return Damage(f"{len(windows.aside)} items of step {at.step!r} were set aside, and {counts.aside} are kept")
    return _items_damage(at, expected, found=counts.items, last=None)


def _items_damage(at: Checkpoint, expected: int, *, found: int, last: int | None) -> Damage | None:
    if found == expected and last in (expected, None):
        return None
    missing = "" if last is None or last == found else f", the last one at position {last - 1}"
    where = f"it is at {at.cursor!r} inside step {at.step!r}"
    return Damage(f"{where}, which has kept {expected} items by then, and {found} are kept{missing}")


def is_earlier(made: Any, generation: int) -> bool:
    """Return True if a value is an earlier generation. It may be no number at all."""
    return type(made) is int and 0 <= made < generation


def cursor_damage(at: Checkpoint, total: int) -> Damage | None:
    """Return what about the cursor of a step over items cannot be true. The step has `total` items."""
    where = f"the cursor {at.cursor!r} is not a position in step {at.step!r}, which has"
    try:
        is_valid = windows_cursor(at.cursor).is_valid(total)
    except ValidationError:
        return Damage(f"{where} items")
    return None if is_valid else Damage(f"{where} {total} items")


def parking_of(damage: Damage, *, step: str | None, first: str) -> tuple[str, str]:
    """Return the code and the sentence with which a damaged document is parked.

    Args:
        damage: What is wrong.
        step: The step where the document is.
        first: The first step of its pipeline.
    """
    if damage.trusted == "nothing":
        return DAMAGED, sentence(DAMAGED, what=damage.what, to=first)
    return DAMAGED_STEP, sentence(DAMAGED_STEP, what=damage.what, to=step or first)
