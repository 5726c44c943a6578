"""Doors: steps that only so many documents may be in at once, over all workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from holdfast.core.model import Plan
from holdfast.core.pipeline import Pipeline
from holdfast.engine.calls import Call, PullStream, RunValue, RunWindow
from holdfast.engine.hand import InHand
from holdfast.stores.protocol import Work

ADMISSION = 0.1
"""Seconds between questions whether a full step has room."""

Waiting = tuple[InHand, Sequence[Call]]


class Doors:
    """The documents of this worker that wait in front of full steps."""

    def __init__(self, pipeline: Pipeline, store: Work, plan: Plan) -> None:
        self._limits = {step.name: step.options.limit for step in pipeline.steps if step.options.limit is not None}
        self._store = store
        self._plan = plan
        self._waiting: dict[str, list[Waiting]] = defaultdict(list)
        self._asked_at = 0.0

    def stop(self, desk: InHand, call: Call) -> bool:
        """Answers whether the document has to ask before this call. Reading and verifying is not entering a step."""
        enters = call.step in self._limits and isinstance(call, (RunValue, PullStream, RunWindow))
        return enters and desk.admitted != call.step

    def queue(self, desk: InHand, calls: Sequence[Call]) -> None:
        """Puts a document in front of the step of these calls."""
        self._waiting[calls[0].step].append((desk, calls))
        self._asked_at = 0.0

    def left(self) -> None:
        """Learns that a document left a step: there may be room."""
        if self._waiting:
            self._asked_at = 0.0

    def admit(self, still_in_hand: Callable[[InHand], bool]) -> Iterator[Waiting]:
        """Gives the documents that may enter now."""
        if not self._waiting or monotonic() - self._asked_at < ADMISSION:
            return
        self._asked_at = monotonic()
        for step in list(self._waiting):
            waiting = [one for one in self._waiting.pop(step) if still_in_hand(one[0])]
            limit = self._limits[step]
            inside = self._store.admit(self._plan, step, [desk.claim for desk, _ in waiting], limit=limit)
            outside = [one for one, admitted in zip(waiting, inside, strict=True) if not admitted]
            if outside:
                self._waiting[step] = outside
            for (desk, calls), admitted in zip(waiting, inside, strict=True):
                if admitted:
                    desk.admitted = step
                    yield desk, calls
