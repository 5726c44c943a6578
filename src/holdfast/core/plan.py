"""Plans as data: what a pipeline looks like to a store, and whether documents can go on under a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.damage import parked_because
from holdfast.core.errors import PlanRefused
from holdfast.core.model import OPEN_STATES, State

StepKind = Literal["value", "stream", "over", "gate"]

Orders = Mapping[int, Sequence[str]]
"""The steps of each plan that a pipeline ever had, in order, under the names they have now."""

Crowd = tuple[int, list[str]]
"""How many documents, and the first three by name."""

Pinned = Callable[[Sequence[int], Sequence[State], str | None], Crowd]
"""Finds the documents that are pinned to these plans, in these states, at this step or at any."""

REORDERED = "the order of the steps changed"

_in_order = msgspec.json.Encoder(order="deterministic").encode


class StepShape(Struct, frozen=True, omit_defaults=True):
    """What a store remembers of a step. One that is gone was taken out before what comes after it was made."""

    name: str
    kind: StepKind
    version: int = 1
    over: str | None = None
    keep: bool = True
    settings: Any = None
    gone: bool = False


class Shape(Struct, frozen=True):
    """What a store remembers of a pipeline. Documents are pinned to the shape they were last worked under."""

    pipeline: str
    steps: tuple[StepShape, ...]
    renamed: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in order."""
        return tuple(step.name for step in self.steps)

    @property
    def gates(self) -> tuple[str, ...]:
        """The names of the gates, in order."""
        return tuple(step.name for step in self.steps if step.kind == "gate")

    def digest(self) -> str:
        """Gives a mark that is equal for equal steps, whatever they were called before."""
        return blake2b(_in_order(self.steps), digest_size=16).hexdigest()

    def mark(self, step_ids: Sequence[int]) -> str:
        """Gives the mark by which a store knows a plan: equal steps, which are the very same in the store."""
        return blake2b(_in_order((self.steps, step_ids)), digest_size=16).hexdigest()

    def called(self, names: Sequence[str]) -> Shape:
        """Gives the same steps under other names, those that they have now."""
        now = dict(zip(self.names, names, strict=True))
        steps = [replace(step, name=now[step.name], over=now.get(step.over or "", step.over)) for step in self.steps]
        return Shape(self.pipeline, tuple(steps))


def same_json(one: Any, other: Any) -> bool:
    """Answers whether two values are the same JSON: 1 is neither 1.0 nor true, and the order of keys says nothing."""
    return _in_order(one) == _in_order(other)


def lost(shape: Shape) -> str:
    """Says why a document is parked that stands at a step which its pipeline never had."""
    return parked_because("it stands at a step that the store does not know", to=shape.names[0])


def refuse_if_stranded(shape: Shape, stranded: Mapping[str, Crowd], orders: Orders) -> None:
    """Raises PlanRefused when open documents stand at steps that the shape lacks; says which map to declare."""
    if not stranded:
        return
    lines = [f"  {count} at {step!r}, such as {_named(keys)}" for step, (count, keys) in sorted(stranded.items())]
    raise PlanRefused(
        f"pipeline {shape.pipeline!r} has no longer the steps at which documents stand:\n"
        + "\n".join(
            [*lines, f"Its steps are now: {', '.join(shape.names)}.", *_ways_out(shape, sorted(stranded), orders)]
        )
    )


def _ways_out(shape: Shape, stranded: Sequence[str], orders: Orders) -> Iterator[str]:
    heirs = _heirs([step for step in stranded if step not in shape.renamed], shape.names, orders)
    if heirs:
        yield (
            f"If this is where they go on, write Pipeline({shape.pipeline!r}, renamed={shape.renamed | heirs}); "
            "otherwise name other steps, or bring the old ones back until the documents are done."
        )
    for step in stranded:
        if step in shape.renamed:
            yield (
                f"{step!r} is renamed already, but workers of the earlier shape hold its documents: stop them, then "
                "try again."
            )
        elif step not in heirs:
            yield f"Nothing comes after {step!r} any more: bring it back until its documents are done."


