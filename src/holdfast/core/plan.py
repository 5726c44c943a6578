"""Plans: what a store keeps of a pipeline, whether open documents can go on under a new one, and pins.

A pin is the plan under which the finished steps of a document were really done. A document may begin under one plan and
go on under another. If its finished steps are the same in both, it is pinned to the new plan. Otherwise it is pinned to
a combined plan that nobody declared: finished steps as they were done, the rest as it is now. So stale work is found
whichever plan comes next, and no step is done twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import pairwise, takewhile
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import DefinitionError, PlanRefused
from holdfast.core.model import OPEN_STATES, State, StepKind
from holdfast.core.reasons import DAMAGED, sentence
from holdfast.core.text_limits import MAX_NAME, shorten, too_long

Orders = Mapping[int, Sequence[str]]
"""The steps of each plan that a pipeline ever had, in order, with their current names."""

CountAndKeys = tuple[int, list[str]]
"""How many documents there are, and the keys of the first three."""

Pinned = Callable[[Sequence[int], Sequence[State], str | None], CountAndKeys]
"""Find the documents that are pinned to these plans, in these states, at this step or at any."""

_in_order = msgspec.json.Encoder(order="deterministic").encode


class StepShape(Struct, frozen=True, omit_defaults=True):
    """What a store keeps of a step. A step that is gone was removed before the later steps were done."""

    name: str
    kind: StepKind
    version: int = 1
    over: str | None = None
    keep: bool = True
    settings: Any = None
    gone: bool = False


class Shape(Struct, frozen=True):
    """What a store keeps of a pipeline. Documents are pinned to the shape under which they were worked on."""

    pipeline: str
    steps: tuple[StepShape, ...]
    renamed: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps, in order."""
        return tuple(step.name for step in self.steps)

    @property
    def kinds(self) -> tuple[StepKind, ...]:
        """The kinds of the steps, in order."""
        return tuple(step.kind for step in self.steps)

    def digest(self) -> str:
        """Return a hash of the steps. `renamed` is not part of it."""
        return blake2b(_in_order(self.steps), digest_size=16).hexdigest()

    def mark(self, step_ids: Sequence[int]) -> str:
        """Return a hash of the steps and their ids. A store finds a known plan by it."""
        return blake2b(_in_order((self.steps, step_ids)), digest_size=16).hexdigest()

    def called(self, names: Sequence[str]) -> Shape:
        """Return the same steps with other names."""
        now = dict(zip(self.names, names, strict=True))
        steps = [replace(step, name=now[step.name], over=now.get(step.over or "", step.over)) for step in self.steps]
        return Shape(self.pipeline, tuple(steps))


def same_json(one: Any, other: Any) -> bool:
    """Check whether two values are the same JSON. 1 equals neither 1.0 nor true; the order of keys is ignored."""
    return _in_order(one) == _in_order(other)


def unknown_step(shape: Shape) -> str:
    """Return the sentence with which a document is parked that is at a step its pipeline never had."""
    return sentence(DAMAGED, what="it stands at a step that the store does not know", to=shape.names[0])


def refuse_if_stranded(shape: Shape, stranded: Mapping[str, CountAndKeys], orders: Orders) -> None:
    """Raise PlanRefused if open documents are at steps that the shape does not have. Suggest `renamed`."""
    if not stranded:
        return
    lines = [f"  {count} at {step!r}, such as {_named(keys)}" for step, (count, keys) in sorted(stranded.items())]
    raise PlanRefused(
        f"pipeline {shape.pipeline!r} no longer has the steps at which documents are:\n"
        + "\n".join(
            [*lines, f"Its steps are now: {', '.join(shape.names)}.", *_suggestions(shape, sorted(stranded), orders)]
        )
    )


def _suggestions(shape: Shape, stranded: Sequence[str], orders: Orders) -> Iterator[str]:
    successors = _successors([step for step in stranded if step not in shape.renamed], shape.names, orders)
    if successors:
        yield (
            f"If they should go on there, write Pipeline({shape.pipeline!r}, renamed={shape.renamed | successors}); "
            "otherwise use other steps, or bring the old ones back until the documents are done."
        )
    for step in stranded:
        if step in shape.renamed:
            yield (
                f"{step!r} is already in renamed=, but workers with the old pipeline hold its documents: stop them, "
                "then try again."
            )
        elif step not in successors:
            yield f"No step comes after {step!r} any more: bring it back until its documents are done."


def _successors(removed: Sequence[str], now: Sequence[str], orders: Orders) -> dict[str, str]:
    """Guess where documents of removed steps go on: at the new step in the same place, else at the next step left.

    If several steps lead to one new name, the first entry of the map renames the step: its own, or the latest one, so
    that no document goes back.
    """
    renamed: dict[str, str] = {}
    joined: list[tuple[int, str, str]] = []
    for step in removed:
        before = next((order for order in reversed([*orders.values()]) if step in order), [step])
        place = before.index(step)
        successor, *later = [name if name in now else None for name in _renamed(before, now)[place:]]
        if successor:
            renamed[step] = successor
        elif successor := next(filter(None, later), None):
            joined.append((place, step, successor))
    return renamed | {step: successor for _, step, successor in sorted(joined, reverse=True)}


def _renamed(before: Sequence[str], now: Sequence[str]) -> list[str]:
    """Return the old order with new names for removed steps: the most similar in that place, else the first."""
    from difflib import get_close_matches  # slow to import, and rarely needed

    names = [*before]
    for similar_only in (True, False):
        for place, step in enumerate(before):
            new = [name for name in _between_neighbours(place, names, now) if name not in names]
            best = get_close_matches(step, new, n=1) if similar_only else new[:1]
            if names[place] not in now and best:
                names[place] = best[0]
    return names


