"""Plans as data: what a pipeline looks like to a store, and whether documents can go on under a new one."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from holdfast.core.codec import encode_json
from holdfast.core.errors import PlanRefused

StepKind = Literal["value", "stream", "over", "gate"]


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


def refuse_if_stranded(shape: Shape, stranded: Mapping[str, tuple[int, list[str]]]) -> None:
    """Raises PlanRefused when open documents stand at steps that the shape lacks; says how to declare the map."""
    if not stranded:
        return
    lines = [
        f"  {count} at {step!r}, such as {', '.join(map(repr, keys))}"
        for step, (count, keys) in sorted(stranded.items())
    ]
    example = ", ".join(f"{step!r}: ..." for step in sorted(stranded))
    raise PlanRefused(
        f"pipeline {shape.pipeline!r} has no longer the steps at which documents stand:\n"
        + "\n".join(lines)
        + f"\nIts steps are now: {', '.join(shape.names)}. Say at which of these the documents go on: "
        f"Pipeline({shape.pipeline!r}, renamed={{{example}}}), or bring the steps back."
    )
