"""Keys as people read and type them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.shown_keys import path_pattern, possible_keys, shown_key, shown_place


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_below_the_current_folder_is_shown_by_its_path_from_there(folder: Path) -> None:
    assert shown_key(f"{folder}/docs/a.txt") == "docs/a.txt"
    assert shown_place("march", f"{folder}/docs/a.txt") == "march/docs/a.txt"


@pytest.mark.parametrize("key", ["/elsewhere/a.txt", "PMID-1", "https://example.org/a", "s3://bucket/a"])
def test_other_keys_are_shown_as_they_are(key: str) -> None:
    assert shown_key(key) == key


@pytest.mark.parametrize("name", ["-x.txt", "~x.txt"])
def test_a_key_that_a_command_would_read_in_another_way_is_shown_in_full(folder: Path, name: str) -> None:
    assert shown_key(f"{folder}/{name}") == f"{folder}/{name}"


def test_a_batch_and_an_absolute_path_are_told_apart() -> None:
    assert shown_place("march", "/elsewhere/a.txt") == "march /elsewhere/a.txt"


def test_what_was_typed_is_looked_up_first_as_it_is(folder: Path) -> None:
    assert list(possible_keys("docs//a.txt")) == ["docs//a.txt", "docs/a.txt", f"{folder}/docs/a.txt"]
    assert "https://me:secret@x/a" in possible_keys("https://me:secret@x/a")


def test_a_pattern_is_one_of_files_from_the_current_folder(folder: Path) -> None:
    assert path_pattern("../*.txt") == f"{folder.parent}/*.txt"


def test_a_current_folder_that_was_removed_shortens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert shown_key("/elsewhere/a.txt") == "/elsewhere/a.txt"
    assert list(possible_keys("a.txt")) == ["a.txt", "a.txt"]
