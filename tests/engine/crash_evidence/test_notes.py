"""Notes of workers: where they are, who can read them, and what is read back."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.model import WorkerRecord
from holdfast.engine.crash_evidence import notes
from holdfast.engine.crash_evidence.notes import (
    TEXT,
    ExitNote,
    NoteHeader,
    add_text,
    create_note,
    note_path,
    notes_folder,
    read_note,
    remove_note,
    replace_header,
)
from holdfast.engine.crash_evidence.oom_kills import OomCounter
from holdfast.engine.crash_evidence.running_marks import TEXT_BEGINS
from holdfast.process_identity import born, this_host

HEADER = NoteHeader(3, this_host(), os.getpid(), born(os.getpid()), OomCounter("/proc/vmstat", "1:2"), 77)
WORKER = WorkerRecord(3, "ann", "here", 12, "now", timedelta(seconds=1), datetime(2025, 3, 1, tzinfo=UTC))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return note_path(tmp_path / "store.db-workers", WORKER)


def test_a_note_is_read_as_it_was_written(path: Path) -> None:
    _, cells = create_note(path, HEADER)
    cells[20] = 5
    note = read_note(path)
    assert note is not None
    assert (note.header, note.cells[20], note.text) == (HEADER, 5, "")


def test_text_is_what_was_added_since_the_process_was_last_alive(path: Path) -> None:
    file, cells = create_note(path, HEADER)
    os.write(file, b"a fault that it survived\n")
    cells[TEXT_BEGINS] = os.fstat(file).st_size
    assert read_note(path).text == ""  # type: ignore[union-attr]
    add_text(path, ExitNote("exit", "os._exit(3)", frozenset([1])), "the stack")
    expected = '{"evidence":"exit","sign":"os._exit(3)","running":[1]}\nthe stack'
    assert read_note(path).text == expected  # type: ignore[union-attr]


def test_the_text_of_a_fault_may_be_in_another_note(path: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.note"
    file, _ = create_note(first, HEADER)
    create_note(path, HEADER)
    replace_header(path, replace(HEADER, faults_in=str(first)))
    os.write(file, b"Fatal Python error: Aborted\n")
    assert read_note(path).text == "Fatal Python error: Aborted\n"  # type: ignore[union-attr]


def test_only_its_user_can_read_and_write_a_note(path: Path) -> None:
    create_note(path, HEADER)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_folder_that_others_can_write_into_is_not_used(path: Path) -> None:
    path.parent.mkdir()
    path.parent.chmod(0o777)
    with pytest.raises(OSError, match="others can write"):
        create_note(path, HEADER)


def test_a_link_in_place_of_the_folder_or_the_note_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    path.parent.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="no folder"):
        create_note(path, HEADER)
    path.parent.unlink()
    path.parent.mkdir(mode=0o700)
    (tmp_path / "target").write_bytes(b"{}")
    path.symlink_to(tmp_path / "target")
    with pytest.raises(FileExistsError):
        create_note(path, HEADER)
    assert read_note(path) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"x" * 5000, b"[1]".ljust(TEXT), b"\xff" * TEXT])
def test_a_damaged_note_says_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.note").write_bytes(content)
    assert read_note(tmp_path / "a.note") is None


def test_a_fifo_in_place_of_a_note_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.note")
    assert read_note(tmp_path / "a.note") is None


def test_a_header_that_does_not_fit_leaves_nothing_behind(path: Path) -> None:
    with pytest.raises(ValueError, match="too long"):
        create_note(path, replace(HEADER, host="h" * 2000))
    assert not path.exists()


def test_the_last_note_takes_its_folder_along(path: Path) -> None:
    create_note(path, HEADER)
    other = note_path(path.parent, replace(WORKER, id=4))
    create_note(other, HEADER)
    remove_note(path)
    assert other.exists()
    remove_note(other)
    remove_note(other)
    assert not path.parent.exists()


def test_each_worker_has_its_own_note(tmp_path: Path) -> None:
    changes = [{"id": 4}, {"name": "bob"}, {"host": "there"}, {"pid": 13}, {"born": "then"}, {"registered_at": None}]
    assert len({note_path(tmp_path, replace(WORKER, **change)) for change in [{}, *changes]}) == 7


def test_notes_of_a_sqlite_store_are_beside_its_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with holdfast.open(f"sqlite:///{tmp_path / 'link' / 'a.db'}") as store:
        assert notes_folder(store) == (tmp_path / "real").resolve() / f"a.db-workers-{os.getuid()}"


def test_a_store_in_memory_has_no_notes() -> None:
    with holdfast.open("memory://") as store:
        assert notes_folder(store) is None


def test_notes_of_other_stores_are_in_a_temporary_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes.tempfile, "gettempdir", lambda: str(tmp_path))
    with holdfast.open(f"sqlite:///{tmp_path / 'a.db'}") as store:
        store.shared_folder = None
        assert notes_folder(store) == tmp_path / f"holdfast-workers-{os.getuid()}"
