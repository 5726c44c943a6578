"""Requests to `holdfast serve`: calls of the ASGI application, and bytes on a socket."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import closing
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st

pytest.importorskip("numpy", reason="document search needs the extra rag")
pytest.importorskip("uvicorn", reason="serving needs the extra web")

import holdfast
from holdfast.core.server_limits import DEFAULT_SERVER_LIMITS
from holdfast.pipelines import rag
from holdfast.pipelines.rag.ingest.intake import ScanOptions
from holdfast.pipelines.rag.search.search import EmptyQuestion, is_question
from holdfast.pipelines.rag.search.service import SearchService
from holdfast.stores import open_store
from holdfast.web.app import search_app
from holdfast.web.query_params import DOCUMENT_PARAMS, SEARCH_PARAMS, BadParameter, parse_query
from holdfast.web.server import ServerThread, listen
from tests.fuzz.inputs import scratch_folder, texts
from tests.fuzz.target import takes, takes_bytes

Question = tuple[str, dict[str, str], dict[str, Any]]
"""The query, the filters and the metadata."""
HOSTS = frozenset({"127.0.0.1"})
ANSWERED = "Every request is answered with 200, or with an error status and a message; never with 500."
LETTERS = {
    "tides.txt": "On tides\n\nThe spring tide comes twice a month.",
    "anchors.md": "# Anchors <script>alert(1)</script>\n\nAn anchor holds a boat in sand & mud.",
}


@cache
def database() -> str:
    """Return the URL of a store with a small collection."""
    url = f"sqlite:///{scratch_folder()}/web.db"
    make_searchable(url)
    return url


def make_searchable(url: str) -> None:
    """Ingest the letters into a store."""
    folder = scratch_folder() / "letters"
    folder.mkdir(exist_ok=True)
    for name, text in LETTERS.items():
        (folder / name).write_text(text)
    with (
        holdfast.open(url) as store,
        closing(rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"))) as library,
    ):
        library.ingest(str(folder), ScanOptions(metadata={"case": 12, "who": "a"}))


@cache
def _app() -> Any:
    return search_app(SearchService(open_store(database())), allowed_hosts=HOSTS)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


@cache
def _port() -> int:
    server = ServerThread(_app(), listen("127.0.0.1", 0), DEFAULT_SERVER_LIMITS)
    server.start()
    return server.port


NAMES = (*SEARCH_PARAMS, *DOCUMENT_PARAMS, "Q", "", "q[]", "é")
VALUES = st.one_of(
    texts,
    st.sampled_from(
        (
            *(
                "tide",
                "anchor sand",
                "documents",
                "1",
                "0",
                "10",
                "1000",
                "words",
                "meaning",
                "text",
                "*",
                "*.txt",
                "[a-",
            ),
            *("case:12", "case:99999999999999999999999", "case:1e999", "case:-0", "a.b:1", "a[0]:1", "$:1", "who:null"),
            *("case:[", ":", "who:a", 'a"b:1', "who:" + "a" * 999, "NEAR(a b)", "a AND", "tide*", "col:tide", "^tide"),
        )
    ),
)
PATHS = st.sampled_from(("/", "/search", "/collections", "/collections/documents", "/documents/documents", "/health"))
ODD_PATHS = st.tuples(st.sampled_from(("/collections/", "/documents/", "/", "//", "")), texts).map("".join)
HEADERS = st.lists(
    st.tuples(st.sampled_from((b"accept", b"host", b"cookie", b"range", b"content-type")), st.binary(max_size=20)),
    max_size=3,
)
METHODS = st.sampled_from(("GET", "GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "TRACE", "\x00"))


@takes(
    st.tuples(METHODS, PATHS | ODD_PATHS, st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5), HEADERS),
    ANSWERED,
)
def requests(given: tuple[str, str, list[tuple[str, str]], list[tuple[bytes, bytes]]]) -> None:
    method, path, query, headers = given
    status, kind, body = _loop().run_until_complete(_asked(method, path, _encoded(query), headers))
    assert status in (200, 400, 404, 405, 421, 307), f"{status}: {body[:500]!r}"
    if status >= 400 and method != "HEAD" and kind.startswith(b"application/json"):
        assert json.loads(body)["error"]
    if kind.startswith(b"text/html"):
        assert b"<script" not in body
        assert b"<img" not in body


async def _asked(method: str, path: str, query: bytes, headers: list[tuple[bytes, bytes]]) -> tuple[int, bytes, bytes]:
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        messages.append(message)

    path = path.encode("utf-8", "replace").decode()  # a server decodes with replacement
    hosts = [] if any(name == b"host" for name, _ in headers) else [(b"host", b"127.0.0.1")]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query}
    more = {"asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 80)}
    scope |= more | {"headers": [*hosts, *headers], "client": ("127.0.0.1", 1), "root_path": ""}
    await _app()(scope, receive, send)
    start = messages[0]
    named = dict(start["headers"])
    return (
        start["status"],
        named.get(b"content-type", b""),
        b"".join(message.get("body", b"") for message in messages[1:]),
    )


def _encoded(query: list[tuple[str, str]]) -> bytes:
    from urllib.parse import urlencode

    return urlencode(query, errors="surrogatepass").encode()


GET = b"GET /search?q=tide&limit=3 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
POST = b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"


@takes_bytes(
    [
        GET,
        POST,
        GET.replace(b"/search?q=tide&limit=3", b"/collections/%00%ff"),
        GET * 2,
        b"\x16\x03\x01",
        b"PRI * HTTP/2.0\r\n\r\n",
    ],
    "Any bytes get an answer or a closed connection, and the server answers the next request.",
)
def wire(data: bytes) -> None:
    answer = _sent(data)
    status = int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0
    assert status in (0, 100, 200, 307, 400, 404, 405, 421, 426), answer[:300]
    assert _sent(GET).startswith(b"HTTP/1.1 200")


def _sent(data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", _port()), timeout=10) as line:
        answer = b""
        try:
            line.sendall(data)
            if data != GET:
                line.shutdown(socket.SHUT_WR)  # so that the server does not wait for the rest of a request
            while piece := line.recv(1 << 16):
                answer += piece
        except (ConnectionResetError, BrokenPipeError, OSError):
            return answer
        return answer


@takes(
    st.tuples(st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=5), st.sampled_from(("search", "document"))),
    "Parameters are accepted, or refused with their name.",
    refusals=[BadParameter],
    sealed=True,
)
def parameters(given: tuple[list[tuple[str, str]], str]) -> None:
    pairs, what = given
    if what == "search":
        parse_query(pairs, SEARCH_PARAMS, required=["q"])
    else:
        parse_query(pairs, DOCUMENT_PARAMS, required=["source", "key"])


@takes(
    st.tuples(
        VALUES,
        st.fixed_dictionaries({}, optional=dict.fromkeys(("source", "key", "path", "kind"), VALUES)),
        st.dictionaries(texts, st.integers() | VALUES | st.floats(), max_size=2),
    ),
    "Any query with any filters is answered; a query without a letter or a digit is refused.",
)
def searches(given: Question) -> None:
    with holdfast.open(database()) as store, closing(rag.Library(store)) as library:
        search(library, given)


def search(library: rag.Library, given: Question) -> None:
    """Run one search."""
    question, where, metadata = given
    if is_question(question):
        library.search(question, rag.Where(**where, metadata=metadata), limit=3)
        return
    with pytest.raises(EmptyQuestion):
        library.search(question, rag.Where(**where, metadata=metadata), limit=3)
