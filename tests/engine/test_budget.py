"""When a worker stops, and why."""

from __future__ import annotations

from datetime import timedelta

import pytest

import holdfast


def test_a_budget_within_another_is_over_when_that_one_is() -> None:
    nudges: list[str] = []
    around = holdfast.Budget()
    inner = holdfast.Budget(within=around)
    inner.on_stop = lambda: nudges.append("nudged")
    assert not inner.is_over()
    around.stop("a deploy")
    assert (inner.is_over(), inner.reason, inner.remaining, nudges) == (True, "a deploy", 0.0, ["nudged"])


def test_a_budget_within_another_may_be_stopped_before() -> None:
    around = holdfast.Budget()
    inner = holdfast.Budget(within=around)
    inner.stop("enough")
    assert inner.is_over()
    assert not around.is_over()


@pytest.mark.parametrize(("outer", "inner"), [(5, None), (5, 60), (60, 5)])
def test_no_more_time_is_left_than_the_shorter_one_has(outer: float, inner: float | None) -> None:
    around = holdfast.Budget(timedelta(seconds=outer))
    lasts = None if inner is None else timedelta(seconds=inner)
    assert holdfast.Budget(lasts, within=around).remaining <= 5
