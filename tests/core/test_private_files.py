"""New files can be read by their owner only. Existing files keep their rights, and a stricter umask is respected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE

import pytest

from holdfast.core.private_files import create_private, write_private


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def rights(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        assert create_private(tmp_path / "a")
        write_private(tmp_path / "b", b"content")
    assert (rights(tmp_path / "a"), rights(tmp_path / "b")) == (0o600, 0o600)
    assert (tmp_path / "b").read_bytes() == b"content"


def test_a_stricter_umask_is_respected(tmp_path: Path) -> None:
    with umask(0o277):
        create_private(tmp_path / "a")
        write_private(tmp_path / "b", b"content")
        create_private(tmp_path / "c", mode=0o666)
    assert [rights(tmp_path / name) for name in "abc"] == [0o400, 0o400, 0o400]


def test_an_existing_file_keeps_its_rights(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("a longer content before")
    file.chmod(0o664)
    assert not create_private(file)
    assert file.read_text() == "a longer content before"
    write_private(file, b"new")
    assert (rights(file), file.read_bytes()) == (0o664, b"new")


def test_a_link_to_no_file_yet_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a")
    assert create_private(tmp_path / "link")
    assert rights(tmp_path / "a") == 0o600


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        create_private(tmp_path / "no" / "a")
