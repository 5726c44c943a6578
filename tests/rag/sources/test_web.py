"""Documents behind http: looked at, fetched within limits, and never from a private network unless that is allowed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Reject, RetryLater
from holdfast.pipelines.rag.sources import Limits, Seen, addresses, hash_of, listing, local_copy, remote, source_of, web
from holdfast.pipelines.rag.sources.source import SourceRefused, Unreachable
from tests.rag.sources.servers import CONTENT, Handler, Server, serving

pytest.importorskip("httpx2", reason="fetching needs httpx2: pip install 'holdfast[rag]'")

SMALL = Limits(size=1_000_000)
HURRIED = Limits(time=timedelta(seconds=0.5), silence=timedelta(seconds=0.3))


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Handler) as running:
        yield running


@pytest.fixture
def one_private_address(monkeypatch: pytest.MonkeyPatch) -> str:
    """Nothing here is on the open internet, so let this machine be there, apart from one of its addresses."""
    monkeypatch.setattr(addresses, "NOT_PUBLIC_V4", (IPv4Network("127.0.0.2/32"),))
    return "127.0.0.2"


def seen_at(url: str) -> Seen:
    return Seen(url, url, -1, 0)


def fetched(url: str, *, limits: Limits = SMALL, allow_private: bool = True) -> bytes:
    with local_copy(seen_at(url), allow_private=allow_private, limits=limits) as path:
        return path.read_bytes()


def test_a_page_is_seen_with_the_signs_its_server_gives(server: Server) -> None:
    url = server.url("/document.pdf")
    assert list(listing(source_of(f"{url}#page=3"), allow_private=True)) == [
        Seen(url, url, len(CONTENT), 1_445_412_480_000_000_000, '"one"')
    ]
    assert server.asked == ["HEAD /document.pdf"]


def test_a_server_that_does_not_speak_head_is_asked_otherwise(server: Server) -> None:
    (seen,) = listing(source_of(server.url("/no_head")), allow_private=True)
    assert (seen.size, seen.etag) == (len(CONTENT), '"one"')


def test_a_page_without_signs_is_seen_without_them(server: Server) -> None:
    (seen,) = listing(source_of(server.url("/plain")), allow_private=True)
    assert (seen.size, seen.mtime_ns, seen.etag) == (15, 0, "")


def test_a_page_is_there_as_a_file_and_gone_afterwards(server: Server) -> None:
    with local_copy(seen_at(server.url("/document.pdf")), allow_private=True) as path:
        assert path.read_bytes() == CONTENT
        assert path.name == "document.pdf"
    assert not path.parent.exists()


def test_a_broken_connection_goes_on_where_it_broke(server: Server) -> None:
    assert fetched(server.url("/breaks")) == CONTENT
    assert server.asked == ["GET /breaks", f"GET /breaks bytes={len(CONTENT) // 2}-"]


def test_two_versions_are_never_mixed(server: Server) -> None:
    assert fetched(server.url("/replaced")) == b"a new version"


def test_a_part_that_nobody_asked_for_is_not_taken(server: Server) -> None:
    with pytest.raises(Unreachable, match="another part"):
        fetched(server.url("/wrong_part"))


def test_a_server_that_always_breaks_off_is_tried_a_few_times(server: Server) -> None:
    with pytest.raises(Unreachable, match="broke"):
        fetched(server.url("/liar"))
    assert len(server.asked) == 1 + SMALL.resumptions


def test_a_body_without_end_ends_at_the_limit(server: Server) -> None:
    with pytest.raises(Reject, match="larger than 1,000,000 bytes"):
        fetched(server.url("/endless"))


def test_a_body_that_says_it_is_too_large_is_not_read(server: Server) -> None:
    with pytest.raises(Reject, match="larger than 1,000,000 bytes"):
        fetched(server.url("/huge"))


def test_a_body_that_is_not_packed_as_it_says_is_rejected(server: Server) -> None:
    with pytest.raises(Reject, match="not packed as its server says"):
        fetched(server.url("/not_packed"))


def test_a_body_that_unpacks_without_end_ends_at_the_limit(server: Server) -> None:
    with pytest.raises(Reject, match="larger than 1,000,000 bytes"):
        fetched(server.url("/bomb"))


def test_a_body_that_came_packed_is_unpacked(server: Server) -> None:
    assert fetched(server.url("/packed")) == CONTENT
    (seen,) = listing(source_of(server.url("/packed")), allow_private=True)
    assert (seen.size, seen.etag) == (-1, '"packed"')


@pytest.mark.parametrize("path", ["/silent", "/drips", "/drips_headers"])
def test_a_slow_server_is_left_in_time(server: Server, path: str) -> None:
    with pytest.raises(Unreachable):
        fetched(server.url(path), limits=HURRIED)


def test_a_busy_server_is_asked_again_when_it_says(server: Server) -> None:
    with pytest.raises(RetryLater, match="429") as later:
        fetched(server.url("/busy"))
    assert later.value.after == timedelta(seconds=7)


@pytest.mark.parametrize(("path", "why"), [("/gone", "404"), ("/secret", "who asks")])
def test_what_will_never_be_there_is_rejected(server: Server, path: str, why: str) -> None:
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
def test_a_redirect_leads_nowhere_but_the_web(server: Server, to: str) -> None:
    with pytest.raises(Reject, match="not on the web"):
        fetched(server.url(f"/redirect?to={to}"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1"])
def test_this_machine_is_not_asked_unless_that_is_allowed(server: Server, host: str) -> None:
    url = server.url("/document", host)
    with pytest.raises(Reject, match="--allow-private"):
        fetched(url, allow_private=False)
    with pytest.raises(SourceRefused, match="--allow-private"):
        list(listing(source_of(url)))
    assert server.asked == []
    assert fetched(url) == CONTENT


def test_what_is_no_url_is_rejected(server: Server) -> None:
    with pytest.raises(Reject, match="no URL"):
        fetched(server.url("/document", "0177.0.0.1"))
    with pytest.raises(Unreachable, match="does not speak HTTP as it should"):
        fetched(server.url("/redirect?to=http://[::1/"))


def test_a_redirect_into_a_private_network_is_not_followed(server: Server, one_private_address: str) -> None:
    assert fetched(server.url("/document"), allow_private=False) == CONTENT
    with pytest.raises(Reject, match=r"127\.0\.0\.2 is no address of the open internet"):
        fetched(server.url(f"/redirect?to=http://{one_private_address}:{server.server_port}/"), allow_private=False)


def test_a_name_is_looked_up_once_and_that_address_is_used(
    server: Server, one_private_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is public when it is checked and private when it is used gains nothing by that."""
    answers = iter(["127.0.0.1", one_private_address])
    real = socket.getaddrinfo

    def rebinding(host: Any, *args: Any, **named: Any) -> Any:
        return real(next(answers) if host == "rebinding.example" else host, *args, **named)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    url = server.url("/document", "rebinding.example")
    assert fetched(url, allow_private=False) == CONTENT
    with pytest.raises(Reject, match=r"rebinding\.example leads to 127\.0\.0\.2"):
        fetched(url, allow_private=False)


def test_a_proxy_of_the_environment_is_not_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert fetched(server.url("/document")) == CONTENT


def test_a_local_file_is_given_itself_and_a_page_has_the_hash_of_its_content(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(CONTENT)
    (seen,) = listing(source_of(str(file)))
    with local_copy(seen) as path:
        assert path == file
    assert hash_of(seen) == hash_of(seen_at(server.url("/document")), allow_private=True)
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
def test_signs_that_no_file_can_have_are_kept_as_none(headers: dict[str, str], size: int, mtime_ns: int) -> None:
    import httpx2

    seen = web._seen("https://example.org/a", httpx2.Response(200, headers=headers))
    assert (seen.size, seen.mtime_ns) == (size, mtime_ns)


@pytest.mark.parametrize("moment", [float("nan"), 1e300, "9999-12-31T23:59:59+00:00", "soon", None])
def test_a_time_that_no_clock_shows_is_none(moment: Any) -> None:
    assert remote._nanoseconds(moment) == 0
