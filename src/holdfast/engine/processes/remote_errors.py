"""Send an error from one process to another, which raises it again, without pickle.

Only text is sent. The class is looked up by name among the loaded modules, then its base classes. So
`Retry(permanent=(ValueError,))` also applies to an error whose own class only the child has imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from holdfast.core.errors import Pause, RetryLater
from holdfast.core.model import Failure
from holdfast.core.retry import retry_after
from holdfast.core.waits import LONGEST, moment_of, wait_of
from holdfast.engine.failure_policy import failure_of, readable, says_outage, unreadable_error


class BodyFailed(Exception):
    """A body in a child process raised an error whose class is not known in the worker.

    Attributes:
        remote_failure: The class, message and traceback of the error in the child.
    """


class RemoteError(Struct, array_like=True):
    """An error in the form in which it is sent: the names of its classes, its text, and what it asks for."""

    classes: list[str]
    failure: Failure
    after: float | None = None
    until: datetime | None = None
    retry_after: float | None = None
    is_outage: bool = False


def encode_error(error: BaseException) -> RemoteError:
    """Return an error in the form in which it is sent. One that cannot be read is sent as an UnreadableError."""
    try:
        return _encode(readable(error))
    except BaseException as problem:  # noqa: BLE001 - user code: properties of its error may raise anything
        return _encode(unreadable_error(error, problem))


def _encode(error: BaseException) -> RemoteError:
    after = error.after if isinstance(error, RetryLater) else None
    until = error.until if isinstance(error, Pause) else None
    return RemoteError(
        classes=[_name(cls) for cls in type(error).__mro__],
        failure=failure_of(error),
        after=None if after is None else wait_of(after).total_seconds(),
        until=None if until is None else moment_of(until),
        retry_after=_wait(error),
        is_outage=says_outage(error),
    )


def decode_error(remote: RemoteError, *, known: Iterable[type[BaseException]] = ()) -> BaseException:
    """Return the error that was sent: of its own class, or of its nearest base class that is known here."""
    named = {_name(cls): cls for cls in known}
    for name in remote.classes:
        cls = named.get(name) or _loaded(name)
        if cls in (None, Exception, BaseException):
            continue
        error = _rebuild(cls, remote)
        if error is not None:
            return error
    failed = BodyFailed(str(remote.failure))
    _set_attributes(failed, remote)
    return failed


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _wait(error: BaseException) -> float | None:
    wait = retry_after(error)
    return None if wait is None else wait.total_seconds()


def _loaded(name: str) -> type[BaseException] | None:
    """Find a class in a module that is already loaded. Import nothing."""
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _rebuild(cls: type[BaseException], remote: RemoteError) -> BaseException | None:
    """Create an error without calling its `__init__`, whose arguments are unknown. Return None if that fails."""
    builtin: Any = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    try:
        error: BaseException = builtin.__new__(cls, remote.failure.message)
        _set_attributes(error, remote)
    except Exception:  # noqa: BLE001 - a class of the user may forbid all of this; its base class is used instead
        return None
    return error


def _set_attributes(error: BaseException, remote: RemoteError) -> None:
    error.remote_failure = remote.failure  # type: ignore[attr-defined]
    if remote.failure.category:
        error.error_category = remote.failure.category  # type: ignore[attr-defined]
    if remote.is_outage:
        error.is_outage = True  # type: ignore[attr-defined]
    if remote.retry_after is not None:
        error.retry_after = _wait_of(remote.retry_after)  # type: ignore[attr-defined]
    if isinstance(error, RetryLater):
        error.after = None if remote.after is None else _wait_of(remote.after)
    if isinstance(error, Pause):
        error.until = remote.until


def _wait_of(seconds: float) -> timedelta:
    """Return a wait between zero and LONGEST, whatever a child sends."""
    return timedelta(seconds=max(0.0, min(seconds, LONGEST.total_seconds())))
