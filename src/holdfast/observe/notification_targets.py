"""Where notifications go: a webhook, or a command. Another kind of target is one more entry of TARGETS."""

from __future__ import annotations

import http.client
import shlex
import shutil
import subprocess
from collections.abc import Callable
from typing import IO, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from holdfast.core.errors import HoldfastError
from holdfast.core.formatting import one_line

REQUEST_SECONDS = 10.0
"""How long one request to a webhook may take to connect and to answer."""
COMMAND_SECONDS = 30.0
"""How long a command may run. Then it is killed."""
TRY_AGAIN = frozenset({408, 425, 429})
"""Answers of a webhook that are no fault of the request, besides all from 500 on."""


class DeliveryFailed(Exception):
    """A notification was not delivered. `may_succeed` is True if it makes sense to try again."""

    def __init__(self, reason: str, *, may_succeed: bool) -> None:
        super().__init__(reason)
        self.may_succeed = may_succeed


class NotificationTarget(Protocol):
    """A place that notifications are sent to."""

    name: str
    """The name for messages. It contains no secrets."""

    def send(self, body: bytes) -> None:
        """Deliver one notification, JSON in UTF-8.

        Args:
            body: The notification.

        Raises:
            DeliveryFailed: It was not delivered.
        """


class Webhook:
    """Send notifications to a URL, with an HTTP POST.

    The path, the query and the user of a URL are often secrets, so messages name only its host. Redirects are not
    followed: they would turn the POST into a GET.

    Args:
        url: An http or https URL.

    Raises:
        HoldfastError: It is no such URL.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if not host or parts.scheme not in ("http", "https"):
            raise HoldfastError("a webhook is a URL such as https://hooks.example.org/holdfast")
        self.name = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
        self._url = url
        self._opener = build_opener(_NoRedirects)

    def send(self, body: bytes) -> None:
        headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "holdfast"}
        request = Request(self._url, data=body, headers=headers, method="POST")  # noqa: S310 - http or https only
        try:
            self._opener.open(request, timeout=REQUEST_SECONDS).close()
        except HTTPError as error:
            error.close()
            may_succeed = error.code in TRY_AGAIN or error.code >= 500
            raise DeliveryFailed(f"it answered {error.code}", may_succeed=may_succeed) from None
        except (OSError, http.client.HTTPException) as error:  # URLError is an OSError; its text may name the URL
            reason = error.reason if isinstance(error, URLError) else error
            raise DeliveryFailed(one_line(str(reason) or type(reason).__name__), may_succeed=True) from None


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(  # noqa: PLR0917 - the signature of urllib
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> None:
        """Follow no redirect: the answer is an HTTPError with its code."""


class Command:
    """Run a command for each notification, with the JSON on its standard input.

    Args:
        command: The command, with quotes as in a shell. No shell runs it.

    Raises:
        HoldfastError: There is no such program.
    """

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise HoldfastError(f"the command {command!r} cannot be read: {error}") from error
        if not self._words or shutil.which(self._words[0]) is None:
            raise HoldfastError(f"there is no program {(self._words or [''])[0]!r} to send notifications with")
        self.name = f"command:{self._words[0]}"

    def send(self, body: bytes) -> None:
        try:
            done = subprocess.run(
                self._words,
                input=body,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=COMMAND_SECONDS,
                check=False,
                start_new_session=True,  # Ctrl-C in the terminal of the worker does not end it
            )
        except subprocess.TimeoutExpired:
            raise DeliveryFailed(f"it ran for over {COMMAND_SECONDS:g} s and was killed", may_succeed=True) from None
        except OSError as error:
            raise DeliveryFailed(str(error), may_succeed=True) from None
        if done.returncode:
            message = one_line(done.stderr[-2000:].decode(errors="replace"))
            raise DeliveryFailed(f"it ended with {done.returncode}: {message}", may_succeed=True)


TARGETS: dict[str, Callable[[str], NotificationTarget]] = {
    "http": Webhook,
    "https": Webhook,
    "command": lambda target: Command(target.partition(":")[2]),
}
"""Every kind of target, by what a target begins with. The whole target is passed."""


def open_target(target: str) -> NotificationTarget:
    """Return the target that a text names.

    Args:
        target: `https://...`, `http://...`, or `command:` and a command.

    Returns:
        The target.

    Raises:
        HoldfastError: It names no target, or one that cannot be used.
    """
    scheme = target.partition(":")[0]
    if scheme not in TARGETS or ":" not in target:
        kinds = ", ".join(f"{known}:..." for known in TARGETS)
        raise HoldfastError(f"notifications cannot be sent to {scheme!r}: write one of {kinds}")
    return TARGETS[scheme](target)
