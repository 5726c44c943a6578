"""Long texts are cut, and say so."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.model import Checkpoint, Claim, Failure
from holdfast.core.moves import Release
from holdfast.core.text_limits import MAX_NAME, MAX_REASON, MAX_TRACEBACK, shorten

LONG = "start " + "x" * 5_000_000 + " end"
CLAIM = Claim(1, 1, "b", "a", None, "", Checkpoint(0, "read", None, 0), 1, 0, timedelta(0))


def test_a_long_text_keeps_its_start_and_its_end_and_says_how_long_it_was() -> None:
    cut = shorten(LONG, 1_000)
    assert len(cut) == 1_000
    assert cut.startswith("start x")
    assert cut.endswith("x end")
    assert "cut: 5,000,010 characters in all" in cut


@given(st.text(max_size=400), st.integers(min_value=100, max_value=400))
def test_no_text_is_longer_than_its_limit(text: str, limit: int) -> None:
    cut = shorten(text, limit)
    assert len(cut) <= limit
    assert len(text) > limit or cut == text


def test_a_failure_keeps_no_long_text() -> None:
    failure = Failure(LONG, LONG, LONG)
    assert (len(failure.kind), len(failure.message), len(failure.traceback)) == (MAX_NAME, MAX_REASON, MAX_TRACEBACK)


def test_a_release_keeps_no_long_reason() -> None:
    assert len(Release(CLAIM, "ann", "waiting", "defer", reason=LONG).reason) == MAX_REASON
