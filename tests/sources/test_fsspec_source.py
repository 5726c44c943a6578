"""Objects of S3 and of other stores that fsspec reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from ipaddress import IPv4Network
from typing import Any

import pytest

from holdfast.core.errors import Reject
from holdfast.sources import (
    FetchLimits,
    SourceFile,
    SourceRefused,
    hash_file,
    list_files,
    local_copy,
    parse_source,
    ssrf_guard,
)
from holdfast.sources.ssrf_guard import PrivateAddress
from tests.support.services.s3_server import OBJECTS, S3, tag
from tests.support.services.web_server import Server, running_server

fsspec = pytest.importorskip("fsspec", reason="other places need fsspec: pip install 'holdfast-pipelines[rag]'")

MOMENT = 1_714_979_289_000_000_000


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    pytest.importorskip("s3fs", reason="S3 needs s3fs: pip install 'holdfast-pipelines[s3]'")
    with running_server(S3) as server:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
            monkeypatch.delenv(name, raising=False)
        settings = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "word",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": server.url(""),
            "AWS_CONFIG_FILE": "/nowhere",
            "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        yield server


def keys(word: str, *ignore: str, **options: Any) -> list[str]:
    return [seen.key for seen in list_files(parse_source(word), ignore=ignore, allow_private=True, **options)]


def seen_at(url: str) -> SourceFile:
    return SourceFile(url, url, -1, 0)


def test_a_prefix_gives_all_objects_below_it_with_urls_as_keys(s3: Server) -> None:
    assert keys("s3://papers/") == [
        "s3://papers/a.pdf",
        "s3://papers/2024/b.pdf",
        "s3://papers/2024/c d.txt",
        "s3://papers/2024/list[1].csv",
        "s3://papers/2024/deep/e.pdf",
    ]
    assert keys("s3://papers/2024") == keys("s3://papers/2024/") == keys("s3://papers")[1:]


def test_an_object_is_listed_with_its_size_time_and_etag(s3: Server) -> None:
    url = "s3://papers/2024/b.pdf"
    (listed,) = (seen for seen in list_files(parse_source("s3://papers"), allow_private=True) if seen.key == url)
    assert listed == SourceFile(url, url, 20, MOMENT, tag(OBJECTS["2024/b.pdf"]))
    assert list(list_files(parse_source(url), allow_private=True)) == [listed]


def test_new_and_changed_objects_are_listed(s3: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(list_files(parse_source("s3://papers/2024"), allow_private=True))
    monkeypatch.setitem(OBJECTS, "2024/b.pdf", b"other")
    monkeypatch.setitem(OBJECTS, "2024/new.pdf", b"new")
    after = list(list_files(parse_source("s3://papers/2024"), allow_private=True))
    other = {(seen.key, seen.size) for seen in set(after) - set(before)}
    assert other == {("s3://papers/2024/b.pdf", 5), ("s3://papers/2024/new.pdf", 3)}
    with local_copy(seen_at("s3://papers/2024/b.pdf"), allow_private=True) as path:
        assert path.read_bytes() == b"other"


def test_patterns_and_globs_apply_to_objects_as_well(s3: Server) -> None:
    assert keys("s3://papers", "deep/", "*.txt", "*.csv") == ["s3://papers/a.pdf", "s3://papers/2024/b.pdf"]
    assert keys("s3://papers/**/*.pdf") == [
        "s3://papers/a.pdf",
        "s3://papers/2024/b.pdf",
        "s3://papers/2024/deep/e.pdf",
    ]
    assert keys("s3://papers/2024/*.pdf") == ["s3://papers/2024/b.pdf"]
    assert keys("s3://papers", recursive=False) == ["s3://papers/a.pdf"]
    assert not any("node_modules%2F" in asked or "node_modules/" in asked for asked in s3.requests)


def test_an_object_whose_name_looks_like_a_glob_is_that_object(s3: Server) -> None:
    assert keys("s3://papers/2024/list[1].csv") == ["s3://papers/2024/list[1].csv"]


def test_an_object_is_fetched_in_slices(s3: Server) -> None:
    url = "s3://papers/2024/deep/e.pdf"
    with local_copy(seen_at(url), allow_private=True) as path:
        assert path.read_bytes() == OBJECTS["2024/deep/e.pdf"]
        assert path.suffix == ".pdf"
    assert len([asked for asked in s3.requests if "bytes=" in asked]) > 1
    assert hash_file(seen_at(url), allow_private=True) == hash_file(seen_at(url), allow_private=True)


def test_an_object_larger_than_the_limit_is_not_fetched(s3: Server) -> None:
    limits = FetchLimits(size=1000)
    with (
        pytest.raises(Reject, match="larger than 1,000 bytes"),
        local_copy(seen_at("s3://papers/2024/deep/e.pdf"), allow_private=True, limits=limits),
    ):
        pass
    assert not any("bytes=" in asked for asked in s3.requests)


def test_a_missing_object_is_refused(s3: Server) -> None:
    with pytest.raises(SourceRefused, match="there is nothing at"):
        keys("s3://papers/nothing")
    with pytest.raises(Reject, match="there is nothing at"), local_copy(seen_at("s3://papers/no"), allow_private=True):
        pass


def test_an_endpoint_in_a_private_network_is_not_used_unless_allowed(s3: Server) -> None:
    with pytest.raises(PrivateAddress, match="--allow-private"):
        list(list_files(parse_source("s3://papers/")))
    with pytest.raises(Reject, match="--allow-private"), local_copy(seen_at("s3://papers/a.pdf")):
        pass
    assert s3.requests == []


def test_a_redirect_of_an_endpoint_into_a_private_network_is_not_followed(
    s3: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssrf_guard, "NOT_PUBLIC_V4", (IPv4Network("127.0.0.2/32"),))
    with local_copy(seen_at("s3://papers/a.pdf")) as path:
        assert path.read_bytes() == OBJECTS["a.pdf"]
    with (
        pytest.raises(Reject, match="public internet"),
        local_copy(seen_at("s3://elsewhere/a.pdf"), limits=FetchLimits(silence=timedelta(seconds=5))),
    ):
        pass


@pytest.mark.parametrize("url", ["ftp://example.org/a", "sftp://10.0.0.1/a", "github://a:b@c/", "local:///etc/passwd"])
def test_a_scheme_whose_connections_cannot_be_checked_must_be_allowed(url: str) -> None:
    with pytest.raises(SourceRefused):
        list(list_files(parse_source(url)))
    with pytest.raises(Reject), local_copy(seen_at(url)):
        pass


def test_other_stores_are_read_through_fsspec() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe({"/shelf/a.txt": b"one", "/shelf/sub/b.txt": b"three"})
    try:
        found = list(list_files(parse_source("memory://shelf")))
        assert [(seen.key, seen.size) for seen in found] == [
            ("memory:///shelf/a.txt", 3),
            ("memory:///shelf/sub/b.txt", 5),
        ]
        with local_copy(found[1]) as path:
            assert path.read_bytes() == b"three"
    finally:
        memory.rm("/shelf", recursive=True)


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(SourceRefused, match="cannot be reached"):
        list(list_files(parse_source("nonsense://a/b"), allow_private=True))
