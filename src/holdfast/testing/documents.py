"""Documents for unit tests. A step is an ordinary callable, so its test calls it with a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core.codec import Kept
from holdfast.core.document import Document
from holdfast.core.model import Decision, Item
from holdfast.core.step import AnyStep
from holdfast.engine.body_calls import produced


def document(
    key: str = "a document",
    *,
    payload: Any = None,
    outputs: Mapping[AnyStep, Any] | None = None,
    decisions: Mapping[AnyStep, Decision] | None = None,
    step: AnyStep | None = None,
    batch: str = "a batch",
    pipeline: str = "a pipeline",
    attempt: int = 1,
    resumed: bool = False,
) -> Document:
    """Return a document for the unit test of a step.

    Args:
        key: The key of the document.
        payload: The payload that was submitted with it.
        outputs: What earlier steps returned, by step. The body reads it as it would come back from a store.
        decisions: What people decided at gates, by step; for the step under test, the answer to its `Pause`.
        step: The step under test. Needed only if the body reads the answer to its own `Pause`.
        batch: The name of the batch.
        pipeline: The name of the pipeline.
        attempt: What `doc.attempt` says.
        resumed: What `doc.resumed` says.

    Returns:
        A document that can be passed to the step.

    Example:
        def test_count_counts_the_pages():
            assert count(document(outputs={pages: [{"text": "a"}, {"text": "b"}]})) == 2
    """
    items = {step.name: produced(step, value).items for step, value in (outputs or {}).items()}
    decided = {one.name: decision for one, decision in (decisions or {}).items()}
    reader = _Outputs(items, decided)
    name = step.name if step else ""
    return Document(
        pipeline=pipeline,
        batch=batch,
        key=key,
        payload=payload,
        reader=reader,
        step=name,
        attempt=attempt,
        resumed=resumed,
    )


class _Outputs:
    def __init__(self, items: Mapping[str, Sequence[Item]], decisions: Mapping[str, Decision]) -> None:
        self._items = items
        self._decisions = decisions

    def next_position(self, step: str) -> int:
        return max((item.position + 1 for item in self._items.get(step, ())), default=0)

    def read(self, step: str, start: int, stop: int) -> Sequence[tuple[int, Kept]]:
        return [(item.position, item.value) for item in self._items.get(step, ()) if start <= item.position < stop]

    def decision(self, step: str) -> Decision | None:
        return self._decisions.get(step)
