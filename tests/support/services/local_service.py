"""A local HTTP service that records requests and returns the answers that a test has queued."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class HttpRequest:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """One answer.

    Args:
        after: An event that the service waits for before it answers.
        cut: Close the connection instead of answering.
    """

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    after: threading.Event | None = None
    cut: bool = False


class LocalService:
    """Answers requests: first with the queued answers, then with `answer`."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.queued_answers: deque[Answer] = deque()
        self.is_away = False
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
        if not self.is_away:
            self.go_away()

    def go_away(self) -> None:
        """Stop listening, and cut the connections that are open."""
        self.is_away = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def come_back(self) -> None:
        """Listen again, at the same address."""
        self._server = _Server(self._server.server_address[:2], _handler_of(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.is_away = False
        self._thread.start()

    def answer(self, request: HttpRequest) -> Answer:
        """Return the answer of the service to a request. Subclasses override it."""
        raise NotImplementedError

    def handle(self, request: HttpRequest) -> Answer:
        """Record a request and return a queued answer or that of the service."""
        with self._lock:
            self.requests.append(request)
            queued = self.queued_answers.popleft() if self.queued_answers else None
        if queued is None:
            return self.answer(request)
        if queued.after is not None:
            queued.after.wait(60)
        return queued if queued.status != 200 or queued.cut else self.answer(request)


def busy(after: str | None = None, *, status: int = 429) -> Answer:
    headers = {} if after is None else {"Retry-After": after}
    return Answer(status, {"error": {"message": "slow down"}}, headers)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: in some tests the client closes the connection on purpose."""


def _handler_of(service: LocalService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self._serve()

        def do_GET(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if service.is_away:
                self.close_connection = True
                return
            answer = service.handle(HttpRequest(self.command, self.path, dict(self.headers.items()), body))
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
            """Print nothing."""

    return Handler
