"""A clock that a test moves, so that no test has to sleep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2025, 3, 1, 12, tzinfo=UTC)


class ManualClock:
    """A clock that stands still until it is moved.

    Args:
        now: The time at which the clock starts. It needs a time zone.

    Raises:
        ValueError: The time has no time zone.

    Example:
        clock = ManualClock()
        store = open_store("memory://", clock=clock)
        clock.advance(timedelta(minutes=5))
    """

    def __init__(self, now: datetime = START) -> None:
        self._now = _in_utc(now)

    def __call__(self) -> datetime:
        return self._now

    def advance(self, span: timedelta) -> datetime:
        """Move the clock forward, or back with a negative span.

        Args:
            span: How far to move.

        Returns:
            The new time.
        """
        self._now += span
        return self._now

    def jump(self, to: datetime) -> datetime:
        """Set the clock to a moment in the past or in the future.

        Args:
            to: The new time. It needs a time zone.

        Returns:
            The new time, in UTC.

        Raises:
            ValueError: The time has no time zone.
        """
        self._now = _in_utc(to)
        return self._now

    def __repr__(self) -> str:
        return f"<ManualClock at {self._now.isoformat()}>"


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a clock's time needs a zone, such as datetime(2025, 3, 1, tzinfo=UTC)")
    return moment.astimezone(UTC)
