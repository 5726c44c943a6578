"""A wire that can be cut: a TCP proxy before PostgreSQL that hangs up at a chosen word."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import sleep
from typing import Literal

Cut = Literal["before", "after", "stranded", "truncated", "torn", "silent"]


class Proxy:
    """Forwards everything, until the client says the word it was told to listen for. Then it cuts, once.

    `before`: the word never reaches the server. `after`: it does, the server answers, and the answer never arrives.
    `stranded`: the word never reaches the server, and the server does not learn that the client is gone.
    `truncated`: half of what was said reaches the server. `torn`: half of the answer reaches the client.
    `silent`: the server is gone, and the client does not learn it: nothing is ever answered.

    With a `delay` every word is so many seconds late, both ways.
    """

    def __init__(self, port: int) -> None:
        self.cuts = 0
        self.delay = 0.0
        self._server_port = port
        self._word: bytes | None = None
        self._how: Cut = "before"
        self._meanwhile: Callable[[], object] = lambda: None
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def cut(self, how: Cut, word: str, *, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Listens for a word, and hangs up there. `meanwhile` happens before the client knows."""
        self._how, self._word, self._meanwhile = how, word.encode(), meanwhile

    def turn_to(self, port: int) -> None:
        """Leads to another server from now on. Who was connected is hung up on."""
        self._server_port = port
        before, self._sockets = self._sockets, []
        for one in before:
            _hang_up(one)

    def close(self) -> None:
        for one in [self._listener, *self._sockets]:
            _hang_up(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._server_port))
                except OSError:  # the server is away
                    _hang_up(client)
                    continue
                self._sockets += [client, server]
                line = _Line(client, server)
                threading.Thread(target=self._listen, args=(line,), daemon=True).start()
                threading.Thread(target=self._answer, args=(line,), daemon=True).start()

    def _listen(self, line: _Line) -> None:
        with suppress(OSError):
            while said := line.client.recv(1 << 20):
                if self._word is not None and self._word in said and not line.is_cut:
                    self._word, line.is_cut = None, True
                    self.cuts += 1
                    line.how = self._how
                    if line.how not in ("after", "torn"):
                        self._meanwhile()
                        if line.how == "truncated":
                            line.server.sendall(said[: len(said) // 2])
                        line.end()
                        return
                sleep(self.delay)
                line.server.sendall(said)
        if not line.is_cut:
            line.end()

    def _answer(self, line: _Line) -> None:
        with suppress(OSError):
            while said := line.server.recv(1 << 20):
                if line.is_cut:  # the server has answered, so it has committed
                    if line.how == "torn":
                        line.client.sendall(said[: len(said) // 2])
                    self._meanwhile()
                    break
                sleep(self.delay)
                line.client.sendall(said)
        line.end()


class _Line:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.is_cut = False
        self.how: Cut | None = None

    def end(self) -> None:
        """Hangs up on both, but for the one that is not to learn it."""
        if self.how != "silent":
            _hang_up(self.client)
        if self.how != "stranded":
            _hang_up(self.server)


def _hang_up(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    wire = Proxy(port)
    try:
        yield wire
    finally:
        wire.close()
