"""Waits that bodies ask for: obeyed between zero and a year, refused if they are no wait."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any

import pytest

from holdfast.core.errors import Pause, RetryLater
from holdfast.core.waits import FIRST_MOMENT, LAST_MOMENT, LONGEST

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("after", "wait"),
    [
        (None, None),
        (SECOND * 3, SECOND * 3),
        (2.5, SECOND * 2.5),
        (0, SECOND * 0),
        (-1, SECOND * 0),
        (-SECOND, SECOND * 0),
        (timedelta.min, SECOND * 0),
        (timedelta.max, LONGEST),
        (1e300, LONGEST),
        (10**400, LONGEST),
        (-(10**400), SECOND * 0),
    ],
)
def test_a_wait_is_between_zero_and_a_year(after: Any, wait: timedelta | None) -> None:
    assert RetryLater("later", after=after).after == wait


@pytest.mark.parametrize("after", ["5", b"5", True, False, object(), [5], 5 + 1j])
def test_what_is_no_number_is_no_wait(after: Any) -> None:
    with pytest.raises(TypeError, match="a timedelta or a number of seconds, not"):
        RetryLater("later", after=after)


@pytest.mark.parametrize("after", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_is_no_wait(after: float) -> None:
    with pytest.raises(ValueError, match="a finite number of seconds"):
        RetryLater("later", after=after)


def test_a_long_value_is_named_by_its_start() -> None:
    with pytest.raises(TypeError) as refused:
        RetryLater("later", after="5" * 10_000)  # type: ignore[arg-type]
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("until", "moment"),
    [
        (datetime.max.replace(tzinfo=UTC), LAST_MOMENT),
        (datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))), LAST_MOMENT),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), FIRST_MOMENT),
        (datetime(2030, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_pause_ends_at_a_time_that_every_store_can_keep(until: datetime, moment: datetime) -> None:
    assert Pause("wait", until=until).until == moment


@pytest.mark.parametrize("until", [datetime(2030, 1, 1), time(12, tzinfo=UTC), "tomorrow", SECOND, 5])  # noqa: DTZ001
def test_a_pause_needs_a_time_with_a_time_zone(until: Any) -> None:
    with pytest.raises(ValueError, match="needs a time with a time zone"):
        Pause("wait", until=until)
