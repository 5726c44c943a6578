"""Which documents may be set back to a step, and what they reuse then: the same for every store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from holdfast.core.codec import decode_json
from holdfast.core.model import Plan
from holdfast.core.plan import Shape
from holdfast.stores.rows import read_shape


class StepOrder(NamedTuple):
    """The numbers of a plan's steps, in order. What those that are gone kept serves nobody any more."""

    step_ids: Sequence[int]
    gone: frozenset[int] = frozenset()

    def done_before(self, *ahead: int | None) -> list[int]:
        """Gives what a document did before the first of these steps; all, if none of them is among its own."""
        behind = takewhile(lambda one: one not in ahead, self.step_ids)
        return [one for one in behind if one not in self.gone]


StepOrders = Mapping[int, StepOrder]
"""The steps of each plan that a pipeline had."""

Generations = dict[int, int]
"""Which generation's items serve each step."""


class Place(NamedTuple):
    """Where a document stands: at a step, or at its end, having done what its plan has before that."""

    step_id: int | None
    plan_id: int
    generation: int
    reuses: Generations | None
    cleaned: bool

    def generation_of(self, step_id: int) -> int:
        """Answers which generation's items serve a step."""
        return (self.reuses or {}).get(step_id, self.generation)


class Rewinding:
    """A rewind to one step of a plan."""

    def __init__(self, plan: Plan, to: str, orders: StepOrders) -> None:
        self._now = [*plan.step_ids.values()]
        self._before = [plan.step_ids[step] for step in plan.before(to)]
        self._orders = orders

    @property
    def begins_anew(self) -> bool:
        """Whether it goes to the first step: nothing is reused, so whatever was done before may be forgotten."""
        return not self._before

    def may_take(self, place: Place) -> bool:
        """Answers whether a document did all that it would reuse, in the order that the plan has now."""
        if self.begins_anew:
            return True
        order = self._orders.get(place.plan_id, NO_ORDER)
        if place.cleaned or _common(order.step_ids, self._now) != _common(self._now, order.step_ids):
            return False
        known = place.step_id is None or place.step_id in order.step_ids
        return known and {*self._before} <= {*order.done_before(place.step_id)}

    def reuses(self, place: Place) -> Generations:
        """Gives what it reuses: of each step that a document did before, what served it until now.

        That may be a step which the plan lacks: it may come back, and nobody would see that what it kept is gone.
        """
        if self.begins_anew:
            return {}
        ahead = self._now[len(self._before) :]
        done = self._orders.get(place.plan_id, NO_ORDER).done_before(place.step_id, *ahead)
        return {step_id: place.generation_of(step_id) for step_id in done}


NO_ORDER = StepOrder(())


def order_of(shape: Shape, step_ids: Sequence[int]) -> StepOrder:
    """Gives the order of a plan."""
    steps = zip(step_ids, shape.steps, strict=True)
    return StepOrder(step_ids, frozenset(step_id for step_id, step in steps if step.gone))


def orders_of(rows: Iterable[tuple[Any, ...]]) -> StepOrders:
    """Gives the orders of rows of hf_plan (id, shape, step_ids)."""
    return {
        plan_id: order_of(read_shape(shape, row=f"{plan_id} of hf_plan"), decode_json(step_ids))
        for plan_id, shape, step_ids, *_ in rows
    }


def _common(order: Sequence[int], other: Sequence[int]) -> list[int]:
    return [step_id for step_id in order if step_id in other]
