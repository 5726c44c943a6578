"""Claim size: how many documents a worker holds. Few if they are slow, many if they are quick.

No other worker can process a document that this one holds. So a worker holds as many as it finishes in about a second,
but never fewer than it can process at once.
"""

from __future__ import annotations

from time import monotonic

from holdfast.core.pipeline import Pipeline

QUICK = 0.4
SLOW = 1.0
"""Seconds between two claims. Below QUICK the size is doubled, above SLOW it is halved."""
IDLE = 0.2
"""Seconds between two claims when the last one found no document."""
MIN_ASYNC_DOCUMENTS = 64
"""Minimum number of documents held when bodies are async, since these wait more than they compute."""


class ClaimSize:
    """Decide when to claim, and how many documents. Used under the scheduler lock."""

    def __init__(self, pipeline: Pipeline, *, threads: int, most: int) -> None:
        has_async = any(step.is_async for step in pipeline.steps)
        self._least = min(max(threads, MIN_ASYNC_DOCUMENTS) if has_async else threads, most)
        self._most = most
        self._target = self._least
        self._claimed_at = 0.0
        self._got_all = True

    def wanted(self, held: int) -> int:
        """Return how many more documents to claim now."""
        if held > self._target // 2 and held >= self._least:
            return 0
        if not self._got_all and monotonic() - self._claimed_at < IDLE:
            return 0
        self._adapt()
        return self._target - held

    def _adapt(self) -> None:
        seconds = monotonic() - self._claimed_at
        if self._got_all and seconds < QUICK:
            self._target = min(self._target * 2, self._most)
        elif seconds > SLOW:
            self._target = max(self._target // 2, self._least)

    def claimed(self, got: int, wanted: int) -> None:
        """Record the result of a claim."""
        self._got_all = got == wanted
        self._claimed_at = monotonic()

    def expect_work(self) -> None:
        """Claim at the next opportunity, because there may be work again."""
        self._got_all = True
