"""What documents are pinned to: the plan under which what is behind them was really done.

A document may begin under one plan and go on under another. If nothing behind it differs, it is the other's from then
on. Otherwise it was done under neither, and is pinned to a plan that nobody declared: what is behind it as it was
begun, the rest as it goes on. So stale work is seen whichever plan comes next, and so is a step that would be done
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.model import State
from holdfast.core.plan import Shape, StepShape


class Gathering(Struct, frozen=True):
    """So many documents at one step, in one state. Settled ones are of closed batches or cleaned up: they stay."""

    state: State
    step: str | None
    documents: int
    settled: bool = False


class KnownPlan(Struct, frozen=True):
    """A plan that a store knows, with its steps under their present names, and the documents pinned to it.

    One without a time was declared by nobody: its documents were begun under one plan and went on under another.
    """

    plan_id: int
    shape: Shape
    declared_at: datetime | None = None
    documents: tuple[Gathering, ...] = ()


Shapes = Mapping[int, Shape]
"""The shapes of a pipeline's plans, by the plans' numbers, with their steps under their present names."""

Remember = Callable[[Shape], int]
"""Makes a plan that nobody declared known, and answers its number."""


def went_on(begun: Shape, under: Shape, at: str) -> Shape:
    """Gives what a document is really done under that was begun under one shape and goes on at a step of another."""
    later = under.steps[under.names.index(at) :]
    ahead = {step.name for step in later}
    behind = [*takewhile(lambda step: step.name not in ahead, begun.steps)]
    return Shape(under.pipeline, (*_without_what_was_taken_out(behind, under.names), *later))


def _without_what_was_taken_out(behind: list[StepShape], names: Iterable[str]) -> list[StepShape]:
    """Marks the last steps as gone that are no more: what they kept is there, but what comes next does without."""
    known = set(names)
    stay = len(behind)
    while stay and behind[stay - 1].name not in known:
        stay -= 1
    return [*behind[:stay], *(replace(step, gone=True) for step in behind[stay:])]


def repinned(
    claimed: Iterable[tuple[int, int, str]], shapes: Shapes, *, under: int, remember: Remember
) -> dict[int, list[int]]:
    """Says which documents get which plan, now that they go on under another: (document, plan, step) as they were.

    Those that keep theirs are not named.
    """
    digests = {plan_id: shape.digest() for plan_id, shape in shapes.items()}
    known = {digest: plan_id for plan_id, digest in digests.items()} | {digests[under]: under}
    pins: dict[tuple[int, str], int] = {}
    changed: dict[int, list[int]] = {}
    for document_id, begun, at in claimed:
        if (begun, at) not in pins:
            shape = went_on(shapes[begun], shapes[under], at)
            digest = shape.digest()
            if digest not in known:
                known[digest] = remember(shape)
            pins[begun, at] = begun if digest == digests[begun] != digests[under] else known[digest]
        if pins[begun, at] != begun:
            changed.setdefault(pins[begun, at], []).append(document_id)
    return changed
