"""A link in a folder does not lead out of it: not when it is listed, not when it is opened, and not in between."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.sources import (
    FileGone,
    SkippedPath,
    Source,
    SourceFile,
    hash_file,
    list_files,
    local_copy,
    parse_source,
    safe_open,
)
from holdfast.sources.safe_open import OutsideSource, open_inside


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file, beside a secret that is not in it."""
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.txt").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("secret")
    return folder


def listed(source: Source, **options: bool) -> tuple[list[str], dict[str, SkippedPath]]:
    skipped: list[SkippedPath] = []
    keys = [file.key for file in list_files(source, report=skipped.append, **options)]
    return keys, {path.key: path for path in skipped}


def seen_at(path: Path) -> SourceFile:
    return SourceFile(path.name, str(path), -1, 0)


def test_a_link_out_of_the_folder_is_not_listed_and_is_reported(folder: Path) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "outside" / "a.txt")
    (folder / "relative.txt").symlink_to("../outside/a.txt")
    (folder / "passwd").symlink_to("/etc/passwd")
    (folder / "sub" / "through.txt").symlink_to("../link.txt")
    (folder / "inner.txt").symlink_to("sub/a.txt")
    keys, skipped = listed(parse_source(str(folder)))
    assert keys == ["inner.txt", "sub/a.txt"]
    assert [*skipped] == ["link.txt", "passwd", "relative.txt", "sub/through.txt"]
    assert all(path.left_out for path in skipped.values())
    keys, _ = listed(parse_source(f"{folder}/**/*.txt"))
    assert keys == ["inner.txt", "sub/a.txt"], "a glob is no way around it"


def test_a_link_to_a_folder_is_not_entered_and_is_reported(folder: Path) -> None:
    (folder / "there").symlink_to(folder.parent / "outside")
    keys, skipped = listed(parse_source(str(folder)))
    assert (keys, [*skipped]) == (["sub/a.txt"], ["there"])


def test_links_are_followed_when_told_and_no_loop_is_entered(folder: Path) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "outside" / "a.txt")
    (folder / "there").symlink_to(folder.parent / "outside")
    (folder.parent / "outside" / "back").symlink_to(folder)
    (folder / "up").symlink_to(folder.parent)
    (folder / "again").symlink_to(folder.parent / "outside")
    keys, skipped = listed(parse_source(str(folder)), follow_symlinks=True)
    assert keys == ["link.txt", "again/a.txt", "sub/a.txt"]
    assert [*skipped] == ["there", "up", "again/back"]


def test_the_folder_itself_may_be_a_link(folder: Path) -> None:
    (folder.parent / "named").symlink_to(folder)
    (folder / "inner.txt").symlink_to(folder / "sub" / "a.txt")
    source = parse_source(str(folder.parent / "named"))
    keys, skipped = listed(source)
    assert (keys, skipped) == (["inner.txt", "sub/a.txt"], {})
    for key in keys:
        with local_copy(seen_at(Path(source.root) / key), root=source.root) as path:
            assert path.read_text() == "inside"


def test_a_file_that_a_person_named_may_be_a_link(folder: Path) -> None:
    link = folder / "link.txt"
    link.symlink_to(folder.parent / "outside" / "a.txt")
    source = parse_source(str(link))
    (file,) = list_files(source)
    with local_copy(file, root=source.root) as path:
        assert path.read_text() == "secret"


@pytest.mark.parametrize("name", ["link.txt", "there/a.txt", "sub/../../outside/a.txt"])
def test_what_is_outside_is_not_opened(folder: Path, name: str) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "outside" / "a.txt")
    (folder / "there").symlink_to(folder.parent / "outside")
    with pytest.raises(OutsideSource, match="outside of"), local_copy(seen_at(folder / name), root=str(folder)):
        pass
    with pytest.raises(OutsideSource, match="outside of"):
        hash_file(seen_at(folder / name), root=str(folder))


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_a_link_that_is_put_there_while_the_file_is_opened_is_not_followed(
    folder: Path, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Swap the file, or a folder on its path, after the path was resolved and before it is opened."""

    def is_below(path: str, root: str) -> bool:
        if swapped == "file":
            (folder / "sub" / "a.txt").unlink()
            (folder / "sub" / "a.txt").symlink_to(folder.parent / "outside" / "a.txt")
        else:
            (folder / "sub").rename(folder / "moved")
            (folder / "sub").symlink_to(folder.parent / "outside")
        return real(path, root)

    real = safe_open.is_below
    monkeypatch.setattr(safe_open, "is_below", is_below)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        open_inside(str(folder / "sub" / "a.txt"), str(folder))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="this system has no paths of open files")
def test_what_was_checked_is_what_is_read_whatever_comes_in_its_place(folder: Path) -> None:
    path = folder / "sub" / "a.txt"
    with local_copy(seen_at(path), root=str(folder)) as copy:
        path.unlink()
        path.symlink_to(folder.parent / "outside" / "a.txt")
        assert copy.read_text() == "inside"
        assert copy.name == "a.txt", "the suffix decides how a file is parsed"
        temporary = copy.parent
    assert not temporary.exists()


def test_a_file_is_read_in_place_where_there_is_no_room_for_a_link(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: object) -> object:
        raise OSError("no space left on device")

    monkeypatch.setattr(safe_open, "TemporaryDirectory", full)
    with local_copy(seen_at(folder / "sub" / "a.txt"), root=str(folder)) as path:
        assert path == folder / "sub" / "a.txt"


@pytest.mark.parametrize("root", [True, False])
def test_a_pipe_or_a_folder_in_the_place_of_a_file_does_not_block(folder: Path, root: bool) -> None:
    os.mkfifo(folder / "pipe")
    for name in ("pipe", "sub", "gone.txt", "sub/a.txt/b"):
        with pytest.raises(FileGone), local_copy(seen_at(folder / name), root=str(folder) if root else None):
            pass


def _open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()]) if Path("/proc/self/fd").exists() else 0


def test_no_file_stays_open(folder: Path) -> None:
    before = _open_files()
    (folder / "link.txt").symlink_to("/etc/passwd")
    for _ in range(3):
        hash_file(seen_at(folder / "sub" / "a.txt"), root=str(folder))
        with local_copy(seen_at(folder / "sub" / "a.txt"), root=str(folder)):
            pass
        for name in ("link.txt", "sub", "sub/gone"):
            with pytest.raises((OutsideSource, FileGone)):
                hash_file(seen_at(folder / name), root=str(folder))
    assert _open_files() == before


def test_a_name_that_no_store_can_look_up_is_reported(tmp_path: Path) -> None:
    deep = tmp_path / "folder"
    for _ in range(6):
        deep /= "x" * 240
    deep.mkdir(parents=True)
    (deep / "a.txt").touch()
    keys, skipped = listed(parse_source(str(tmp_path / "folder")))
    assert keys == []
    assert ["1,451 bytes" in path.why for path in skipped.values()] == [True]
