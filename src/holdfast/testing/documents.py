"""Documents for unit tests: a step is an ordinary callable, so its test is a call with one of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core.codec import Kept
from holdfast.core.document import Document
from holdfast.core.model import Decision, Item
from holdfast.core.step import AnyStep
from holdfast.engine.bodies import produced


def document(
    key: str = "a document",
    *,
    payload: Any = None,
    outputs: Mapping[AnyStep, Any] | None = None,
    decisions: Mapping[AnyStep, Decision] | None = None,
    step: AnyStep | None = None,
    batch: str = "a batch",
    pipeline: str = "a pipeline",
) -> Document:
    """Gives a document whose earlier steps kept these outputs, as they would come back from a store.

    `decisions` are those at gates, and those about what `step`, the one under test, asked by raising Pause.
    """
    items = {step.name: produced(step, value).items for step, value in (outputs or {}).items()}
    decided = {one.name: decision for one, decision in (decisions or {}).items()}
    reader = _Outputs(items, decided)
    name = step.name if step else ""
    return Document(pipeline=pipeline, batch=batch, key=key, payload=payload, reader=reader, step=name)


class _Outputs:
    def __init__(self, items: Mapping[str, Sequence[Item]], decisions: Mapping[str, Decision]) -> None:
        self._items = items
        self._decisions = decisions

    def extent(self, step: str) -> int:
        return max((item.position + 1 for item in self._items.get(step, ())), default=0)

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:
        return [(item.position, item.value) for item in self._items.get(step, ()) if start <= item.position < stop]

    def decision(self, step: str) -> Decision | None:
        return self._decisions.get(step)
