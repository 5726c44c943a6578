"""The note of a worker: a small file that outlives the process, where the next worker on the machine finds it.

    1,024 bytes   who wrote it, as JSON: written once
    16 KiB        the table of running documents and counts, mapped into memory: see `running_marks`
    the rest      text that is added when the process dies: by faulthandler, by os._exit, by a supervising parent

Notes of a SQLite store are in a folder beside the database: containers that share the database share them too. Notes of
other stores are in the temporary folder of the machine. Every user has a folder of their own, which others cannot read.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from hashlib import blake2b
from mmap import ACCESS_WRITE, mmap
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.model import WorkerRecord
from holdfast.core.worker_deaths import Evidence
from holdfast.engine.crash_evidence.oom_kills import OomCounter
from holdfast.engine.crash_evidence.running_marks import CELL, CELLS, FAULTS_BEGIN, TEXT_BEGINS, Cells
from holdfast.process_identity import born, this_host
from holdfast.stores.protocol import Store

HEADER = 1024
"""Bytes of the first part."""
TEXT = HEADER + CELLS * CELL
"""Where the text begins."""
MAX_TEXT = 64 * 1024
"""How many bytes of the text are read at most."""
SUFFIX = ".note"
SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Options for every file: follow no link, leave nothing to other programs, change no bytes. Windows has the last."""
NONBLOCK = getattr(os, "O_NONBLOCK", 0)


class NoteHeader(Struct, frozen=True):
    """Who wrote a note.

    `oom_counter` is the file in which out-of-memory kills are counted. `supervisor` is the process id of a parent that
    adds how the process ended, or 0. `faults_in` is the note to which faulthandler writes, if a process has several.
    """

    worker_id: int
    host: str
    pid: int
    born: str
    oom_counter: OomCounter | None = None
    supervisor: int = 0
    faults_in: str = ""


class ExitNote(Struct, frozen=True, omit_defaults=True):
    """The first line of a text that holdfast itself adds. After it, the stack may follow."""

    evidence: Evidence
    sign: str
    running: frozenset[int] | None = None


class Note(Struct, frozen=True):
    """A note, as it was read."""

    header: NoteHeader
    cells: Any
    text: str


def notes_folder(store: Store) -> Path | None:
    """Return the folder for the notes of a store. None for a store in memory, which dies with its process."""
    if store.url == "memory://":
        return None
    beside: Path | None = getattr(store, "shared_folder", None)
    folder = beside or Path(tempfile.gettempdir()) / "holdfast-workers"
    return folder.with_name(f"{folder.name}-{_user()}")


def note_path(folder: Path, worker: WorkerRecord) -> Path:
    """Return where the note of a worker is. The name is found again from the worker's record, and from its pid."""
    known = (worker.host, worker.born, worker.name, worker.registered_at)
    digest = blake2b(repr(known).encode(), digest_size=8).hexdigest()
    return folder / f"{worker.pid}-{worker.id}-{digest}{SUFFIX}"


def create_note(path: Path, header: NoteHeader) -> tuple[int, Cells]:
    """Create a note. Return its file, which adds text at the end, and its table.

    Raises:
        OSError: The folder cannot be used, or belongs to somebody else.
        ValueError: The header does not fit.
    """
    _make_private(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | SAFE
    file = os.open(path, flags, 0o600)
    try:
        os.write(file, _encoded(header) + bytes(CELLS * CELL))  # not a hole: a full disk would show only as SIGBUS
        cells = memoryview(mmap(file, TEXT, access=ACCESS_WRITE))[HEADER:].cast("q")
        cells[TEXT_BEGINS] = cells[FAULTS_BEGIN] = TEXT
    except (OSError, ValueError):
        os.close(file)
        remove_note(path)
        raise
    return file, cells


def replace_header(path: Path, header: NoteHeader) -> None:
    """Write another header of the same length. Nothing happens if the note is gone."""
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | SAFE)
        try:
            os.write(file, _encoded(header))
        finally:
            os.close(file)


def add_text(path: Path, note: ExitNote, stack: str = "") -> None:
    """Add to a note how its process ended, if the note is there."""
    with suppress(OSError):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | SAFE)
        try:
            os.write(file, encoded_text(note, stack))
        finally:
            os.close(file)


def encoded_text(note: ExitNote, stack: str = "") -> bytes:
    """Return the text of a note as it is added to the file."""
    return msgspec.json.encode(note) + b"\n" + stack.encode(errors="replace")


def read_note(path: Path) -> Note | None:
    """Return a note. None if it is not there, or cannot be read."""
    try:
        data = _read(path)
        header = msgspec.json.decode(data[:HEADER], type=NoteHeader)
        cells = memoryview(data[HEADER:TEXT]).cast("q")
        text = data[max(cells[TEXT_BEGINS], TEXT) :]  # what is before it was written while the process lived on
        if not text and header.faults_in not in ("", str(path)):
            text = _read(Path(header.faults_in))[max(cells[FAULTS_BEGIN], TEXT) :]
        return Note(header, cells, text.decode(errors="replace"))
    except (OSError, ValueError, TypeError, msgspec.MsgspecError):
        return None


def is_of_living_process(path: Path) -> bool:
    """Return True if the process that wrote a note still runs on this machine."""
    note = read_note(path)
    return note is not None and note.header.host == this_host() and born(note.header.pid) == note.header.born


def remove_note(path: Path) -> None:
    """Remove a note, and its folder if that is empty then."""
    with suppress(OSError):
        path.unlink()
    with suppress(OSError):
        path.parent.rmdir()


def _encoded(header: NoteHeader) -> bytes:
    encoded = msgspec.json.encode(header)
    if len(encoded) >= HEADER:
        raise ValueError("the names of the host and of files are too long for a note")
    return encoded.ljust(HEADER)


def _read(path: Path) -> bytes:
    """Return the content of a note. Raise OSError for anything but a regular file."""
    file = os.open(path, os.O_RDONLY | NONBLOCK | SAFE)
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(f"{path} is no regular file")
        return opened.read(TEXT + MAX_TEXT)


def _make_private(folder: Path) -> None:
    """Create a folder for this user only. Raise OSError if somebody else could write into it."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(f"{folder} is no folder")
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o022):
        raise OSError(f"{folder} belongs to another user, or others can write into it")


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
