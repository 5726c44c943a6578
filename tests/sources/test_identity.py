"""One key for each file and URL, however it is named."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from holdfast.sources import SourceRefused, canonical_key, canonical_path, canonical_url


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with letters/a b.txt and a link `other` to letters."""
    here = tmp_path / "here"
    (here / "letters" / "sub").mkdir(parents=True)
    (here / "letters" / "a b.txt").write_text("a")
    (here / "other").symlink_to("letters")
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here))
    return here


@pytest.mark.parametrize(
    "named",
    [
        "letters/a b.txt",
        "./letters//a b.txt",
        "letters/sub/../a b.txt",
        "other/a b.txt",
        "other/sub/../a b.txt",
        "~/letters/a b.txt",
        "{here}/letters/a b.txt",
        "{here}/letters/../other/a b.txt",
        "file://{here}/letters/a%20b.txt",
        "file:{here}/letters/a%20b.txt",
        "FILE://localhost{here}/other/a%20b.txt",
    ],
)
def test_a_file_has_one_key_however_it_is_named(folder: Path, named: str) -> None:
    assert canonical_key(named.format(here=folder)) == f"{folder}/letters/a b.txt"


@pytest.mark.parametrize("named", ["letters", "letters/", "./letters/.", "other", "other/", "letters/sub/.."])
def test_a_folder_has_one_path_however_it_is_named(folder: Path, named: str) -> None:
    assert canonical_path(named) == f"{folder}/letters"


def test_a_link_to_a_file_is_a_name_of_its_own(folder: Path) -> None:
    (folder / "newest.txt").symlink_to("letters/a b.txt")
    assert canonical_path("newest.txt") == f"{folder}/newest.txt"


def test_a_file_that_is_gone_has_the_same_key(folder: Path) -> None:
    before = canonical_path("other/a b.txt")
    (folder / "letters" / "a b.txt").unlink()
    assert canonical_path("other/a b.txt") == before


def test_a_file_may_be_called_like_a_home_folder(folder: Path) -> None:
    (folder / "~").write_text("odd")
    assert canonical_path("~") == f"{folder}/~"


def test_a_path_object_is_never_a_url(folder: Path) -> None:
    assert canonical_key(Path("https:/x")) == f"{folder}/https:/x"


def test_names_that_differ_in_case_or_accents_are_told_apart_as_the_file_system_does(folder: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "caf\u00e9.txt") for form in ("NFC", "NFD"))
    for name in (composed, decomposed, "Name.txt", "nAME.TXT"):
        (folder / name).write_text(name)
    keys = {canonical_path(name) for name in (composed, decomposed, "Name.txt", "nAME.TXT")}
    assert keys == {f"{folder}/{name}" for name in os.listdir(folder) if name.endswith((".txt", ".TXT"))}  # noqa: PTH208


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("HTTPS://Example.ORG", "https://example.org/"),
        ("https://example.org:443/a", "https://example.org/a"),
        ("http://example.org:80/a#page=3", "http://example.org/a"),
        ("http://example.org:8080/a", "http://example.org:8080/a"),
        ("http://example.org./a/./b/../c", "http://example.org/a/c"),
        ("http://example.org/../../a", "http://example.org/a"),
        ("http://example.org/a/..", "http://example.org/"),
        ("http://example.org/a//b/", "http://example.org/a//b/"),
        ("http://example.org/%7euser/%41%c3%a9?q=%3d", "http://example.org/~user/A%C3%A9?q=%3D"),
        ("http://example.org/caf\u00e9 au lait", "http://example.org/caf%C3%A9%20au%20lait"),
        ("http://example.org/a%2Fb%2e%2e", "http://example.org/a%2Fb.."),
        ("http://[2001:DB8::1]:80/a", "http://[2001:db8::1]/a"),
        ("http://example.org/a?b=1&a=2", "http://example.org/a?b=1&a=2"),
        ("https://b.s3.amazonaws.com/a?X-Amz-Signature=1&x-amz-date=2&v=3", "https://b.s3.amazonaws.com/a?v=3"),
        ("https://b.s3.amazonaws.com/a?AWSAccessKeyId=1&Expires=2&Signature=3", "https://b.s3.amazonaws.com/a"),
        ("https://x.blob.core.windows.net/a?sv=1&sp=r&sig=2", "https://x.blob.core.windows.net/a"),
        ("https://example.org/a?sp=r&page_token=2&Expires=1", "https://example.org/a?sp=r&page_token=2&Expires=1"),
        ("https://example.org/a?access_token=x", "https://example.org/a"),
        ("S3://bucket/a/../B?#%41", "s3://bucket/a/../B?#%41"),
        ("s3a://bucket/a", "s3://bucket/a"),
        ("gcs://bucket/a", "gs://bucket/a"),
        ("memory://Bucket/a", "memory://Bucket/a"),
        ("sftp://me@Host:22/a", "sftp://me@host/a"),
    ],
)
def test_a_url_has_one_key_however_it_is_written(url: str, key: str) -> None:
    assert canonical_url(url) == canonical_key(url) == key
    assert canonical_url(key) == key


@pytest.mark.parametrize(
    "url", ["https://me:secret@example.org/a", "https://secret@example.org/a", "sftp://me:secret@host/a"]
)
def test_a_url_with_credentials_is_refused_without_showing_them(url: str) -> None:
    with pytest.raises(SourceRefused, match="leave it out") as refused:
        canonical_key(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["http://host:99999999/a", "http://[::1/secret", "http://host:x/a"])
def test_what_cannot_be_read_as_a_url_is_refused(url: str) -> None:
    with pytest.raises(SourceRefused, match="check its host and port"):
        canonical_key(url)
