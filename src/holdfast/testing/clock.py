"""A clock that is moved by hand, so that no test has to sleep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2025, 3, 1, 12, tzinfo=UTC)


class ManualClock:
    """Stands still until it is moved: `open_store(url, clock=clock)`, then `clock.advance(timedelta(minutes=5))`."""

    def __init__(self, now: datetime = START) -> None:
        self._now = _in_utc(now)

    def __call__(self) -> datetime:
        return self._now

    def advance(self, span: timedelta) -> datetime:
        """Moves on by a span, or back by a negative one, as clocks that are set right do."""
        self._now += span
        return self._now

    def jump(self, to: datetime) -> datetime:
        """Moves to a moment, wherever that is."""
        self._now = _in_utc(to)
        return self._now

    def __repr__(self) -> str:
        return f"<ManualClock at {self._now.isoformat()}>"


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a clock's time needs a zone, such as datetime(2025, 3, 1, tzinfo=UTC)")
    return moment.astimezone(UTC)
