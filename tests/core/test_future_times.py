"""Times in the future: what counts as one, and how they are told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core.future_times import CLOCK_TOLERANCE, FutureTimes, is_future
from holdfast.testing.clock import START

SECOND = timedelta(seconds=1)


def test_a_time_is_in_the_future_only_beyond_the_tolerance() -> None:
    assert not is_future(None, START)
    assert not is_future(START + CLOCK_TOLERANCE, START)
    assert is_future(START + CLOCK_TOLERANCE + SECOND, START)


@pytest.mark.parametrize("kind", ["waiting", "running", "workers", "steps"])
def test_any_kind_of_row_counts(kind: str) -> None:
    assert FutureTimes(**{kind: 1}).any
    assert not FutureTimes(ahead=SECOND).any


def test_parts_are_added_and_the_longest_setback_counts() -> None:
    both = FutureTimes(1, 2, 3, 4, SECOND) + FutureTimes(waiting=10, ahead=SECOND * 90)
    assert both == FutureTimes(11, 2, 3, 4, SECOND * 90)
    assert both.setback == "90 s"
    assert str(both) == "11 waiting documents, 2 running documents, 3 heartbeats, 4 times of steps"
