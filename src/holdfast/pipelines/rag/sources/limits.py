"""How much, how long and how often, when a file is fetched."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic

from msgspec import Struct

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.sources.source import Unreachable


class Limits(Struct, frozen=True, kw_only=True):
    """Says where fetching a file ends: bytes in all, time in all, time without a byte, redirects, and resumptions."""

    size: int = 1 << 30
    time: timedelta = timedelta(minutes=10)
    silence: timedelta = timedelta(seconds=30)
    redirects: int = 5
    resumptions: int = 3


DEFAULT = Limits()


class Deadline:
    """The moment at which fetching one file has taken too long."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._at = monotonic() + limits.time.total_seconds()

    def left(self) -> float:
        """Answers how many seconds are left, at least a very short one: none at all would mean to wait for ever."""
        return max(self._at - monotonic(), 0.001)

    def check(self, url: str) -> None:
        """Says so when the time is over."""
        if monotonic() >= self._at:
            raise Unreachable(f"{url} was not there after {self.limits.time}")


def too_large(url: str, limits: Limits) -> Reject:
    """Words the refusal of a file that is larger than allowed."""
    return Reject(f"{url} is larger than {limits.size:,} bytes, more than is fetched; fetch it by hand if you want it")
