"""Stories: an error is told in one process and raised again in another, without pickle.

Only text crosses. The class is looked up by its name among what is loaded here, then its bases, so that
`Retry(permanent=(ValueError,))` holds also for an error whose own class only the child has imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from holdfast.core.errors import Pause, RetryLater
from holdfast.core.model import Failure
from holdfast.core.retry import LONGEST, retry_after
from holdfast.engine.verdicts import clean, failure_of


class BodyFailed(Exception):
    """A body in a child raised an error whose class is not known here. `story` tells it in full."""


class Told(Struct, array_like=True):
    """An error as it can be sent: the names of its classes, its story, and what it asks for."""

    classes: list[str]
    story: Failure
    after: float | None = None
    until: datetime | None = None
    retry_after: float | None = None


def tell(error: BaseException) -> Told:
    """Gives an error as it can be sent."""
    return Told(
        classes=[_name(cls) for cls in type(error).__mro__],
        story=_story(error),
        after=error.after.total_seconds() if isinstance(error, RetryLater) and error.after is not None else None,
        until=error.until if isinstance(error, Pause) else None,
        retry_after=_wait(error),
    )


def retold(told: Told, *, known: Iterable[type[BaseException]] = ()) -> BaseException:
    """Gives the error that was told: of its own class, or of its nearest base that is known here."""
    named = {_name(cls): cls for cls in known}
    for name in told.classes:
        cls = named.get(name) or _loaded(name)
        if cls in (None, Exception, BaseException):
            continue
        error = _rebuilt(cls, told)
        if error is not None:
            return error
    failed = BodyFailed(str(told.story))
    _dress(failed, told)
    return failed


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _story(error: BaseException) -> Failure:
    try:
        story = failure_of(error)
    except Exception as worse:  # noqa: BLE001 - an error whose own text cannot be had is still to be told
        story = Failure(type(error).__name__, f"(its message cannot be read: {type(worse).__name__})")
    return Failure(story.kind, clean(story.message), clean(story.traceback))


def _wait(error: BaseException) -> float | None:
    try:
        asked = retry_after(error)
    except Exception:  # noqa: BLE001 - an attribute of a foreign error may be code that fails
        return None
    return None if asked is None else asked.total_seconds()


def _loaded(name: str) -> type[BaseException] | None:
    """Finds a class in a module that is loaded already. Imports nothing."""
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _rebuilt(cls: type[BaseException], told: Told) -> BaseException | None:
    """Makes an error without its `__init__`, whose arguments nobody knows; None where that cannot be done."""
    builtin: Any = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    try:
        error: BaseException = builtin.__new__(cls, told.story.message)
        _dress(error, told)
    except Exception:  # noqa: BLE001 - a class may forbid all of this; then its base has to do
        return None
    return error


def _dress(error: BaseException, told: Told) -> None:
    error.story = told.story  # type: ignore[attr-defined]
    if told.retry_after is not None:
        error.retry_after = _span(told.retry_after)  # type: ignore[attr-defined]
    if isinstance(error, RetryLater):
        error.after = None if told.after is None else _span(told.after)
    if isinstance(error, Pause):
        error.until = told.until


def _span(seconds: float) -> timedelta:
    """Gives a wait that a clock can count, whatever a child says."""
    return timedelta(seconds=max(0.0, min(seconds, LONGEST.total_seconds())))
