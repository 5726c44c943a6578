"""Documents behind http: fetched within limits, and never from a private network unless that is allowed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Reject, RetryLater
from holdfast.sources import (
    FetchLimits,
    SourceFile,
    fsspec_source,
    hash_file,
    http_source,
    list_files,
    local_copy,
    parse_source,
    ssrf_guard,
)
from holdfast.sources.source import SourceRefused, Unreachable
from tests.support.services.web_server import CONTENT, Handler, Server, running_server

pytest.importorskip("httpx2", reason="fetching needs httpx2: pip install 'holdfast-pipelines[rag]'")

SMALL = FetchLimits(size=1_000_000)
HURRIED = FetchLimits(time=timedelta(seconds=0.5), silence=timedelta(seconds=0.3))


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server(Handler) as running:
        yield running


@pytest.fixture
def one_private_address(monkeypatch: pytest.MonkeyPatch) -> str:
    """Tests have no public address, so let all addresses of this machine but one count as public."""
    monkeypatch.setattr(ssrf_guard, "NOT_PUBLIC_V4", (IPv4Network("127.0.0.2/32"),))
    return "127.0.0.2"


def seen_at(url: str) -> SourceFile:
    return SourceFile(url, url, -1, 0)


def fetched(url: str, *, limits: FetchLimits = SMALL, allow_private: bool = True) -> bytes:
    with local_copy(seen_at(url), allow_private=allow_private, limits=limits) as path:
        return path.read_bytes()


def test_a_page_is_listed_with_the_size_time_and_etag_of_its_server(server: Server) -> None:
    url = server.url("/document.pdf")
    assert list(list_files(parse_source(f"{url}#page=3"), allow_private=True)) == [
        SourceFile(url, url, len(CONTENT), 1_445_412_480_000_000_000, '"one"')
    ]
    assert server.requests == ["HEAD /document.pdf"]


def test_a_server_that_does_not_support_head_gets_a_get(server: Server) -> None:
    (seen,) = list_files(parse_source(server.url("/no_head")), allow_private=True)
    assert (seen.size, seen.etag) == (len(CONTENT), '"one"')


def test_a_page_without_size_time_and_etag_is_listed_without_them(server: Server) -> None:
    (seen,) = list_files(parse_source(server.url("/plain")), allow_private=True)
    assert (seen.size, seen.mtime_ns, seen.etag) == (15, 0, "")


def test_a_page_is_a_temporary_file_that_is_deleted_afterwards(server: Server) -> None:
    with local_copy(seen_at(server.url("/document.pdf")), allow_private=True) as path:
        assert path.read_bytes() == CONTENT
        assert path.name == "document.pdf"
    assert not path.parent.exists()


def test_a_broken_download_is_resumed_where_it_broke(server: Server) -> None:
    assert fetched(server.url("/breaks")) == CONTENT
    assert server.requests == ["GET /breaks", f"GET /breaks bytes={len(CONTENT) // 2}-"]


def test_two_versions_are_never_mixed(server: Server) -> None:
    assert fetched(server.url("/replaced")) == b"a new version"


def test_a_part_that_was_not_requested_is_refused(server: Server) -> None:
    with pytest.raises(Unreachable, match="another part"):
        fetched(server.url("/wrong_part"))


def test_a_server_that_always_breaks_the_connection_is_tried_a_few_times(server: Server) -> None:
    with pytest.raises(Unreachable, match="broke"):
        fetched(server.url("/liar"))
    assert len(server.requests) == 1 + SMALL.resumptions


def test_a_body_without_end_ends_at_the_limit(server: Server) -> None:
    with pytest.raises(Reject, match="larger than 1,000,000 bytes"):
        fetched(server.url("/endless"))


def test_a_body_that_says_it_is_too_large_is_not_read(server: Server) -> None:
    with pytest.raises(Reject, match="larger than 1,000,000 bytes"):
        fetched(server.url("/huge"))


def test_a_body_that_is_not_compressed_as_it_says_is_rejected(server: Server) -> None:
    with pytest.raises(Reject, match="not compressed as its server says"):
        fetched(server.url("/not_packed"))


def test_a_body_that_decompresses_without_end_ends_at_the_limit(server: Server) -> None:
    with pytest.raises(Reject, match="larger than 1,000,000 bytes"):
        fetched(server.url("/bomb"))


def test_a_compressed_body_is_decompressed(server: Server) -> None:
    assert fetched(server.url("/packed")) == CONTENT
    (seen,) = list_files(parse_source(server.url("/packed")), allow_private=True)
    assert (seen.size, seen.etag) == (-1, '"packed"')


@pytest.mark.parametrize("path", ["/silent", "/drips", "/drips_headers"])
def test_a_slow_server_runs_into_the_time_limit(server: Server, path: str) -> None:
    with pytest.raises(Unreachable):
        fetched(server.url(path), limits=HURRIED)


def test_a_busy_server_is_asked_again_after_its_retry_after(server: Server) -> None:
    with pytest.raises(RetryLater, match="429") as later:
        fetched(server.url("/busy"))
    assert later.value.after == timedelta(seconds=7)


@pytest.mark.parametrize(("path", "why"), [("/gone", "404"), ("/secret", "requires a login")])
def test_a_permanent_error_is_rejected(server: Server, path: str, why: str) -> None:
    with pytest.raises(Reject, match=why):
        fetched(server.url(path))


def test_a_busy_server_that_does_not_say_when_costs_an_attempt(server: Server) -> None:
    with pytest.raises(Unreachable, match="503"):
        fetched(server.url("/overloaded"))


def test_a_server_that_failed_costs_an_attempt(server: Server) -> None:
    with pytest.raises(Unreachable, match="500"):
        fetched(server.url("/broken"))


def test_a_server_that_is_not_there_costs_an_attempt() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(Unreachable, match="does not answer"):
            fetched(f"http://127.0.0.1:{unused.getsockname()[1]}/")


def test_a_redirect_is_followed_a_few_times(server: Server) -> None:
    assert fetched(server.url("/redirect?to=/document")) == CONTENT
    with pytest.raises(Reject, match="redirects more than 5 times"):
        fetched(server.url("/loop"))


@pytest.mark.parametrize("to", ["file:///etc/passwd", "ftp://example.org/a"])
def test_a_redirect_to_another_scheme_is_rejected(server: Server, to: str) -> None:
    with pytest.raises(Reject, match="not http or https"):
        fetched(server.url(f"/redirect?to={to}"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1"])
def test_this_machine_is_not_connected_to_unless_allowed(server: Server, host: str) -> None:
    url = server.url("/document", host)
    with pytest.raises(Reject, match="--allow-private"):
        fetched(url, allow_private=False)
    with pytest.raises(SourceRefused, match="--allow-private"):
        list(list_files(parse_source(url)))
    assert server.requests == []
    assert fetched(url) == CONTENT


def test_an_invalid_url_is_rejected(server: Server) -> None:
    with pytest.raises(Reject, match="not a URL"):
        fetched(server.url("/document", "0177.0.0.1"))
    with pytest.raises(Unreachable, match="violates the HTTP protocol"):
        fetched(server.url("/redirect?to=http://[::1/"))


def test_a_redirect_into_a_private_network_is_not_followed(server: Server, one_private_address: str) -> None:
    assert fetched(server.url("/document"), allow_private=False) == CONTENT
    with pytest.raises(Reject, match=r"127\.0\.0\.2 is not an address of the public internet"):
        fetched(server.url(f"/redirect?to=http://{one_private_address}:{server.server_port}/"), allow_private=False)


def test_a_name_is_resolved_once_and_that_address_is_used(
    server: Server, one_private_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that resolves to a public address when it is checked, and to a private one when it is used, is refused."""
    answers = iter(["127.0.0.1", one_private_address])
    real = socket.getaddrinfo

    def rebinding(host: Any, *args: Any, **named: Any) -> Any:
        return real(next(answers) if host == "rebinding.example" else host, *args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    url = server.url("/document", "rebinding.example")
    assert fetched(url, allow_private=False) == CONTENT
    with pytest.raises(Reject, match=r"rebinding\.example resolves to 127\.0\.0\.2"):
        fetched(url, allow_private=False)


def test_a_proxy_of_the_environment_is_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert fetched(server.url("/document")) == CONTENT


def test_a_local_file_is_not_copied_and_a_page_has_the_hash_of_its_content(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(CONTENT)
    (seen,) = list_files(parse_source(str(file)))
    with local_copy(seen) as path:
        assert path == file
    assert hash_file(seen) == hash_file(seen_at(server.url("/document")), allow_private=True)
    file.unlink()
    with pytest.raises(Reject, match="not there any more"), local_copy(seen):
        pass


@pytest.mark.parametrize(
    ("headers", "size", "mtime_ns"),
    [
        ({"Content-Length": "9" * 5000}, 10**18 - 1, 0),
        ({"Content-Length": "1" + "0" * 30}, 10**17, 0),
        ({"Last-Modified": "Fri, 31 Dec 9999 23:59:59 GMT"}, -1, 0),
        ({"Last-Modified": f"Mon, 16 Nov {'9' * 20} 12:00:00 GMT"}, -1, 0),
    ],
)
def test_impossible_sizes_and_times_count_as_unknown(headers: dict[str, str], size: int, mtime_ns: int) -> None:
    import httpx2

    seen = http_source._source_file("https://example.org/a", httpx2.Response(200, headers=headers))
    assert (seen.size, seen.mtime_ns) == (size, mtime_ns)


@pytest.mark.parametrize("moment", [float("nan"), 1e300, "9999-12-31T23:59:59+00:00", "soon", None])
def test_an_impossible_time_counts_as_unknown(moment: Any) -> None:
    assert fsspec_source._nanoseconds(moment) == 0
