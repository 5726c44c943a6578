"""Whether a checkpoint can be true: what is known of it, compared with what is kept.

Checkpoints move only with what they speak of, so none of this happens by itself. It happens when rows are edited by
hand, restored from different moments, or damaged by a disk. Then a guess would lose or repeat work: a person decides.
"""

from __future__ import annotations

from shlex import quote
from typing import Any

from msgspec import Struct, ValidationError, convert

from holdfast.core.model import Checkpoint, Claim
from holdfast.core.plan import StepKind


class Traces(Struct, frozen=True):
    """What is kept for a document: the latest generation of anything (-1: none), and the extent of its present step."""

    latest: int
    extent: int


def flaw(kind: StepKind, claim: Claim, traces: Traces) -> str | None:
    """Says what about a checkpoint cannot be true, if anything.

    Of a stream's cursor only the stream knows what it means: a count may have gaps, and a token is anything. What can
    be known is that a step which has not begun has kept nothing.
    """
    at = claim.checkpoint
    reused = [(step, made) for step, made in (claim.reuses or {}).items() if not _is_earlier(made, at.generation)]
    if reused:
        step, made = reused[0]
        return f"it is of generation {at.generation} and reuses generation {made!r} of step {step!r}"
    if traces.latest > at.generation:
        return f"it is of generation {at.generation}, and items of generation {traces.latest} are kept"
    if at.cursor is None and traces.extent:
        return f"it has not begun step {at.step!r}, and {traces.extent} items of this step are kept"
    if at.cursor is not None and kind == "value":
        return f"it is at {at.cursor!r} inside step {at.step!r}, which returns at once and has no inside"
    return None


def _is_earlier(made: Any, generation: int) -> bool:
    return type(made) is int and 0 <= made < generation


class _Cursor(Struct, forbid_unknown_fields=True):
    next: int = 0
    done: list[tuple[int, int]] = []
    aside: list[tuple[int, int]] = []


def misplaced(at: Checkpoint, total: int) -> str | None:
    """Says what about the cursor of a step over items cannot be true, if anything: it walks over `total` items."""
    where = f"the cursor {at.cursor!r} is no position in step {at.step!r}, which walks over"
    try:
        cursor = convert(
            {"next": at.cursor or 0} if at.cursor is None or type(at.cursor) is int else at.cursor, _Cursor
        )
    except ValidationError:
        return f"{where} items"
    spans = [(0, cursor.next), *cursor.done, *((place, place + 1) for place, _ in cursor.aside)]
    sound = all(0 <= start <= stop <= total for start, stop in spans) and all(tries > 0 for _, tries in cursor.aside)
    return None if sound else f"{where} {total} items"


def parked(claim: Claim, flaw: str) -> str:
    """Gives the reason with which a damaged document is parked: what is wrong, and what to do."""
    key = quote(claim.key)
    return (
        f"its checkpoint is damaged: {flaw}. Nothing was guessed: look at it with `holdfast show {key}`, then set it "
        f"back to a step that is sound, such as `holdfast rewind {key} --to {claim.checkpoint.step}`"
    )
