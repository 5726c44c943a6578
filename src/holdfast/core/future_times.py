"""Future times: what a clock wrote that was ahead, and has been set back since."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from holdfast.core.formatting import format_count, format_duration

CLOCK_TOLERANCE = timedelta(minutes=1)
"""Times that are ahead by less are left as they are: clocks are corrected by seconds all the time."""


def is_future(at: datetime | None, now: datetime) -> bool:
    """Return True if a time of writing cannot be, because it is in the future."""
    return at is not None and at > now + CLOCK_TOLERANCE


class FutureTimes(Struct, frozen=True):
    """How many rows have a time that cannot be: it was the time of writing, and it is in the future.

    Attributes:
        waiting: Documents that are due too late. They wait, or are paused with a time limit.
        running: Documents that workers hold.
        workers: Workers whose last heartbeat is in the future.
        steps: Steps that worked last in the future.
        ahead: By how much the clock was ahead, at least.
    """

    waiting: int = 0
    running: int = 0
    workers: int = 0
    steps: int = 0
    ahead: timedelta = timedelta(0)

    @property
    def any(self) -> bool:
        """True if there are such rows."""
        return bool(self.waiting or self.running or self.workers or self.steps)

    def __add__(self, other: FutureTimes) -> FutureTimes:
        return FutureTimes(
            self.waiting + other.waiting,
            self.running + other.running,
            self.workers + other.workers,
            self.steps + other.steps,
            max(self.ahead, other.ahead),
        )

    @property
    def setback(self) -> str:
        """By how much the clock was set back, for people: "24 h 00 min"."""
        return format_duration(self.ahead.total_seconds())

    def __str__(self) -> str:
        parts = [
            (self.waiting, "waiting document", ""),
            (self.running, "running document", ""),
            (self.workers, "heartbeat", ""),
            (self.steps, "time of a step", "times of steps"),
        ]
        return ", ".join(format_count(*part) for part in parts if part[0])
