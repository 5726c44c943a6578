"""Check the Host header: a server on loopback answers only requests for its own host names.

Without this, DNS rebinding would work: a web page can let its own name resolve to 127.0.0.1, make the browser send
requests to this server, and read the responses. The page cannot change the Host header, which has its own name.
"""

from __future__ import annotations

import ipaddress
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.web.routes import json_error

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.IGNORECASE)
POLICY = b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
SECURITY_HEADERS = [
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


def allowed_hosts(host: str) -> frozenset[str] | None:
    """Return the host names that a server on this address accepts; None for any, if it is not on loopback."""
    bare = host.strip("[]").lower()
    try:
        is_loopback = ipaddress.ip_address(bare.partition("%")[0]).is_loopback
    except ValueError:
        is_loopback = bare == "localhost"
    return LOOPBACK_NAMES | {f"[{bare}]" if ":" in bare else bare} if is_loopback else None


class HostCheck:
    """Middleware: refuse requests for other hosts, and add security headers to all responses."""

    def __init__(self, app: ASGIApp, *, allowed: frozenset[str] | None) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *SECURITY_HEADERS]
            await send(message)

        if self._allowed is not None and not self._is_allowed(scope):
            response = json_error(421, "this server answers only to " + ", ".join(sorted(self._allowed)))
            await response(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _is_allowed(self, scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or self._allowed is None:
            return False
        match = _HOST.fullmatch(hosts[0].decode("latin-1"))
        return match is not None and match[1].lower() in self._allowed
