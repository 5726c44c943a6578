"""The waits and times that bodies and services ask for, as every store can keep them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

LONGEST = timedelta(days=365)
"""The longest wait that a body or a service may ask for. Longer ones are taken for a mistake."""

FIRST_MOMENT, LAST_MOMENT = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
"""The times that every store can keep and every time zone can show."""


def wait_of(after: Any) -> timedelta:
    """Return the wait that a body asked for, between zero and LONGEST.

    Raises:
        TypeError: It is neither a timedelta nor a number.
        ValueError: It is not a finite number.
    """
    if isinstance(after, timedelta):
        return min(max(after, timedelta(0)), LONGEST)
    if isinstance(after, bool) or not isinstance(after, (int, float)):
        raise TypeError(f"RetryLater(after=) takes a timedelta or a number of seconds, not {_shown(after)}")
    if isinstance(after, float) and not isfinite(after):
        raise ValueError(f"RetryLater(after=) takes a finite number of seconds, not {after}")
    return timedelta(seconds=max(min(after, LONGEST.total_seconds()), 0))


def moment_of(until: Any) -> datetime:
    """Return the time until which a body paused its document, between FIRST_MOMENT and LAST_MOMENT.

    Raises:
        ValueError: It is not a time with a time zone.
    """
    if not isinstance(until, datetime) or until.tzinfo is None or until.utcoffset() is None:
        raise ValueError(
            "Pause(until=) needs a time with a time zone, such as datetime.now(UTC) + timedelta(hours=1), not "
            f"{_shown(until)}"
        )
    return min(max(until, FIRST_MOMENT), LAST_MOMENT)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
