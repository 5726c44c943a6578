"""A TCP proxy in front of PostgreSQL that can cut a connection at a chosen statement."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import Literal

Cut = Literal["before", "after", "stranded", "truncated", "torn", "silent"]


class Proxy:
    """Forwards everything. When the client sends a chosen text, it cuts that connection, once.

    - `before`: the text never reaches the server.
    - `after`: the text reaches the server, and the answer never reaches the client.
    - `stranded`: the text never reaches the server, and the server does not see that the client is gone.
    - `truncated`: half of the message reaches the server.
    - `torn`: half of the answer reaches the client.
    - `silent`: the server is gone, and the client does not see it: there is never an answer.

    With a `delay`, every message is late by this many seconds, in both directions.
    """

    def __init__(self, port: int) -> None:
        self.cuts = 0
        self.delay = 0.0
        self._server_port = port
        self._text: bytes | None = None
        self._how: Cut = "before"
        self._meanwhile: Callable[[], object] = lambda: None
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def cut(self, how: Cut, text: str, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Cut the connection at the next message with this text. Call `meanwhile` before the client sees it."""
        self._how, self._text, self._meanwhile = how, text.encode(), meanwhile

    def switch_server(self, port: int) -> None:
        """Forward to another server from now on. Close all present connections."""
        self._server_port = port
        before, self._sockets = self._sockets, []
        for connection in before:
            _close(connection)

    def close(self) -> None:
        for connection in [self._listener, *self._sockets]:
            _close(connection)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._server_port))
                except OSError:  # the server does not run now
                    _close(client)
                    continue
                self._sockets += [client, server]
                connection = _ProxiedConnection(client, server)
                threading.Thread(target=self._forward_requests, args=(connection,), daemon=True).start()
                threading.Thread(target=self._forward_answers, args=(connection,), daemon=True).start()

    def _forward_requests(self, connection: _ProxiedConnection) -> None:
        with suppress(OSError):
            while data := connection.client.recv(1 << 20):
                if self._text is not None and self._text in data and not connection.is_cut:
                    self._text, connection.is_cut = None, True
                    self.cuts += 1
                    connection.how = self._how
                    if connection.how not in ("after", "torn"):
                        self._meanwhile()
                        if connection.how == "truncated":
                            connection.server.sendall(data[: len(data) // 2])
                        connection.end()
                        return
                sleep(self.delay)  # a slow network: the delay is the fault
                connection.server.sendall(data)
        if not connection.is_cut:
            connection.end()

    def _forward_answers(self, connection: _ProxiedConnection) -> None:
        with suppress(OSError):
            while data := connection.server.recv(1 << 20):
                if connection.is_cut:  # the server has answered, so it has committed
                    if connection.how == "torn":
                        connection.client.sendall(data[: len(data) // 2])
                    self._meanwhile()
                    break
                sleep(self.delay)  # a slow network: the delay is the fault
                connection.client.sendall(data)
        connection.end()


class _ProxiedConnection:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.is_cut = False
        self.how: Cut | None = None

    def end(self) -> None:
        """Close both sides, except the side that must not see the end."""
        if self.how != "silent":
            _close(self.client)
        if self.how != "stranded":
            _close(self.server)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    """Run a proxy in front of a server on this port."""
    running = Proxy(port)
    try:
        yield running
    finally:
        running.close()
