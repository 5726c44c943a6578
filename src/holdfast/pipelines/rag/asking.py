"""What talking to any service needs: how long it asks us to wait, and errors that say what to do."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from holdfast.core.errors import HoldfastError
from holdfast.core.retry import LONGEST

SHORT = 5.0
"""Seconds that are waited out. Whoever is asked to wait longer puts the document off instead."""

BUSY = (429, 503)
FORBIDDEN = (401, 403)


class ServiceError(HoldfastError):
    """A service did not do what it was asked. The message says which, and what to do."""


class MissingSetting(ServiceError):
    """An address or a key is not set. The message names the environment variable."""


def from_environment(variable: str, what: str) -> str:
    """Gives a setting that has to be there. It is read anew each time, and kept nowhere."""
    value = os.environ.get(variable, "").strip()
    if not value:
        raise MissingSetting(f"{what} is not known: set the environment variable {variable}")
    return value


def asked_to_wait(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Gives the seconds that an answer asks to wait: as a number, in milliseconds, or until a date. None: it does not.

    `headers` finds its names in any case, as HTTP libraries' do.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return min(seconds, LONGEST.total_seconds())
    return _until(headers.get("retry-after", ""), now or datetime.now(UTC))


def backoff(attempt: int, *, most: float = 60.0) -> float:
    """Gives the seconds to wait before a repeated try: twice as long each time, by chance down to half of it."""
    return min(2.0**attempt, most) * random.uniform(0.5, 1.0)  # noqa: S311


def without(text: str, secret: str) -> str:
    """Gives a text in which a secret cannot be read. Services like to repeat what they were sent."""
    return text.replace(secret, "***") if secret else text


def _until(date: str, now: datetime) -> float | None:
    try:
        until = parsedate_to_datetime(date.strip())
    except (TypeError, ValueError, OverflowError):  # no date, or a year beyond all calendars
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(max((until - now).total_seconds(), 0.0), LONGEST.total_seconds())