def _between_neighbours(place: int, names: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    start = max((now.index(name) + 1 for name in names[:place] if name in now), default=0)
    stop = min((now.index(name) for name in names[place + 1 :] if name in now), default=len(now))
    return now[start:stop]


def refuse_long_names(shape: Shape) -> None:
    """Raise DefinitionError for a name of a pipeline or a step that no store can look up."""
    for name in (shape.pipeline, *shape.names, *shape.renamed):
        if why := too_long(name):
            raise DefinitionError(
                f"the pipeline or step {shorten(name, MAX_NAME)!r} cannot be declared: its name {why}"
            )


def refuse_if_sent_back(shape: Shape, orders: Orders, pinned: Pinned) -> None:
    """Raise PlanRefused if `renamed` would move documents back to a step that they have passed."""
    for old, new in shape.renamed.items():
        back = [plan_id for plan_id, order in orders.items() if _is_before(order, new, old)]
        count, keys = pinned(back, (*OPEN_STATES, "dead"), old) if back else (0, [])
        if count:
            order = orders[back[-1]]
            later = [name for name in order[order.index(old) :] if name in shape.names]
            hint = f"Use a step that comes after {old!r}, such as {later[0]!r}, or bring" if later else "Bring"
            raise PlanRefused(
                f"renamed={{{old!r}: {new!r}}} would send documents back to finished work: {new!r} comes before "
                f"{old!r}.\n  {count} at {old!r}, such as {_named(keys)}\n{hint} {old!r} back until they are done."
            )


def refuse_if_reordered(shape: Shape, orders: Orders, pinned: Pinned) -> list[int]:
    """Raise PlanRefused if open documents began with another order. Return the plans with another order."""
    others = {plan_id: swap for plan_id, order in orders.items() if (swap := _swapped(order, shape.names))}
    for plan_id, (first, then) in others.items():
        count, keys = pinned([plan_id], OPEN_STATES, None)
        if count:
            documents = "1 open document was" if count == 1 else f"{count} open documents were"
            raise PlanRefused(
                f"pipeline {shape.pipeline!r} has its steps in another order than {documents} started with, such as "
                f"{_named(keys)}: {first!r} came before {then!r}.\nSteps would be done twice or left out. Keep the "
                f"order {', '.join(orders[plan_id])} until they are done or cancelled, or use another "
                "name for the pipeline."
            )
    return [*others]


def _swapped(before: Sequence[str], now: Sequence[str]) -> tuple[str, str] | None:
    """Return two steps that are in both orders, but the other way round."""
    common = [name for name in before if name in now]
    return next(((first, then) for first, then in pairwise(common) if _is_before(now, then, first)), None)


def _is_before(order: Sequence[str], one: str, other: str) -> bool:
    return one in order and other in order and order.index(one) < order.index(other)


def _named(keys: Sequence[str]) -> str:
    return ", ".join(map(repr, keys))


# pins


class DocumentCount(Struct, frozen=True):
    """How many documents are at one step in one state. Settled ones (closed batch, cleaned up) are never redone."""

    state: State
    step: str | None
    documents: int
    settled: bool = False


class KnownPlan(Struct, frozen=True):
    """A plan that a store knows, with the current names of its steps, and the documents pinned to it.

    A plan without `declared_at` is a combined one: its documents began under one plan and went on under another.
    """

    plan_id: int
    shape: Shape
    declared_at: datetime | None = None
    documents: tuple[DocumentCount, ...] = ()


Shapes = Mapping[int, Shape]
"""The shapes of a pipeline's plans by plan id, with the current names of their steps."""

Remember = Callable[[Shape], int]
"""Save a combined plan and return its id."""


def combined_shape(begun: Shape, under: Shape, at: str) -> Shape:
    """Return the shape of a document that began under one shape and goes on at a step of another."""
    later = under.steps[under.names.index(at) :]
    ahead = {step.name for step in later}
    behind = [*takewhile(lambda step: step.name not in ahead, begun.steps)]
    return Shape(under.pipeline, (*_mark_removed(behind, under.names), *later))


def _mark_removed(behind: list[StepShape], names: Iterable[str]) -> list[StepShape]:
    """Mark removed steps at the end as gone: their items exist, but later steps were made without them."""
    known = set(names)
    stay = len(behind)
    while stay and behind[stay - 1].name not in known:
        stay -= 1
    return [*behind[:stay], *(replace(step, gone=True) for step in behind[stay:])]


def new_pins(
    claimed: Iterable[tuple[int, int, str]], shapes: Shapes, *, under: int, remember: Remember
) -> dict[int, list[int]]:
    """Return the new plan ids of documents that go on under another plan, with the documents of each.

    `claimed` has (document, plan, step) as they were. Documents that keep their plan are left out.
    """
    digests = {plan_id: shape.digest() for plan_id, shape in shapes.items()}
    known = {digest: plan_id for plan_id, digest in digests.items()} | {digests[under]: under}
    pins: dict[tuple[int, str], int] = {}
    changed: dict[int, list[int]] = {}
    for document_id, begun, at in claimed:
        if (begun, at) not in pins:
            shape = combined_shape(shapes[begun], shapes[under], at)
            digest = shape.digest()
            if digest not in known:
                known[digest] = remember(shape)
            pins[begun, at] = begun if digest == digests[begun] != digests[under] else known[digest]
        if pins[begun, at] != begun:
            changed.setdefault(pins[begun, at], []).append(document_id)
    return changed
