"""Fingerprints of files and URLs: when a file is read, and what counts as a change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.core.fingerprints import has_same_content, parse_file_fingerprint
from holdfast.sources import SourceFile, fingerprint_of, stat_file
from holdfast.sources.fingerprint import LARGEST_HASHED, is_hashed

OLD = 1_700_000_000_000_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that was not modified just now."""
    path = tmp_path / "a.txt"
    write(path, "one")
    return path


def write(path: Path, text: str, at: int = OLD) -> None:
    path.write_text(text)
    os.utime(path, ns=(at, at))


def mark(path: Path, known: str = "") -> str:
    return fingerprint_of(stat_file(str(path)), known)


def test_a_touched_file_has_the_same_content(file: Path) -> None:
    before = mark(file)
    write(file, "one", OLD + 1)
    assert mark(file, before) != before
    assert has_same_content(before, mark(file, before))


def test_a_changed_file_has_other_content(file: Path) -> None:
    before = mark(file)
    write(file, "two", OLD + 1)
    assert not has_same_content(before, mark(file, before))


def test_a_file_of_known_size_and_time_is_not_read(file: Path) -> None:
    """Like rsync: the same size and time mean the same content."""
    before = mark(file)
    write(file, "two")
    assert mark(file, before) == before
    assert not is_hashed(stat_file(str(file)), before)


def test_a_file_that_was_modified_just_now_is_read_again(file: Path) -> None:
    file.write_text("new")
    young = mark(file)
    parsed = parse_file_fingerprint(young)
    assert parsed is not None
    assert parsed.mtime_ns == 0
    assert is_hashed(stat_file(str(file)), young)


def test_a_very_large_file_is_compared_by_size_and_time(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as large:
        large.truncate(LARGEST_HASHED + 1)
    os.utime(tmp_path / "large", ns=(OLD, OLD))
    assert mark(tmp_path / "large") == f"file:{LARGEST_HASHED + 1}:{OLD}:"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_this_user_may_not_read_is_compared_by_size_and_time(file: Path) -> None:
    file.chmod(0)
    assert mark(file) == f"file:3:{OLD}:"


def test_a_file_that_is_gone_keeps_what_is_known_of_it(file: Path) -> None:
    seen, before = stat_file(str(file)), mark(file)
    file.unlink()
    assert fingerprint_of(seen, "other") == "other", "it was removed after it was listed"
    assert mark(file, before) == before
    assert mark(file) == ""


def test_a_folder_or_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert mark(tmp_path / "pipe").startswith("file:-1:")
    assert mark(tmp_path).startswith("file:-1:")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (SourceFile("u", "https://x/a", 3, OLD, '"one"'), 'etag:"one"'),
        (SourceFile("u", "https://x/a", 3, OLD), f"version:3:{OLD}"),
    ],
)
def test_a_url_is_not_fetched_if_its_server_names_a_version(seen: SourceFile, expected: str) -> None:
    assert fingerprint_of(seen) == expected


def test_a_long_etag_fits_into_a_fingerprint() -> None:
    assert len(fingerprint_of(SourceFile("u", "https://x/a", 3, OLD, "x" * 9000))) < 100
