"""Whether a checkpoint can be true: what is known of it, compared with what is kept.

Checkpoints move only with what they speak of, so none of this happens by itself. It happens when rows are edited by
hand, restored from different moments, or damaged by a disk. Then a guess would lose or repeat work: a person decides.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, ValidationError, convert

from holdfast.core.damage import parked_because
from holdfast.core.model import Checkpoint, Claim
from holdfast.core.plan import StepKind


class Traces(Struct, frozen=True):
    """What is kept for a document: the latest generation of anything (-1: none), and the extent of its present step.

    `plan_id` is the plan under which what is behind it was done.
    """

    latest: int
    extent: int
    plan_id: int


class Flaw(Struct, frozen=True):
    """What about a checkpoint cannot be true. What is kept is to be trusted before its step, or not at all."""

    what: str
    trust: Literal["behind", "nothing"] = "behind"


def damage(claim: Claim) -> Flaw | None:
    """Says what of a document's row cannot be read, if anything."""
    if not claim.damage:
        return _uncounted(claim)
    return Flaw(claim.damage, "behind" if claim.damage.startswith("its cursor") else "nothing")


def _uncounted(claim: Claim) -> Flaw | None:
    """Says which number is none: SQLite keeps in a column whatever somebody puts there."""
    at = claim.checkpoint
    if type(at.generation) is type(at.moves) is type(claim.attempts) is type(claim.crashes) is int:
        return None
    counts = {"generation": at.generation, "moves": at.moves, "attempts": claim.attempts, "crashes": claim.crashes}
    name, number = next((name, number) for name, number in counts.items() if type(number) is not int)
    return Flaw(f"its {name} cannot be read, for {number!r} is no number", "nothing")


def flaw(kind: StepKind, claim: Claim, traces: Traces) -> Flaw | None:
    """Says what about a checkpoint cannot be true, if anything.

    Of a stream's cursor only the stream knows what it means: a count may have gaps, and a token is anything. What can
    be known is that a step which has not begun has kept nothing.
    """
    at = claim.checkpoint
    for step, made in (claim.reuses or {}).items():
        if not is_earlier(made, at.generation):
            return Flaw(f"it is of generation {at.generation} and reuses generation {made!r} of {step!r}", "nothing")
    if traces.latest > at.generation:
        return Flaw(f"it is of generation {at.generation}, and items of generation {traces.latest} are kept", "nothing")
    if at.cursor is None and traces.extent:
        return Flaw(f"it has not begun step {at.step!r}, and {traces.extent} items of this step are kept")
    if at.cursor is not None and kind == "value":
        return Flaw(f"it is at {at.cursor!r} inside step {at.step!r}, which returns at once and has no inside")
    return None


def is_earlier(made: Any, generation: int) -> bool:
    """Answers whether this is an earlier generation, and a number at all."""
    return type(made) is int and 0 <= made < generation


class _Cursor(Struct, forbid_unknown_fields=True):
    next: int = 0
    done: list[tuple[int, int]] = []
    aside: list[tuple[int, int]] = []


def misplaced(at: Checkpoint, total: int) -> Flaw | None:
    """Says what about the cursor of a step over items cannot be true, if anything: it walks over `total` items."""
    where = f"the cursor {at.cursor!r} is no position in step {at.step!r}, which walks over"
    try:
        cursor = convert(
            {"next": at.cursor or 0} if at.cursor is None or type(at.cursor) is int else at.cursor, _Cursor
        )
    except ValidationError:
        return Flaw(f"{where} items")
    spans = [(0, cursor.next), *cursor.done, *((place, place + 1) for place, _ in cursor.aside)]
    sound = all(0 <= start <= stop <= total for start, stop in spans) and all(tries > 0 for _, tries in cursor.aside)
    return None if sound else Flaw(f"{where} {total} items")


def parked(claim: Claim, flaw: Flaw, *, first: str) -> str:
    """Gives the reason with which a damaged document is parked: what is wrong, and what to do."""
    behind = claim.checkpoint.step if flaw.trust == "behind" else None
    return parked_because(flaw.what, to=behind or first) + ", or submit it again if its payload is gone"
