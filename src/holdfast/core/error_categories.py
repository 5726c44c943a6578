"""Error categories: what kind of problem an error is, and whether it can go away by itself.

The errors of the usual libraries are recognised without importing them: by the names of their classes, by HTTP status,
SQLSTATE, errno, and by the codes of AWS. An error that is not recognised has the category of the error that it was
raised from (`raise ... from error`).

To give an error of your own a category, give its class the attribute `error_category`:

    class EmbedderAway(Exception):
        error_category = "unreachable"
"""

from __future__ import annotations

from typing import Any, cast

from holdfast.core import errors
from holdfast.core.known_errors import (
    AMBIGUOUS,
    CATEGORIES,
    CLASSES,
    ERRNOS,
    HTTP_STATUSES,
    PACKAGES,
    RECOVERABLE_CATEGORIES,
    SERVICE_CODES,
    SQLITE_CODES,
    SQLSTATES,
    ErrorCategory,
)

MAX_CAUSES = 5
"""How many errors back a cause is searched."""
WRAPPED = ("orig", "reason", "source", "__cause__")
"""The attributes with which errors of SQLAlchemy, urllib, qdrant_client and Python refer to the error behind them."""


def is_recoverable(error: BaseException) -> bool | None:
    """Check whether an error can go away by itself.

    Args:
        error: Any error, for example one that an HTTP library or a database driver raised.

    Returns:
        True for rate limits, network errors, time-outs, failures of a service and deadlocks. False for authentication
        errors, violated constraints and wrong settings: a person has to do something first. None if nobody knows.

    Example:
        assert holdfast.is_recoverable(TimeoutError())
    """
    if isinstance(error, errors.RetryLater):
        return True
    category = error_category(error)
    return None if category is None else category in RECOVERABLE_CATEGORIES


def error_category(error: BaseException) -> ErrorCategory | None:
    """Return the category of an error.

    Args:
        error: Any error.

    Returns:
        One of the names in `ErrorCategory`, or None if the error is not known.

    Example:
        assert holdfast.error_category(ConnectionRefusedError()) == "unreachable"
    """
    try:
        return _with_causes(error, MAX_CAUSES)
    except BaseException:  # noqa: BLE001 - attributes of an unknown error may raise anything
        return None


def _with_causes(error: BaseException, depth: int) -> ErrorCategory | None:
    if isinstance(error, BaseExceptionGroup):
        found = {_with_causes(one, depth - 1) for one in error.exceptions} if depth else {None}
        return found.pop() if len(found) == 1 else None
    category = _declared(error) or _own(error) or _by_code(error) or _builtin(error) or _by_name(error)
    if category is not None or not depth:
        return category
    wrapped = [getattr(error, name, None) for name in WRAPPED]
    inner = (_with_causes(one, depth - 1) for one in wrapped if isinstance(one, BaseException) and one is not error)
    return next((one for one in inner if one is not None), None)


def _declared(error: BaseException) -> ErrorCategory | None:
    declared = getattr(error, "error_category", None)
    return cast("ErrorCategory", declared) if declared in CATEGORIES else None


def _own(error: BaseException) -> ErrorCategory | None:
    """Return the category of an error of holdfast itself."""
    match error:
        case errors.Reject():
            return "rejected"
        case errors.StepTimeout():
            return "step_timeout"
        case errors.TooManyFailures() | errors.BodyCrashed() | errors.BodyLost():
            return None  # the cause of the last item that failed decides, if there is one
        case errors.BodyError() | errors.MoveRefused() | errors.ItemDamaged():
            return "invalid"
        case errors.DefinitionError() | errors.SchemaNewer() | errors.SchemaOutdated():
            return "configuration"
        case errors.StoreGone():
            return "unreachable"
    return None


# codes


