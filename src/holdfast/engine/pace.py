"""How much a worker holds: little of what is slow, much of what is quick.

Documents in hand are documents that no other worker can have. So a worker holds what it works off in about a second,
but never fewer than it has hands for.
"""

from __future__ import annotations

from time import monotonic

from holdfast.core.pipeline import Pipeline

QUICK = 0.4
SLOW = 1.0
"""A handful that is worked off quicker is doubled, one that takes longer is halved."""
IDLE = 0.2
"""Seconds between looks for work when there was none."""
ASYNC_HANDS = 64
"""How many documents are in hand, at least, when bodies wait rather than work."""


class Pace:
    """Says when to claim, and how many."""

    def __init__(self, pipeline: Pipeline, *, threads: int, most: int) -> None:
        waits = any(step.is_async for step in pipeline.steps)
        self._least = min(max(threads, ASYNC_HANDS) if waits else threads, most)
        self._most = most
        self._hold = self._least
        self._claimed_at = 0.0
        self._had_enough = True

    def wanted(self, in_hand: int) -> int:
        """Answers how many more documents to claim now."""
        if in_hand > self._hold // 2 and in_hand >= self._least:
            return 0
        if not self._had_enough and monotonic() - self._claimed_at < IDLE:
            return 0
        self._adapt()
        return self._hold - in_hand

    def _adapt(self) -> None:
        took = monotonic() - self._claimed_at
        if self._had_enough and took < QUICK:
            self._hold = min(self._hold * 2, self._most)
        elif took > SLOW:
            self._hold = max(self._hold // 2, self._least)

    def claimed(self, got: int, wanted: int) -> None:
        """Learns what a claim brought."""
        self._had_enough = got == wanted
        self._claimed_at = monotonic()

    def look_again(self) -> None:
        """Learns that there may be work again."""
        self._had_enough = True
