"""The ETA: estimate the time that is left from the time that the bodies of each step took so far.

Documents per second would be wrong when the last steps are the slow ones, and unknown before the first document has
ended. So the remaining work is measured in seconds of bodies, and divided by the seconds of bodies done per second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from time import monotonic

from holdfast.core.pipeline import Pipeline
from holdfast.engine.claim_size import MIN_ASYNC_DOCUMENTS
from holdfast.stores.protocol import StepTimes

MIN_RECENT_DOCUMENTS = 20
"""After this many documents in this run, only this run counts for the average of a step."""
SPEED_WINDOW = 300.0
"""Seconds over which the speed is measured. It is longer than most bodies take."""
MIN_MEASURED = 1.0
"""Seconds; a shorter measurement is not used."""


class Eta:
    """Estimate the time that is left, from the step times in the store."""

    def __init__(self, pipeline: Pipeline, *, threads: int, clock: Callable[[], float] = monotonic) -> None:
        self._steps = [step.name for step in pipeline.steps]
        self._gates = {step.name for step in pipeline.steps if step.kind == "gate"}
        is_async = any(step.is_async for step in pipeline.steps)
        self._parallel = max(threads, MIN_ASYNC_DOCUMENTS) if is_async else threads
        self._clock = clock
        self._before: StepTimes | None = None
        self._now: StepTimes = {}
        self._samples: deque[tuple[float, float]] = deque()

    def update(self, times: StepTimes, *, remaining: int) -> None:
        """Set the times that all workers took so far. The first call sets the history before this run."""
        if self._before is None:
            self._before = times
        self._now = times
        now, seconds = self._clock(), sum(seconds for _, seconds in times.values())
        if not remaining:
            self._samples.clear()  # measure again after a time without work
        if not self._samples or self._samples[-1][1] != seconds:  # a long body counts when it ends
            self._samples.append((now, seconds))
        while len(self._samples) > 2 and now - self._samples[0][0] > SPEED_WINDOW:
            self._samples.popleft()

    def seconds_left(self, at_step: Mapping[str, int], remaining: int) -> float | None:
        """Return the seconds that the documents at these steps will need; None without a history."""
        active = {step: count for step, count in at_step.items() if count > 0 and step not in self._gates}
        total = sum(active.values())
        if not total or not remaining:
            return None
        work = 0.0
        for step, count in active.items():
            for ahead in self._ahead(step):
                average = self._average(ahead)
                if average is None:
                    return None
                work += count * average
        share = min(remaining / total, 1.0)  # the others wait for a person
        return work * share / (self._speed() or min(self._parallel, remaining))

    def _ahead(self, step: str) -> Iterator[str]:
        """Return the steps before a document ends or reaches a gate."""
        return takewhile(lambda name: name not in self._gates, self._steps[self._steps.index(step) :])

    def _average(self, step: str) -> float | None:
        documents, seconds = self._now.get(step, (0, 0.0))
        documents_before, seconds_before = (self._before or {}).get(step, (0, 0.0))
        recent = documents - documents_before
        if recent >= MIN_RECENT_DOCUMENTS:
            return (seconds - seconds_before) / recent
        return seconds / documents if documents_before else None

    def _speed(self) -> float | None:
        """Return how many seconds of bodies all workers do per second; None if it is not known yet."""
        if len(self._samples) < 2:
            return None
        (since, seconds_then), (until, seconds) = self._samples[0], self._samples[-1]
        return (seconds - seconds_then) / (until - since) if until - since >= MIN_MEASURED else None