def _by_code(error: BaseException) -> ErrorCategory | None:
    """Return the category by a code that the error has: of the service, the database or HTTP."""
    for code in _service_codes(error):
        if isinstance(code, str) and (category := SERVICE_CODES.get(code)):
            return category
    sqlite = getattr(error, "sqlite_errorcode", None)
    if isinstance(sqlite, int) and (category := SQLITE_CODES.get(sqlite & 0xFF)):
        return category
    for state in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None)):
        if isinstance(state, str) and (category := _by_sqlstate(state)):
            return category
    return next((found for status in _statuses(error) if (found := by_status(status))), None)


def _code(error: BaseException) -> Any:
    """Return the attribute `code`. Errors of aiohttp have `status` instead, and warn if `code` is read."""
    return None if hasattr(error, "status") else getattr(error, "code", None)


def _service_codes(error: BaseException) -> list[Any]:
    response, code = getattr(error, "response", None), _code(error)
    codes = [code]
    if isinstance(response, dict) and isinstance(response.get("Error"), dict):
        codes.append(response["Error"].get("Code"))
    if callable(code) and hasattr(error, "details"):  # an error of gRPC
        codes.append(getattr(code(), "name", None))
    return codes


def _by_sqlstate(state: str) -> ErrorCategory | None:
    return next((SQLSTATES[state[:n]] for n in (5, 3, 2) if state[:n] in SQLSTATES), None)


def _statuses(error: BaseException) -> list[Any]:
    """Return what may be the HTTP status of the response."""
    response = getattr(error, "response", None)
    found = [*(getattr(error, name, None) for name in ("status_code", "status", "http_status")), _code(error)]
    if isinstance(response, dict):
        return [*found, (response.get("ResponseMetadata") or {}).get("HTTPStatusCode")]
    return [*found, getattr(response, "status_code", None), getattr(response, "status", None)]


def by_status(status: Any) -> ErrorCategory | None:
    """Return the category of an HTTP status. None if it says nothing, or is no status."""
    if not isinstance(status, int) or isinstance(status, bool):
        return None
    if status in HTTP_STATUSES:
        return HTTP_STATUSES[status]
    if 520 <= status <= 530:  # Cloudflare; Anthropic answers 529 while it is overloaded
        return "unreachable"
    return "server_error" if 500 < status < 600 else None


# classes


def _builtin(error: BaseException) -> ErrorCategory | None:
    match error:
        case TimeoutError():
            return "timeout"
        case ConnectionError():
            return "unreachable"
        case ImportError():
            return "configuration"
        case OSError(errno=number) if number in ERRNOS and not _is_of_ssl(error):
            return ERRNOS[number]
    return None


def _is_of_ssl(error: BaseException) -> bool:
    """Return True for errors of ssl and of name resolution. Their errno is not one of the system."""
    return any(cls.__module__ in ("ssl", "socket", "_socket") for cls in type(error).__mro__)


def _by_name(error: BaseException) -> ErrorCategory | None:
    """Return the category by the name of its class, or of the nearest base class that is known."""
    for cls in type(error).__mro__:
        package = cls.__module__.partition(".")[0]
        name = cls.__name__
        if package not in PACKAGES or name in AMBIGUOUS.get(package, ()):
            continue
        if name == "OperationalError" and (getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)):
            continue  # the server answered with a code, and it is none of those that we know
        if category := CLASSES.get(name):
            return "configuration" if category == "unreachable" and _has_bad_certificate(error) else category
    return None


def _has_bad_certificate(error: BaseException) -> bool:
    """Return True if a certificate that is not valid is behind an error of the network."""
    seen: Any = error
    for _ in range(MAX_CAUSES):
        if type(seen).__name__ == "SSLCertVerificationError":
            return True
        arguments = getattr(seen, "args", None) or (None,)
        behind = (getattr(seen, "reason", None), arguments[0], *arguments[1:2], seen.__cause__, seen.__context__)
        seen = next((one for one in behind if isinstance(one, BaseException) and one is not seen), None)
        if seen is None:
            return False
    return False
