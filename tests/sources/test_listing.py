"""Folders, files and globs are listed in one order, and no unreadable path stops the listing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.sources import SkippedPath, SourceRefused, key_filter, list_files, parse_source


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def keys(word: str | Path, *ignore: str, recursive: bool = True) -> list[str]:
    return [seen.key for seen in list_files(parse_source(str(word)), ignore=ignore, recursive=recursive, report=_never)]


def _never(missed: SkippedPath) -> None:
    pytest.fail(f"{missed}")


def listed(root: Path) -> tuple[list[str], list[SkippedPath]]:
    missed: list[SkippedPath] = []
    return [seen.key for seen in list_files(parse_source(str(root)), report=missed.append)], missed


def test_keys_are_paths_below_the_root_with_forward_slashes(tmp_path: Path) -> None:
    write(tmp_path, "b.txt", "a.txt", "sub/deep/c.txt", "sub/a.txt", "aaa/z.txt")
    assert keys(tmp_path) == ["a.txt", "b.txt", "aaa/z.txt", "sub/a.txt", "sub/deep/c.txt"]


def test_a_file_is_listed_with_its_size_and_time(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.txt")
    os.utime(tmp_path / "sub/a.txt", ns=(5, 1_700_000_000_123_456_789))
    (seen,) = list_files(parse_source(str(tmp_path)))
    assert (seen.size, seen.mtime_ns) == (9, 1_700_000_000_123_456_789)
    assert Path(seen.location) == tmp_path / "sub" / "a.txt"


def test_a_single_file_has_its_name_as_key_and_is_never_ignored(tmp_path: Path) -> None:
    write(tmp_path, ".hidden.tmp")
    assert keys(tmp_path / ".hidden.tmp", "*") == [".hidden.tmp"]


def test_without_recursion_only_the_folder_itself_counts(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "sub/b.txt")
    assert keys(tmp_path, recursive=False) == ["a.txt"]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.pdf", ["a.pdf"]),
        ("**/*.pdf", ["a.pdf", "x/b.pdf", "x/y/c.pdf"]),
        ("x/*.pdf", ["b.pdf"]),
        ("*/*.pdf", ["x/b.pdf"]),
        ("?.[pt][dx][ft]", ["a.pdf", "a.txt"]),
        ("**", ["a.pdf", "a.txt", "x/b.pdf", "x/y/c.pdf"]),
    ],
)
def test_a_glob_lists_what_it_matches(tmp_path: Path, pattern: str, found: list[str]) -> None:
    write(tmp_path, "a.pdf", "a.txt", "x/b.pdf", "x/y/c.pdf", ".hidden/d.pdf")
    assert keys(f"{tmp_path}/{pattern}") == found


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    write(tmp_path, "paper[1].pdf", "paper1.pdf")
    assert keys(tmp_path / "paper[1].pdf") == ["paper[1].pdf"]


def test_a_file_url_is_the_path_it_names(tmp_path: Path) -> None:
    write(tmp_path, "with space.txt")
    assert keys((tmp_path / "with space.txt").as_uri()) == ["with space.txt"]
    assert keys(f"file:{tmp_path}") == ["with space.txt"]


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("nowhere.pdf", "there is no file or folder"),
        ("nowhere/*.pdf", "there is no folder nowhere"),
        ("file://server/share/a.pdf", "names the host server"),
        ("https://me:secret@example.org/a.pdf", "has a password"),
        ("simplecache::https://example.org/a.pdf", "there is no file or folder"),
        ("zip://a.pdf::http://127.0.0.1/a.zip", "chains several URLs"),
        ("https:///a.pdf", "names no host"),
        ("http://[::1/a.pdf", "is not a URL"),
    ],
)
def test_an_invalid_source_is_refused(word: str, why: str) -> None:
    with pytest.raises(SourceRefused, match=why) as refused:
        parse_source(word)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("word", ["http://[2606:4700::1111]/a.pdf", "https://example.org/a::b.pdf", "s3://b/a::b.pdf"])
def test_two_colons_are_not_a_chain_of_urls(word: str) -> None:
    assert parse_source(word).root == word


def test_a_link_to_a_file_is_followed_and_a_loop_is_not(tmp_path: Path) -> None:
    write(tmp_path, "real.txt", "sub/b.txt")
    (tmp_path / "link.txt").symlink_to("real.txt")
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "nowhere").symlink_to("gone")
    found, missed = listed(tmp_path)
    assert found == ["link.txt", "real.txt", "sub/b.txt"]
    assert {one.key: one.why.partition(";")[0] for one in missed} == {
        "nowhere": "a broken link",
        "self": "the file cannot be read: Too many levels of symbolic links",
        "sub/up": "a link to a folder",
    }


def test_what_is_not_a_file_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "pipe")
    assert keys(tmp_path) == ["a.txt"]
    with pytest.raises(SourceRefused, match="neither a file nor a folder"):
        keys(tmp_path / "pipe")


def test_a_name_that_is_not_utf8_is_reported_and_the_rest_is_listed(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "grüße.txt")
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff.txt")).write_text("x")
    except OSError:
        pytest.skip("this file system takes only names that are UTF-8")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/sub\xff")).mkdir()
    found, missed = listed(tmp_path)
    assert found == ["a.txt", "grüße.txt"]
    assert {one.key for one in missed} == {"b\\xff.txt", "sub\\xff/"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_cannot_be_read_is_reported_and_the_rest_is_listed(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "closed/b.txt", "open/c.txt")
    (tmp_path / "closed").chmod(0)
    found, missed = listed(tmp_path)
    (tmp_path / "closed").chmod(0o700)
    assert found == ["a.txt", "open/c.txt"]
    assert [one.key for one in missed] == ["closed/"]


def test_a_folder_whose_path_is_too_long_is_reported_and_the_rest_is_listed(tmp_path: Path) -> None:
    """Root can read every folder, but not one whose path is longer than the system allows."""
    write(tmp_path, "a.txt")
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    found, missed = listed(tmp_path)
    assert found == ["a.txt"]
    assert len(missed) == 1
    assert missed[0].key.endswith("d/")
    assert "File name too long" in missed[0].why


def test_a_root_that_is_gone_is_refused_not_empty(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.txt")
    source = parse_source(str(tmp_path / "sub"))
    (tmp_path / "sub" / "a.txt").unlink()
    (tmp_path / "sub").rmdir()
    with pytest.raises(SourceRefused, match="cannot be read"):
        list(list_files(source))


def test_skipped_paths_are_logged_unless_they_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "nowhere").symlink_to("gone")
    assert list(list_files(parse_source(str(tmp_path)))) == []
    assert "a broken link" in caplog.text


@pytest.mark.parametrize(
    ("word", "key", "is_about"),
    [
        ("s3://bucket/papers/*.pdf", "s3://bucket/papers/a.pdf", True),
        ("s3://bucket/papers/*.pdf", "s3://bucket/papers/a.txt", False),
        ("s3://bucket/papers/*.pdf", "s3://bucket/papers/old/a.pdf", False),
        ("s3://bucket/papers/**/*.pdf", "s3://bucket/papers/old/a.pdf", True),
        ("s3://bucket/[1].pdf", "s3://bucket/[1].pdf", True),
        ("s3://bucket/papers", "s3://bucket/papers/a.txt", True),
    ],
)
def test_a_remote_glob_is_responsible_only_for_what_it_matches(word: str, key: str, is_about: bool) -> None:
    assert key_filter(parse_source(word))(key) is is_about
