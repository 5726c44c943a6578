"""The ETA: how long it may take still, from how long the bodies of each step took so far.

Counting documents that end per second lies when the last steps are the slow ones, and says nothing before one has
ended. So what is left is counted in seconds of bodies, and divided by the seconds of bodies that are done in a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from time import monotonic

from holdfast.core.pipeline import Pipeline
from holdfast.engine.pace import ASYNC_HANDS
from holdfast.stores.protocol import Paces

ENOUGH = 20
"""So many documents of this run say more about a step than all that were before."""
WINDOW = 300.0
"""Seconds over which it is measured how much is done in a second: longer than most bodies."""
SOON = 1.0
"""A shorter measurement says nothing."""


class Eta:
    """Learns from the store how long steps take, and tells how long the rest will."""

    def __init__(self, pipeline: Pipeline, *, hands: int = 8, clock: Callable[[], float] = monotonic) -> None:
        self._steps = [step.name for step in pipeline.steps]
        self._gates = {step.name for step in pipeline.steps if step.kind == "gate"}
        self._hands = max(hands, ASYNC_HANDS) if any(step.is_async for step in pipeline.steps) else hands
        self._clock = clock
        self._before: Paces | None = None
        self._now: Paces = {}
        self._seen: deque[tuple[float, float]] = deque()

    def learn(self, paces: Paces, *, remaining: int) -> None:
        """Learns what all workers took so far. The first time, that is the history."""
        if self._before is None:
            self._before = paces
        self._now = paces
        now, seconds = self._clock(), sum(seconds for _, seconds in paces.values())
        if not remaining:
            self._seen.clear()  # what comes after a rest is measured anew
        if not self._seen or self._seen[-1][1] != seconds:  # a long body is heard of when it is over, so not before
            self._seen.append((now, seconds))
        while len(self._seen) > 2 and now - self._seen[0][0] > WINDOW:
            self._seen.popleft()

    def seconds_left(self, at_step: Mapping[str, int], remaining: int) -> float | None:
        """Answers how long the documents at these steps may take still; None when there is no history to tell."""
        able = {step: count for step, count in at_step.items() if count > 0 and step not in self._gates}
        standing = sum(able.values())
        if not standing or not remaining:
            return None
        work = 0.0
        for step, count in able.items():
            for ahead in self._ahead(step):
                average = self._average(ahead)
                if average is None:
                    return None
                work += count * average
        parked = min(remaining / standing, 1.0)  # some of them wait for a person
        return work * parked / (self._done_in_a_second() or min(self._hands, remaining))

    def _ahead(self, step: str) -> Iterator[str]:
        """Names the steps that a document does by itself: to its end, or to the next gate."""
        return takewhile(lambda name: name not in self._gates, self._steps[self._steps.index(step) :])

    def _average(self, step: str) -> float | None:
        documents, seconds = self._now.get(step, (0, 0.0))
        documents_before, seconds_before = (self._before or {}).get(step, (0, 0.0))
        lately = documents - documents_before
        if lately >= ENOUGH:
            return (seconds - seconds_before) / lately
        return seconds / documents if documents_before else None

    def _done_in_a_second(self) -> float | None:
        """Answers how many seconds of bodies all workers do in a second; None before that is known."""
        if len(self._seen) < 2:
            return None
        (since, seconds_then), (until, seconds) = self._seen[0], self._seen[-1]
        return (seconds - seconds_then) / (until - since) if until - since >= SOON else None
