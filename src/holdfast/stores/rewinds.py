"""Which documents may be set back to a step, and what they reuse then: the same for every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.core.model import Plan

StepOrders = Mapping[int, Sequence[int]]
"""The numbers of the steps of each plan that a pipeline had, in order."""

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
        order = self._orders.get(place.plan_id, ())
        if place.cleaned or _common(order, self._now) != _common(self._now, order):
            return False
        if place.step_id is None:
            return {*self._before} <= {*order}
        return place.step_id in order and {*self._before} <= {*order[: order.index(place.step_id)]}

    def reuses(self, place: Place) -> Generations:
        """Gives what it reuses: of each step before, what served it until now."""
        return {step_id: place.generation_of(step_id) for step_id in self._before}


def _common(order: Sequence[int], other: Sequence[int]) -> list[int]:
    return [step_id for step_id in order if step_id in other]
