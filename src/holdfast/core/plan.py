"""Plans as data: what a pipeline looks like to a store, and whether documents can go on under a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from holdfast.core.codec import encode_json
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


class StepShape(Struct, frozen=True):
    """What a store remembers of a step."""

    name: str
    kind: StepKind
    version: int = 1
    over: str | None = None
    keep: bool = True


class Shape(Struct, frozen=True):
    """What a store remembers of a pipeline. Documents are pinned to the shape they were last worked under."""

    pipeline: str
    steps: tuple[StepShape, ...]
    renamed: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in order."""
        return tuple(step.name for step in self.steps)

    def digest(self) -> str:
        """Gives a mark that is equal for equal steps, whatever they were called before."""
        return blake2b(encode_json(self.steps).encode(), digest_size=16).hexdigest()


def refuse_if_stranded(shape: Shape, stranded: Mapping[str, Crowd]) -> None:
    """Raises PlanRefused when open documents stand at steps that the shape lacks; says how to declare the map."""
    if not stranded:
        return
    lines = [f"  {count} at {step!r}, such as {_named(keys)}" for step, (count, keys) in sorted(stranded.items())]
    example = ", ".join(f"{step!r}: ..." for step in sorted(stranded))
    raise PlanRefused(
        f"pipeline {shape.pipeline!r} has no longer the steps at which documents stand:\n"
        + "\n".join(lines)
        + f"\nIts steps are now: {', '.join(shape.names)}. Say at which of these the documents go on: "
        f"Pipeline({shape.pipeline!r}, renamed={{{example}}}), or bring the steps back."
    )


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
