"""The clock that a test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast.testing import ManualClock

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


def test_the_clock_stands_still() -> None:
    clock = ManualClock(NOON)
    assert clock() == clock() == NOON


def test_the_clock_moves_forward_and_back() -> None:
    clock = ManualClock(NOON)
    assert clock.advance(timedelta(hours=1)) == clock() == NOON + timedelta(hours=1)
    assert clock.advance(timedelta(hours=-2)) == clock() == NOON - timedelta(hours=1)


def test_a_jump_sets_the_clock_in_utc() -> None:
    clock = ManualClock()
    assert clock.jump(NOON.astimezone(timezone(timedelta(hours=5)))) == NOON
    assert clock().tzinfo is UTC
    assert repr(clock) == "<ManualClock at 2026-11-18T12:00:00+00:00>"


@pytest.mark.parametrize("set_clock", [ManualClock, ManualClock().jump])
def test_a_time_without_a_zone_is_refused(set_clock: object) -> None:
    with pytest.raises(ValueError, match="needs a zone"):
        set_clock(datetime(2026, 11, 18))  # type: ignore[operator] # noqa: DTZ001
