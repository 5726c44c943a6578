"""Errors and settings of the services that document search calls."""

from __future__ import annotations

import os

from holdfast.core.error_categories import by_status
from holdfast.core.errors import HoldfastError
from holdfast.core.known_errors import ErrorCategory

MAX_INLINE_WAIT = 5.0
"""Seconds that a call waits by itself. If it has to wait longer, the document is postponed instead."""

BUSY_STATUSES = (429, 503)
FORBIDDEN_STATUSES = (401, 403)


OUTAGES: tuple[ErrorCategory, ...] = ("authentication", "configuration", "unreachable")
"""The problems of a service that no document is to blame for. A failure of the service may be caused by one text."""


class ServiceError(HoldfastError):
    """A service did not answer as expected. The message names the service, and says what to do.

    Args:
        message: The message.
        category: What kind of problem it is, if that is known. While a service is away or denies access, the step that
            calls it is paused for all documents. No document fails because of that, even if others need no call.
    """

    error_category: ErrorCategory | None = None
    is_outage = False

    def __init__(self, message: str, *, category: ErrorCategory | None = None) -> None:
        super().__init__(message)
        if category is not None:
            self.error_category = category
            self.is_outage = category in OUTAGES


class MissingSetting(ServiceError):
    """An address or a key is not set. The message names the environment variable."""

    error_category = "configuration"
    is_outage = True


def category_of_status(status: int) -> ErrorCategory | None:
    """Return what kind of problem an HTTP status of a service is. Services deny access with 401 or 403."""
    if status in FORBIDDEN_STATUSES:
        return "authentication"
    return by_status(status)


def require_env(variable: str, what: str) -> str:
    """Return a required environment variable. It is read each time and stored nowhere.

    Raises:
        MissingSetting: It is not set.
    """
    value = os.environ.get(variable, "").strip()
    if not value:
        raise MissingSetting(f"{what} is not set: set the environment variable {variable}")
    return value


def redact(text: str, secret: str) -> str:
    """Replace a secret in a text. Error messages of services often repeat the request."""
    return text.replace(secret, "***") if secret else text
