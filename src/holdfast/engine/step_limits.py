"""Step limits: steps that only a limited number of documents may be in at once, over all workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from holdfast.core.model import Plan
from holdfast.core.pipeline import Pipeline
from holdfast.engine.claimed_document import ClaimedDocument
from holdfast.engine.executor_requests import Call, PullStream, RunValue, RunWindow
from holdfast.stores.protocol import Work

CHECK_INTERVAL = 0.1
"""Seconds between two checks whether a full step has room."""

Waiting = tuple[ClaimedDocument, Sequence[Call]]


class StepLimits:
    """The documents of this worker that wait for a permit to enter a full step. Used under the scheduler lock."""

    def __init__(self, pipeline: Pipeline, store: Work, plan: Plan) -> None:
        self._limits = {step.name: step.options.limit for step in pipeline.steps if step.options.limit is not None}
        self._store = store
        self._plan = plan
        self._waiting: dict[str, list[Waiting]] = defaultdict(list)
        self._checked_at = 0.0

    def needs_permit(self, document: ClaimedDocument, call: Call) -> bool:
        """Return True if the document needs a permit for this call. Reading and verifying need none."""
        enters = call.step in self._limits and isinstance(call, (RunValue, PullStream, RunWindow))
        return enters and document.permit != call.step

    def wait_for_permit(self, document: ClaimedDocument, calls: Sequence[Call]) -> None:
        """Queue a document until it may enter the step of these calls."""
        self._waiting[calls[0].step].append((document, calls))
        self._checked_at = 0.0

    def check_soon(self) -> None:
        """Check at the next `admit`, because a document may have left a step."""
        if self._waiting:
            self._checked_at = 0.0

    def admit(self, is_held: Callable[[ClaimedDocument], bool]) -> Iterator[Waiting]:
        """Ask the store for permits. Yield the documents that got one."""
        if not self._waiting or monotonic() - self._checked_at < CHECK_INTERVAL:
            return
        self._checked_at = monotonic()
        for step in list(self._waiting):
            waiting = [one for one in self._waiting.pop(step) if is_held(one[0])]
            limit = self._limits[step]
            claims = [document.claim for document, _ in waiting]
            answers = self._store.admit(self._plan, step, claims, limit=limit)
            refused = [one for one, admitted in zip(waiting, answers, strict=True) if not admitted]
            if refused:
                self._waiting[step] = refused
            for (document, calls), admitted in zip(waiting, answers, strict=True):
                if admitted:
                    document.permit = step
                    yield document, calls
