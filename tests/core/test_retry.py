"""When a failed attempt is repeated, after how long, and when it is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.message import Message
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import (
    BodyCrashed,
    CannotKeep,
    CursorMovedBack,
    DefinitionError,
    Reject,
    StepTimeout,
    TooManyFailures,
    WrongLength,
)
from holdfast.core.retry import Retry, retry_after, retry_after_header
from holdfast.core.waits import LONGEST

SECOND = timedelta(seconds=1)
NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)


def never() -> float:
    return 0.0


def always() -> float:
    return 1.0


def test_waits_double() -> None:
    waits = [Retry(jitter=0).wait(tries) for tries in range(1, 5)]
    assert waits == [SECOND, SECOND * 2, SECOND * 4, SECOND * 8]


def test_waits_stop_growing_at_the_ceiling() -> None:
    assert Retry(ceiling=SECOND * 5).wait(10, chance=never) == SECOND * 5


def test_jitter_only_shortens_a_wait() -> None:
    retry = Retry(base=SECOND * 8, jitter=0.25)
    assert (retry.wait(1, chance=never), retry.wait(1, chance=always)) == (SECOND * 8, SECOND * 6)


@given(
    tries=st.integers(1, 10**9),
    factor=st.floats(1, 1e12),
    jitter=st.floats(0, 1),
    chance=st.floats(0, 1, exclude_max=True),
)
def test_a_wait_is_never_longer_than_the_ceiling_nor_less_than_its_share(
    tries: int, factor: float, jitter: float, chance: float
) -> None:
    wait = Retry(factor=factor, jitter=jitter).wait(tries, chance=lambda: chance)
    assert SECOND * (1 - jitter) - timedelta(microseconds=1) <= wait <= timedelta(minutes=5)


@given(st.integers(1, 100))
def test_without_jitter_waits_never_shrink(tries: int) -> None:
    retry = Retry(jitter=0)
    assert retry.wait(tries) <= retry.wait(tries + 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attempts": 0}, "attempts=.* at least 1"),
        ({"crashes": 2}, "crashes=.* more than 2"),
        ({"losses": 5}, "losses=.* more than 5"),
        ({"base": timedelta(0)}, "0 < base <= ceiling"),
        ({"base": SECOND * 10, "ceiling": SECOND}, "0 < base <= ceiling"),
        ({"factor": 0.5}, "factor of at least 1"),
        ({"jitter": 1.5}, "between 0 and 1"),
        ({"jitter": -0.1}, "between 0 and 1"),
    ],
)
def test_a_wrong_policy_is_refused_when_written(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        Retry(**options)


def test_a_step_is_given_up_after_its_attempts() -> None:
    retry = Retry(attempts=3)
    given_up = [retry.gives_up(ValueError(), attempts=attempts, crashes=0) for attempts in (1, 2, 3, 4)]
    assert given_up == [False, False, True, True]


def test_a_step_is_given_up_after_its_crashes() -> None:
    retry = Retry(crashes=3)
    given_up = [retry.gives_up(BodyCrashed(), attempts=0, crashes=crashes) for crashes in (1, 2, 3)]
    assert given_up == [False, False, True]


@pytest.mark.parametrize("error", [Reject("no"), CannotKeep(), CursorMovedBack(), WrongLength()])
def test_what_a_second_try_cannot_mend_is_permanent(error: Exception) -> None:
    assert Retry().is_permanent(error)


@pytest.mark.parametrize("error", [ValueError(), OSError(), StepTimeout(), TooManyFailures(), BodyCrashed()])
def test_what_a_second_try_may_mend_is_not_permanent(error: Exception) -> None:
    assert not Retry().is_permanent(error)


def test_errors_that_are_named_permanent_are() -> None:
    assert Retry(permanent=(LookupError,)).gives_up(KeyError(), attempts=1, crashes=0)


def _error(*, asked: Any = None, header: Any = None) -> Exception:
    error: Any = RuntimeError("throttled")
    if asked is not None:
        error.retry_after = asked
    if header is not None:
        error.response = SimpleNamespace(headers={"Retry-After": header})
    return error


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (_error(), None),
        (_error(asked=SECOND * 3), SECOND * 3),
        (_error(asked=-SECOND), timedelta(0)),
        (_error(asked=2.5), SECOND * 2.5),
        (_error(asked=-1), timedelta(0)),
        (_error(asked="7"), SECOND * 7),
        (_error(header="7"), SECOND * 7),
        (_error(header=" 7 "), SECOND * 7),
        (_error(header="Sat, 01 Mar 2025 12:00:30 GMT"), SECOND * 30),
        (_error(header="Sat, 01 Mar 2025 11:00:00 GMT"), timedelta(0)),
        (_error(header="Sat, 01 Mar 2025 13:00:30 +0100"), SECOND * 30),
        (_error(header="7\x1e\x0b"), SECOND * 7),
        (_error(header="soon"), None),
        (_error(header=""), None),
        (_error(header="²"), None),
        (_error(header="1.5"), SECOND * 1.5),
        (_error(asked=float("nan")), None),
    ],
)
def test_the_wait_that_a_service_asks_for_is_understood(error: Exception, wait: timedelta | None) -> None:
    assert retry_after(error, now=NOW) == wait


@pytest.mark.parametrize("asked", ["9" * 30, 10**30, float("inf"), 1e300])
def test_an_absurd_wait_is_a_long_one_not_an_error(asked: Any) -> None:
    wait = retry_after(_error(asked=asked), now=NOW)
    assert wait is not None
    assert wait > timedelta(days=1)
    assert NOW + wait < datetime.max.replace(tzinfo=UTC)


@given(st.text())
def test_no_header_is_an_error(header: str) -> None:
    wait = retry_after(_error(header=header), now=NOW)
    assert wait is None or wait >= timedelta(0)


def test_a_response_without_headers_asks_for_nothing() -> None:
    error: Any = RuntimeError()
    error.response = SimpleNamespace(headers=None)
    assert retry_after(error) is None


def test_an_http_error_of_urllib_has_its_headers_itself() -> None:
    headers = Message()
    headers["retry-after"] = "7"
    assert retry_after(HTTPError("http://localhost/", 429, "Too Many Requests", headers, None)) == SECOND * 7


def test_a_date_beyond_all_calendars_names_no_wait() -> None:
    error = Exception("busy")
    error.response = SimpleNamespace(headers={"Retry-After": f"Mon, 16 Nov {'9' * 20} 12:00:00 GMT"})  # type: ignore[attr-defined]
    assert retry_after(error) is None


def test_a_factor_that_is_no_number_is_refused() -> None:
    with pytest.raises(DefinitionError, match="a factor of at least 1"):
        Retry(factor=float("nan"))


def test_a_factor_of_any_size_waits_for_the_ceiling() -> None:
    assert Retry(factor=10**400, jitter=0).wait(10**6) == Retry().ceiling


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "12"}, SECOND * 12),
        ({"retry-after": format_datetime(NOW + SECOND * 90, usegmt=True)}, SECOND * 90),
        ({"retry-after": format_datetime(NOW - timedelta(days=1), usegmt=True)}, timedelta(0)),
        ({"retry-after-ms": "250", "retry-after": "1"}, SECOND / 4),
        ({"Retry-After-Ms": "soon", "Retry-After": 7}, SECOND * 7),
        ({"retry-after": ""}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": f"Mon, 16 Nov {'9' * 20} 12:00:00 GMT"}, None),
        ({"retry-after": "1e300"}, LONGEST),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, LONGEST),
        ({}, None),
    ],
)
def test_headers_ask_for_a_wait_in_every_form(headers: dict[str, Any], wait: timedelta | None) -> None:
    assert retry_after_header(headers, now=NOW) == wait
