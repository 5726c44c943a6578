"""When a failed attempt is tried again, and when it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import isnan
from random import random
from typing import Any

import msgspec

from holdfast.core.errors import BodyError, DefinitionError, Reject

SUSPECT = 2
"""After so many crashes a document is worked on alone: whoever was in hand beside a crash may be innocent."""

LONGEST = timedelta(days=365)
"""What a service may ask us to wait at most; more is a mistake of the service."""

NUMBER = re.compile(r"\s*[0-9]+\s*")

TRANSIENT_BODY_ERRORS = frozenset({"StepTimeout", "TooManyFailures", "BodyCrashed"})


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """Says how often a step is tried, and how long to wait between.

    Attempts and crashes are counted since the document last moved: a step that makes progress is never given up for
    what happened before. `permanent` names the errors that are not worth a second try.
    """

    attempts: int = 3
    crashes: int = 3
    base: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    ceiling: timedelta = timedelta(minutes=5)
    jitter: float = 0.5
    permanent: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        if not self.attempts >= 1:
            raise DefinitionError("Retry(attempts=) is at least 1: the first try counts")
        if self.crashes <= SUSPECT:
            raise DefinitionError(
                f"Retry(crashes=) is more than {SUSPECT}: only a crash made alone convicts a document"
            )
        if self.base <= timedelta(0) or self.ceiling < self.base or not self.factor >= 1:
            raise DefinitionError("Retry needs 0 < base <= ceiling and a factor of at least 1")
        if not 0 <= self.jitter <= 1:
            raise DefinitionError("Retry(jitter=) is the share of the wait that is random: between 0 and 1")

    def wait(self, tries: int, *, chance: Callable[[], float] = random) -> timedelta:
        """Answers how long to wait after so many tries: exponential, with a ceiling, a share of it random."""
        try:
            full = min(self.base.total_seconds() * float(self.factor) ** (tries - 1), self.ceiling.total_seconds())
        except OverflowError:  # the ceiling was reached long ago
            full = self.ceiling.total_seconds()
        return timedelta(seconds=full * (1 - self.jitter * chance()))

    def gives_up(self, error: BaseException, *, attempts: int, crashes: int) -> bool:
        """Answers whether this error, after so many tries, makes the document a dead letter."""
        return self.is_permanent(error) or attempts >= self.attempts or crashes >= self.crashes

    def is_permanent(self, error: BaseException) -> bool:
        """Answers whether a second try is pointless."""
        if isinstance(error, (Reject, *self.permanent)):
            return True
        return isinstance(error, BodyError) and type(error).__name__ not in TRANSIENT_BODY_ERRORS


def retry_after(error: BaseException, *, now: datetime | None = None) -> timedelta | None:
    """Answers the wait that a service asked for, from `error.retry_after` or its response's Retry-After header."""
    try:
        asked: Any = getattr(error, "retry_after", None)
        if asked is None:
            headers = getattr(getattr(error, "response", None), "headers", None)
            asked = headers.get("Retry-After") if headers is not None else None
    except Exception:  # noqa: BLE001 - whatever an error of unknown make does when it is asked, it names no wait
        return None
    if isinstance(asked, timedelta):
        return min(max(asked, timedelta(0)), LONGEST)
    if isinstance(asked, (int, float)):
        return None if isnan(asked) else timedelta(seconds=max(min(asked, LONGEST.total_seconds()), 0))
    return _from_header(asked, now or datetime.now(UTC)) if isinstance(asked, str) else None


def _from_header(text: str, now: datetime) -> timedelta | None:
    from email.utils import parsedate_to_datetime  # slow to import, and seldom needed

    if NUMBER.fullmatch(text):
        return timedelta(seconds=min(float(text.strip()), LONGEST.total_seconds()))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # a year beyond all calendars
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(moment - now, timedelta(0)), LONGEST)