def _heirs(gone: Sequence[str], now: Sequence[str], orders: Orders) -> dict[str, str]:
    """Guesses where documents go on whose steps are gone: at the new step in its place, else at the next that is left.

    A new name is taken by the first step that the map leads to it: its own, or the latest, so that nobody is sent back.
    """
    renamed: dict[str, str] = {}
    joined: list[tuple[int, str, str]] = []
    for step in gone:
        before = next((order for order in reversed([*orders.values()]) if step in order), [step])
        place = before.index(step)
        heir, *later = [name if name in now else None for name in _renamed(before, now)[place:]]
        if heir:
            renamed[step] = heir
        elif heir := next(filter(None, later), None):
            joined.append((place, step, heir))
    return renamed | {step: heir for _, step, heir in sorted(joined, reverse=True)}


def _renamed(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Gives the order as it was, with new names for steps that are gone: the likest of their place, else the first."""
    from difflib import get_close_matches  # slow to import, and seldom needed

    names = [*before]
    for alike in (True, False):
        for place, step in enumerate(before):
            new = [name for name in _between_neighbours(place, names, now) if name not in names]
            best = get_close_matches(step, new, n=1) if alike else new[:1]
            if names[place] not in now and best:
                names[place] = best[0]
    return names


def _between_neighbours(place: int, names: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    start = max((now.index(name) + 1 for name in names[:place] if name in now), default=0)
    stop = min((now.index(name) for name in names[place + 1 :] if name in now), default=len(now))
    return now[start:stop]


def refuse_if_sent_back(shape: Shape, orders: Orders, pinned: Pinned) -> None:
    """Raises PlanRefused when `renamed` would set documents back to a step that is behind them."""
    for old, new in shape.renamed.items():
        back = [plan_id for plan_id, order in orders.items() if _is_before(order, new, old)]
        count, keys = pinned(back, (*OPEN_STATES, "dead"), old) if back else (0, [])
        if count:
            order = orders[back[-1]]
            later = [name for name in order[order.index(old) :] if name in shape.names]
            hint = f"Name a step that comes after {old!r}, such as {later[0]!r}, or bring" if later else "Bring"
            raise PlanRefused(
                f"renamed={{{old!r}: {new!r}}} would send documents back, over what they kept: {new!r} comes before "
                f"{old!r}.\n  {count} at {old!r}, such as {_named(keys)}\n{hint} {old!r} back until they are done."
            )


def refuse_if_reordered(shape: Shape, orders: Orders, pinned: Pinned) -> list[int]:
    """Raises PlanRefused when open documents were begun in another order. Answers the plans that have another."""
    others = {plan_id: swap for plan_id, order in orders.items() if (swap := _swapped(order, shape.names))}
    for plan_id, (first, then) in others.items():
        count, keys = pinned([plan_id], OPEN_STATES, None)
        if count:
            documents = "1 open document was" if count == 1 else f"{count} open documents were"
            raise PlanRefused(
                f"pipeline {shape.pipeline!r} has its steps in another order than {documents} begun with, such as "
                f"{_named(keys)}: {first!r} came before {then!r}.\nWhat they have behind them would be done twice or "
                f"left out. Keep the order {', '.join(orders[plan_id])} until they are done or cancelled, or give the "
                "pipeline another name."
            )
    return [*others]


def _swapped(before: Sequence[str], now: Sequence[str]) -> tuple[str, str] | None:
    """Finds two steps that both orders have, the other way round."""
    common = [name for name in before if name in now]
    return next(((first, then) for first, then in pairwise(common) if _is_before(now, then, first)), None)


def _is_before(order: Sequence[str], one: str, other: str) -> bool:
    return one in order and other in order and order.index(one) < order.index(other)


def _named(keys: Sequence[str]) -> str:
    return ", ".join(map(repr, keys))
