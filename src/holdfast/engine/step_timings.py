"""Step timings: how many seconds bodies take, by step. The ETA is computed from them.

The seconds spent on a document are counted when the document leaves the step or the worker. If they were counted
earlier, the time of many documents that have just begun would be attributed to the first one that is finished.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from time import monotonic

from holdfast.core.moves import Move
from holdfast.engine.claimed_document import ClaimedDocument
from holdfast.engine.runners import BODIES, Result
from holdfast.stores.protocol import StepTimes


class StepTimings:
    """Sum the seconds of bodies and the documents that passed each step. Used under the scheduler lock."""

    def __init__(self) -> None:
        self._open: defaultdict[ClaimedDocument, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._passed: dict[str, int] = {}
        self._worked_at: dict[str, float] = {}

    def add_results(self, results: Sequence[Result]) -> None:
        """Add the seconds of finished calls, successful or not. Reading and verifying are not counted."""
        by_document = self._open
        for document, event, began, seconds in results:
            if type(event.call) in BODIES:
                by_document[document][event.call.step] += seconds
                document.body_began = began

    def add_commit(self, document: ClaimedDocument, move: Move) -> None:
        """Count a document that passed its step."""
        step = move.before.step
        if move.after.step != step:
            assert step is not None
            self._passed[step] = self._passed.get(step, 0) + 1
            self._worked_at[step] = max(document.body_began, self._worked_at.get(step, 0.0))
            self.close(document)

    def close(self, document: ClaimedDocument) -> None:
        """Count the seconds spent on a document, even if it did not pass: the next worker has less to do."""
        for step, seconds in self._open.pop(document, {}).items():
            self._seconds[step] += seconds

    def take(self) -> StepTimes:
        """Return the sums, and start again from zero."""
        times = {step: (self._passed.get(step, 0), seconds) for step, seconds in self._seconds.items()}
        times |= {step: (passed, 0.0) for step, passed in self._passed.items() if step not in times}
        self._seconds.clear()
        self._passed.clear()
        return times

    def worked_at(self, now: datetime) -> dict[str, datetime]:
        """Return when the body began with which a document passed each step last. `now` was read just before."""
        since = monotonic()
        return {step: now - timedelta(seconds=since - at) for step, at in self._worked_at.items()}
