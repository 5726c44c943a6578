"""Which items that were set aside may be tried again, and where their documents go on: the same for every store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from msgspec import ValidationError
from msgspec.structs import replace

from holdfast.core.extents import inside_step, place_mark
from holdfast.core.item_windows import Windows
from holdfast.core.model import Plan, State
from holdfast.core.plan import Shape, StepShape, same_json
from holdfast.core.reasons import AT_GATE, QUESTION
from holdfast.stores.rewind_rules import Place, Rewind, StepOrders

REDRIVABLE: tuple[State, ...] = ("waiting", "running", "paused", "done", "dead")
"""The states of documents whose items are tried again. A cancelled document stays cancelled."""


class KeptInStep(NamedTuple):
    """What a store keeps of a step over items for one document, and the number of items that the step gets."""

    items: int
    total: int
    asides: Mapping[int, int]
    """The number of tries of each item that was set aside, by position."""


class Reopened(NamedTuple):
    """Where a document goes on: a cursor that lacks some items, and what is recorded about its steps."""

    cursor: Any
    extents: dict[int, int] | None
    items: list[int]
    staying: list[int]
    """The positions of the items that stay set aside."""


class ItemRedrive:
    """A redrive of items of one step.

    Args:
        plan: The plan of the pipeline.
        step: The name of the step.
        orders: The steps of each plan of the pipeline, by plan id.
        shapes: The shape of each plan, with the current names of its steps.
    """

    def __init__(self, plan: Plan, step: str, orders: StepOrders, shapes: Mapping[int, Shape]) -> None:
        self.step_id = plan.step_ids[step]
        self.rewind = Rewind(plan, step, orders)
        self._orders = orders
        self._shapes = shapes
        self._step = step
        self._now = _step_of(shapes[plan.plan_id], step)
        self.source_id = plan.step_ids.get(self._now.over or "", 0) if self._now else 0

    def allows(self, place: Place, state: State, code: str) -> bool:
        """Return True if items of a document may be tried again: it began the step, as the step is now."""
        if self._now is None or self._now.kind != "over" or not self.source_id:
            return False
        if state not in REDRIVABLE or (state == "paused" and code not in (AT_GATE, QUESTION)):
            return False
        was = _step_of(self._shapes[place.plan_id], self._step) if place.plan_id in self._shapes else None
        return was is not None and _is_same(was, self._now) and self.rewind.allows(place) and self._has_begun(place)

    def _has_begun(self, place: Place) -> bool:
        order = self._orders[place.plan_id]
        return place.step_id == self.step_id or self.step_id in order.done_before(place.step_id)

    def reopened(self, place: Place, cursor: Any, kept: KeptInStep, positions: Collection[int]) -> Reopened | None:
        """Return where a document goes on. Return None if none of the items is set aside.

        Args:
            place: Where the document is.
            cursor: Its cursor.
            kept: What is kept of the step.
            positions: The positions of the items.
        """
        items = sorted({*positions} & kept.asides.keys())
        windows = self._windows(place, cursor, kept)
        if not items or windows is None or self._now is None:
            return None
        for position in items:
            windows.reopen(position)
        mark = place_mark(windows.done_places, kept.items, keeps=self._now.keep)
        extents = {str(step_id): number for step_id, number in (self.rewind.extents(place) or {}).items()}
        inside = inside_step(extents, str(self.step_id), mark)
        extents = dict(extents if inside is None else inside)
        numbers = {int(step_id): number for step_id, number in extents.items()} or None
        return Reopened(windows.cursor(), numbers, items, sorted(windows.aside))

    def _windows(self, place: Place, cursor: Any, kept: KeptInStep) -> Windows | None:
        """Return the progress of a document in the step. Return None if it cannot be true: a worker parks it."""
        if place.step_id != self.step_id:
            cursor = {"next": kept.total, "aside": sorted(kept.asides.items())}
        try:
            windows = Windows(kept.total, cursor=cursor)
        except ValidationError:
            return None
        return windows if windows.aside.keys() == kept.asides.keys() else None


def _step_of(shape: Shape, step: str) -> StepShape | None:
    return next((one for one in shape.steps if one.name == step and not one.gone), None)


def _is_same(was: StepShape, now: StepShape) -> bool:
    """Return True if a step gives the same results in two plans."""
    return replace(was, settings=None) == replace(now, settings=None) and same_json(was.settings, now.settings)
