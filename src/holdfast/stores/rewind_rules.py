"""Which documents may be rewound or withdrawn, and what is recorded about their rows: the same for every store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from holdfast.core.extents import of_reused_steps
from holdfast.core.model import DocumentStatus, Plan, WrittenRows
from holdfast.core.plan import Shape
from holdfast.stores.json_fields import NumbersBySteps, by_name


class StepOrder(NamedTuple):
    """The ids of a plan's steps, in order. What removed steps kept is not reused."""

    step_ids: Sequence[int]
    gone: frozenset[int] = frozenset()

    def done_before(self, *ahead: int | None) -> list[int]:
        """Return the steps before the first of these; all steps if none of them is in the plan."""
        behind = takewhile(lambda step_id: step_id not in ahead, self.step_ids)
        return [step_id for step_id in behind if step_id not in self.gone]


StepOrders = Mapping[int, StepOrder]
"""The steps of each plan that a pipeline had."""

Generations = dict[int, int]
"""Which generation's items serve each step."""


class Place(NamedTuple):
    """Where a document is: at a step, or at its end, after all that its plan has before that."""

    step_id: int | None
    plan_id: int
    generation: int
    reuses: Generations | None
    cleaned: bool
    extents: Mapping[int, int] | None = None

    def generation_of(self, step_id: int) -> int:
        """Return which generation's items serve a step."""
        return (self.reuses or {}).get(step_id, self.generation)


class Rewind:
    """A rewind to one step of a plan."""

    def __init__(self, plan: Plan, to: str, orders: StepOrders) -> None:
        self._now = [*plan.step_ids.values()]
        self._before = [plan.step_ids[step] for step in plan.before(to)]
        self._gates = frozenset(plan.gate_ids)
        self._orders = orders

    @property
    def restarts(self) -> bool:
        """True if it goes to the first step: nothing is reused, so what was done before does not matter."""
        return not self._before

    def allows(self, place: Place) -> bool:
        """Return True if a document did all that it would reuse, in the order that the plan has now."""
        if self.restarts:
            return True
        order = self._orders.get(place.plan_id, NO_ORDER)
        if place.cleaned or _common(order.step_ids, self._now) != _common(self._now, order.step_ids):
            return False
        known = place.step_id is None or place.step_id in order.step_ids
        return known and {*self._before} <= {*order.done_before(place.step_id)}

    def reuses(self, place: Place) -> Generations:
        """Return which generation serves each step that a document did before the step.

        It may include a step that the plan lacks now: the step may come back, and its items must still be found.
        """
        if self.restarts:
            return {}
        ahead = self._now[len(self._before) :]
        done = self._orders.get(place.plan_id, NO_ORDER).done_before(place.step_id, *ahead)
        return {step_id: place.generation_of(step_id) for step_id in done}

    def extents(self, place: Place) -> dict[int, int] | None:
        """Return what is recorded about the steps that a document reuses after the rewind."""
        reused = [str(step_id) for step_id in self.reuses(place) if step_id not in self._gates]
        if not reused:
            return None
        order = [str(step_id) for step_id in self._orders.get(place.plan_id, NO_ORDER).step_ids]
        before = {str(step_id): kept for step_id, kept in (place.extents or {}).items()}
        return {int(step): kept for step, kept in of_reused_steps(before, order, reused).items()}


NO_ORDER = StepOrder(())


def order_of(shape: Shape, step_ids: Sequence[int]) -> StepOrder:
    """Return the step order of a plan."""
    steps = zip(step_ids, shape.steps, strict=True)
    return StepOrder(step_ids, frozenset(step_id for step_id, step in steps if step.gone))


def _common(order: Sequence[int], other: Sequence[int]) -> list[int]:
    return [step_id for step_id in order if step_id in other]


def written_rows(
    plan: Plan, documents: Sequence[DocumentStatus], numbers: Sequence[Sequence[NumbersBySteps]]
) -> list[WrittenRows]:
    """Return documents with the generations that wrote their rows, and those that they reuse, by names of steps."""
    every, names = plan.all_names, plan.names
    return [
        WrittenRows(document, by_name(effects, every), by_name(reuses, names))
        for document, (effects, reuses) in zip(documents, numbers, strict=True)
    ]


def is_withdrawable(plan: Plan, written: WrittenRows) -> bool:
    """Return True if a withdrawal changes a document. One that was cancelled before may still have rows."""
    has_rows = written.effects is None or any(step in plan.step_ids for step in written.effects)
    return has_rows or written.document.state != "cancelled"


def rows_that_stay(plan: Plan, effects: NumbersBySteps) -> dict[int, int]:
    """Return what is still recorded after a withdrawal: the rows of steps that the plan does not have."""
    known = plan.step_ids.values()
    return {step_id: generation for step_id, generation in (effects or {}).items() if step_id not in known}
