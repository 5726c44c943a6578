"""A service on loopback: it keeps what it was asked, and has the troubles it was told to have."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Asked:
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """What goes back. `after` holds it until somebody sets it; `cut` closes the connection instead."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    after: threading.Event | None = None
    cut: bool = False


class LocalService:
    """Answers requests, after the troubles that were put in front of them."""

    def __init__(self) -> None:
        self.requests: list[Asked] = []
        self.troubles: deque[Answer] = deque()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, asked: Asked) -> Answer:
        raise NotImplementedError

    def hear(self, asked: Asked) -> Answer:
        with self._lock:
            self.requests.append(asked)
            trouble = self.troubles.popleft() if self.troubles else None
        if trouble is None:
            return self.answer(asked)
        if trouble.after is not None:
            trouble.after.wait(60)
        return trouble if trouble.status != 200 or trouble.cut else self.answer(asked)


def busy(after: str | None = None, *, status: int = 429) -> Answer:
    headers = {} if after is None else {"Retry-After": after}
    return Answer(status, {"error": {"message": "slow down"}}, headers)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what some tests are about."""


def _handler_of(service: LocalService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self._serve()

        def do_GET(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            answer = service.hear(Asked(self.command, self.path, dict(self.headers.items()), body))
            if answer.cut:
                self.close_connection = True
                return
            content = b"" if answer.body is None else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Tests say themselves what went wrong."""

    return Handler
