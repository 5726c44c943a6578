"""Stale work: what was done under an earlier plan and would now have another result, and why.

Everything after the first step that differs is stale too, because it was made from the output of that step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.codec import encode_json
from holdfast.core.plan import DocumentCount, KnownPlan, Shape, StepShape, same_json

NOTHING = object()


class StepDifference(Struct, frozen=True):
    """A step that differs between two shapes, why, and the step from which work must be redone; None for nothing."""

    step: str
    why: str
    to: str | None


class Stale(Struct, frozen=True):
    """Documents that are stale for the same reason: pinned to one plan, to be redone from one step on."""

    plan_id: int
    to: str
    why: str
    redone: tuple[str, ...]
    reused: tuple[str, ...]
    counts: tuple[DocumentCount, ...]

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return sum(one.documents for one in self.counts)


def differences(old: Shape, new: Shape) -> list[StepDifference]:
    """Return the steps that differ, in the order of the new shape. Stale work begins at the first.

    A step that was removed and comes back counts as new: a later generation may not have its items.
    """
    before = {step.name: step for step in old.steps if not step.gone}
    found = [*_new_or_changed(before, new), *_removed([*before.values()], new)]
    places = {name: place for place, name in enumerate(new.names)}
    return sorted(found, key=lambda one: places.get(one.to or "", len(places)))


def _new_or_changed(before: Mapping[str, StepShape], new: Shape) -> Iterator[StepDifference]:
    for step in new.steps:
        was = before.get(step.name)
        if why := f"{step.name} is new" if was is None else _changed(was, step):
            yield StepDifference(step.name, why, step.name)


def _removed(before: Sequence[StepShape], new: Shape) -> Iterator[StepDifference]:
    """Yield removed steps. A removed gate makes nothing stale: it has no output."""
    for place, step in enumerate(before):
        if step.name not in new.names:
            after = next((later.name for later in before[place:] if later.name in new.names), None)
            yield StepDifference(step.name, f"{step.name} was removed", None if step.kind == "gate" else after)


def _changed(was: StepShape, now: StepShape) -> str:
    parts = ("version", "kind", "over", "keep")
    changes = [
        f"{part} {_text(getattr(was, part))} -> {_text(getattr(now, part))}"
        for part in parts
        if getattr(was, part) != getattr(now, part)
    ]
    reasons = [f"{now.name} changed: {', '.join(changes)}"] if changes else []
    settings = [*_changed_settings(was.settings, now.settings)]
    reasons += [f"settings of {now.name} changed: {', '.join(settings)}"] if settings else []
    return "; ".join(reasons)


def _changed_settings(was: Any, now: Any) -> Iterator[str]:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in {**was, **now}:
            before, after = was.get(key, NOTHING), now.get(key, NOTHING)
            if before is NOTHING or after is NOTHING or not same_json(before, after):
                yield f"{key} {_json_or_nothing(before)} -> {_json_or_nothing(after)}"
    elif not same_json(was, now):
        yield f"{_json_or_nothing(was)} -> {_json_or_nothing(now)}"


def _text(value: object) -> str:
    return "nothing" if value is None else str(value)


def _json_or_nothing(value: Any) -> str:
    return "nothing" if value is NOTHING else encode_json(value)


def stale_work(plans: Iterable[KnownPlan], now: Shape) -> list[Stale]:
    """Return the documents whose work is stale under a shape, grouped by the plan they are pinned to."""
    found = [_stale_under(plan, now) for plan in plans]
    return [one for one in found if one is not None and one.counts]


def _stale_under(plan: KnownPlan, now: Shape) -> Stale | None:
    differing = [one for one in differences(plan.shape, now) if one.to]
    if not differing or differing[0].to is None:
        return None
    to = differing[0].to
    place = now.names.index(to)
    beyond = tuple(one for one in plan.documents if _is_beyond(one, now.names[place + 1 :]))
    whys = [one.why for one in differing]
    return Stale(plan.plan_id, to, "; ".join(whys), now.names[place:], now.names[:place], beyond)


def _is_beyond(one: DocumentCount, later: Sequence[str]) -> bool:
    if one.settled or one.state == "cancelled":
        return False
    return one.state == "done" or one.step in later


def as_declared(plans: Sequence[KnownPlan], now: Shape) -> list[KnownPlan]:
    """Return plans as they will be after declaring a shape. Its `renamed` renames steps or moves documents."""
    known = {name for plan in plans for name in plan.shape.names}
    called: dict[str, str] = {}
    moved: dict[str, str] = {}
    for old, new in now.renamed.items():
        if old in known:
            (moved if new in known else called)[old] = new
            known.add(new)
    return [_renamed(plan, called, moved) for plan in plans]


def _renamed(plan: KnownPlan, called: Mapping[str, str], moved: Mapping[str, str]) -> KnownPlan:
    names = [called.get(name, name) for name in plan.shape.names]
    documents = [replace(one, step=_new_step(one, called, moved)) for one in plan.documents]
    return replace(plan, shape=plan.shape.called(names), documents=tuple(documents))


def _new_step(one: DocumentCount, called: Mapping[str, str], moved: Mapping[str, str]) -> str | None:
    step = called.get(one.step or "", one.step)
    return step if one.state == "running" else moved.get(step or "", step)
