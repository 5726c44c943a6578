"""Extents: what a document records about its steps, so that damage is noticed when it is claimed.

A finished step has the number of items that it kept, with those that were set aside; -1 if it kept one value that is
not a list. Most documents keep about the same in each step, and the record is written with each move past a step. So it
is short: an entry holds for its step and for the steps before it, back to the previous entry. The last finished step
always has an entry.

The step in which a document is may have an entry too:

- A count, if it is ahead of the items that are kept: a stream that yielded nothing at some places, or a body over items
  that returned nothing for some. Without an entry each place has one item.
- -1 minus the number of items, if nothing else can be said about the cursor: the stream has cursors of its own, or the
  step keeps nothing.

A document that began before extents were recorded has the entry UNKNOWN. Then each entry holds for its step only, and
nothing is known about the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

Extents = Mapping[str, int]

UNKNOWN = "0"
"""The entry of a document of which not all is known. No step has this name or this id."""


def after_step(extents: Extents | None, step: str, kept: int) -> Extents:
    """Return the record of a document that ends a step. `kept` is the number of items; -1 for one value."""
    if not extents:
        return _only(step, kept)
    if UNKNOWN in extents:
        return {**extents, step: kept}
    if len(extents) == 1:
        ((name, number),) = extents.items()
        if number == kept or name == step:
            return _only(step, kept)
    ended = {name: number for name, number in extents.items() if name != step}
    last = next(reversed(ended))
    if ended[last] == kept:
        del ended[last]
    return {**ended, step: kept}


@lru_cache(4096)
def _only(step: str, kept: int) -> Extents:
    """Return a record with one entry: always the same object, so that stores see which documents go the same way."""
    return {step: kept}


def inside_step(extents: Extents | None, step: str, mark: int) -> Extents | None:
    """Return the record of a document that moves inside a step. Return None if it does not change: nearly always."""
    before = extents or {}
    if mark == before.get(step, 0) and (mark or step not in before):
        return None
    rest = {name: number for name, number in before.items() if name != step}
    return {**rest, step: mark} if mark else rest


def place_mark(places: Any, items: int, *, keeps: bool = True) -> int:
    """Return the entry of a step inside which a document is.

    Args:
        places: How many places are done: the count of a stream, or the items that a step over items processed. Anything
            else if the stream has cursors of its own.
        items: How many items the step has kept so far.
        keeps: False for a step that keeps nothing.
    """
    return places - items if keeps and type(places) is int and places >= items else -1 - items


def items_expected(mark: int, places: Any) -> int | None:
    """Return how many items a step must have kept so far. Return None if its cursor cannot belong to its entry."""
    if mark < 0:
        return -1 - mark
    return places - mark if type(places) is int and places >= mark else None


def of_finished_steps(extents: Extents, steps: Sequence[str]) -> dict[str, int]:
    """Return what finished steps kept, as recorded. Steps of which nothing is known are left out.

    Args:
        extents: The record.
        steps: The finished steps, in order.
    """
    found: dict[str, int] = {}
    kept: int | None = None
    for step in reversed(steps):
        kept = extents.get(step, None if UNKNOWN in extents else kept)
        if kept is not None:
            found[step] = kept
    return found


def of_reused_steps(extents: Extents | None, order: Sequence[str], reused: Collection[str]) -> dict[str, int]:
    """Return the record of a document that was rewound: of the steps that it reuses.

    Args:
        extents: The record before.
        order: The steps that the document did before, in order.
        reused: The steps whose items it reuses, without gates.
    """
    before = extents or {}
    found = of_finished_steps(before, order)
    kept = {step: found[step] for step in order if step in reused and step in found}
    is_complete = len(kept) == len(reused) and UNKNOWN not in before
    return kept if is_complete else {UNKNOWN: 1, **kept}
