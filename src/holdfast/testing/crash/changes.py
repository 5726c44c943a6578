"""Change documents half-way: an earlier version of each, whose rows and items must be gone in the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.core.model import NewDocument
from holdfast.core.pipeline import Pipeline
from holdfast.testing.crash.report import Point
from holdfast.testing.crash.snapshot import Snapshot

MAX_POINTS = 3
"""At how many points documents are changed, and at how many a run that does them again is killed: the first, the last
and one in the middle. All points would take too long: every one needs two or three runs."""

UNCHANGED = ("dead", "waiting")
"""The states of documents that are not changed: their last version does not get to where an earlier one got."""


def earlier_versions(documents: Sequence[NewDocument], result: Snapshot) -> list[NewDocument]:
    """Return documents as they might have been before: each has the payload of another one that ends like it.

    Args:
        documents: The documents as they are.
        result: The result of a run of them. Documents that fail in it are left as they are.
    """
    alike: dict[tuple[str, str], list[NewDocument]] = defaultdict(list)
    for document in documents:
        end = result.documents[document.key]
        if end.state not in UNCHANGED:
            alike[end.state, end.step].append(document)
    earlier = {
        document.key: replace(document, payload=other.payload, fingerprint=f"an earlier version of {document.key}")
        for same in alike.values()
        for document, other in zip(same, [*same[1:], same[0]], strict=True)
    }
    return [earlier.get(document.key, document) for document in documents]


def spread(points: Sequence[Point]) -> list[Point]:
    """Return the first, the middle and the last of these points."""
    if len(points) <= MAX_POINTS:
        return [*points]
    return [points[place * (len(points) - 1) // (MAX_POINTS - 1)] for place in range(MAX_POINTS)]


def step_to_rewind_to(pipeline: Pipeline) -> str:
    """Return the step to which documents are rewound: the one in the middle of those that write rows."""
    writing = [step.name for step in pipeline.steps if step.effect_body is not None]
    steps = writing or [step.name for step in pipeline.steps if step.kind != "gate"]
    return steps[len(steps) // 2]


def steps_without_undo(pipeline: Pipeline) -> tuple[str, ...]:
    """Return the steps that have an effect, and say nothing about how its rows go away."""
    return tuple(step.name for step in pipeline.steps if step.effect_body is not None and not step.can_undo)
