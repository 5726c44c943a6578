"""A small web server with the faults of real ones: it redirects, cuts answers, never ends, is slow or busy."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qs, urlsplit

CONTENT = bytes(range(256)) * 1000
WHEN = "Wed, 21 Oct 2015 07:28:00 GMT"


class Server(ThreadingHTTPServer):
    """Records the requests: method, path and range."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), handler)
        self.requests: list[str] = []
        self.ended = Event()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server_port}{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: some clients close the connection on purpose."""


@contextmanager
def running_server(handler: type[BaseHTTPRequestHandler], host: str = "127.0.0.1") -> Iterator[Server]:
    """Run a server in a thread."""
    server = Server(handler, host)
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(BaseHTTPRequestHandler):
    """Calls the method with the name of the path: /endless calls `endless`."""

    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self.close_connection = True
        self.server.requests.append(f"{self.command} {self.path} {self.headers.get('Range', '')}".strip())
        name = urlsplit(self.path).path.strip("/").partition(".")[0]
        with suppress(ConnectionError):
            getattr(self, name)()

    do_HEAD = do_GET  # noqa: N815

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers and "Transfer_Encoding" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def document(self, tag: str = '"one"', content: bytes = CONTENT) -> None:
        self.answer(200, content, ETag=tag, Last_Modified=WHEN, Accept_Ranges="bytes")

    def rest(self, tag: str) -> bool:
        """Serve the rest of a document, if the request asks for a range of this version. Return False otherwise."""
        wanted = self.headers.get("Range", "").removeprefix("bytes=").removesuffix("-")
        if not wanted or self.headers.get("If-Range") != tag:
            return False
        place = f"bytes {wanted}-{len(CONTENT) - 1}/{len(CONTENT)}"
        self.answer(206, CONTENT[int(wanted) :], ETag=tag, Content_Range=place)
        return True

    def breaks(self) -> None:
        if not self.rest('"one"'):
            self.answer(200, CONTENT[: len(CONTENT) // 2], ETag='"one"', Content_Length=str(len(CONTENT)))

    def replaced(self) -> None:
        first = len(self.server.requests) == 1
        half = CONTENT[: len(CONTENT) // 2]
        if first:
            self.answer(200, half, ETag='"one"', Content_Length=str(len(CONTENT)))
        elif not self.rest('"two"'):
            self.document('"two"', b"a new version")

    def wrong_part(self) -> None:
        if self.headers.get("Range"):
            self.answer(206, b"x", ETag='"one"', Content_Range=f"bytes 0-0/{len(CONTENT)}")
        else:
            self.breaks()

    def liar(self) -> None:
        self.answer(200, b"too little", Content_Length="100")

    def no_head(self) -> None:
        if self.command == "HEAD":
            self.answer(405)
        else:
            self.document()

    def plain(self) -> None:
        self.answer(200, b"no signs at all")

    def redirect(self) -> None:
        (to,) = parse_qs(urlsplit(self.path).query)["to"]
        self.answer(302, Location=to)

    def loop(self) -> None:
        self.answer(302, Location="/loop")

    def endless(self) -> None:
        self.answer(200, Content_Type="text/plain", Transfer_Encoding="chunked")
        while self.command != "HEAD" and not self.server.ended.is_set():
            self.wfile.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")

    def silent(self) -> None:
        self.answer(200, b"a beginning", Content_Length="1000")
        self.server.ended.wait()

    def drips(self) -> None:
        self.answer(200, Content_Length="1000000")
        self._drip(b"x")

    def drips_headers(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        self._drip(b"x")

    def _drip(self, byte: bytes) -> None:
        while not self.server.ended.wait(0.02):
            self.wfile.write(byte)

    def busy(self) -> None:
        self.answer(429, Retry_After="7")

    def overloaded(self) -> None:
        self.answer(503)

    def broken(self) -> None:
        self.answer(500)

    def gone(self) -> None:
        self.answer(404)

    def secret(self) -> None:
        self.answer(401)

    def bomb(self) -> None:
        self.answer(200, gzip.compress(bytes(20_000_000)), Content_Encoding="gzip")

    def huge(self) -> None:
        self.answer(200, Content_Length="1000000000000")

    def not_packed(self) -> None:
        self.answer(200, b"plain", Content_Encoding="gzip")

    def packed(self) -> None:
        self.answer(200, gzip.compress(CONTENT), Content_Encoding="gzip", ETag='"packed"')
