"""Who may ask: a server on loopback answers only those who call it by a name of its own.

A page of a stranger can have its name resolve to 127.0.0.1 and so have a browser ask this server, and read the
answer. What it cannot do is send another Host header than its own name.
"""

from __future__ import annotations

import ipaddress
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.web.answering import refusal

LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.IGNORECASE)
POLICY = b"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
HEADERS = [
    (b"content-security-policy", POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


def names_of(host: str) -> frozenset[str] | None:
    """Gives the names by which a server bound to this host may be called; None for any."""
    bare = host.strip("[]").lower()
    try:
        loopback = ipaddress.ip_address(bare.partition("%")[0]).is_loopback
    except ValueError:
        loopback = bare == "localhost"
    return LOCAL | {f"[{bare}]" if ":" in bare else bare} if loopback else None


class Guard:
    """Refuses requests that name another host, and adds what tells a browser to be careful."""

    def __init__(self, app: ASGIApp, *, names: frozenset[str] | None) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def careful(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        if self._names is not None and not self._is_ours(scope):
            answer = refusal(421, "this server answers only to " + ", ".join(sorted(self._names)))
            await answer(scope, receive, careful)
            return
        await self._app(scope, receive, careful)

    def _is_ours(self, scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or self._names is None:
            return False
        said = _HOST.fullmatch(hosts[0].decode("latin-1"))
        return said is not None and said[1].lower() in self._names
