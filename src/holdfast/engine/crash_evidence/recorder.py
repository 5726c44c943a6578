"""The worker's side: keeps a note about one worker, which outlives the process."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from holdfast.core.model import WorkerRecord
from holdfast.engine.crash_evidence.notes import (
    SUFFIX,
    NoteHeader,
    create_note,
    is_of_living_process,
    note_path,
    notes_folder,
    remove_note,
    replace_header,
)
from holdfast.engine.crash_evidence.oom_kills import OomWatch
from holdfast.engine.crash_evidence.process_hooks import hooks
from holdfast.engine.crash_evidence.running_marks import (
    FAULTS_BEGIN,
    OOM_KILLS,
    TEXT_BEGINS,
    RunningMarks,
    running_documents,
)
from holdfast.stores.protocol import Store

FORGOTTEN_AFTER = 7 * 24 * 3600
"""Seconds after which a note that nobody has read is removed."""


def record_crashes(store: Store, worker: WorkerRecord, *, marks: RunningMarks, oom: OomWatch) -> CrashRecorder:
    """Start to record what the next worker has to know if this process dies.

    A worker works without a note too, for example if no folder for it can be written: then nobody learns why it died.
    """
    recorder = CrashRecorder(marks, oom)
    folder = notes_folder(store)
    if folder is not None:
        with suppress(OSError, ValueError):  # a read-only or foreign folder, a full disk, a name that is too long
            recorder.open(note_path(folder, worker), worker)
    return recorder


class CrashRecorder:
    """Keep the note of one worker up to date. `refresh` is called by the thread of the heartbeat."""

    def __init__(self, marks: RunningMarks, oom: OomWatch) -> None:
        self.file = -1
        self._marks = marks
        self._oom = oom
        self.path: Path | None = None
        self._header: NoteHeader | None = None

    def open(self, path: Path, worker: WorkerRecord) -> None:
        """Create the note. From now on the marks are in it."""
        header = NoteHeader(
            worker.id, worker.host, worker.pid, worker.born, self._oom.counter, hooks.supervisor, str(path)
        )
        self.file, self._marks.cells = create_note(path, header)
        self.path, self._header = path, header
        self._write_counts()
        hooks.add(self)
        _remove_old_notes(path.parent)

    def refresh(self) -> None:
        """Record that the process lives: a death is compared with what was known at the last call."""
        self._oom.refresh()
        self._write_counts()

    def _write_counts(self) -> None:
        cells = self._marks.cells
        cells[OOM_KILLS] = -1 if self._oom.count is None else self._oom.count
        if self.path is None or self._header is None:
            return
        with suppress(OSError):  # a note that somebody removed has nothing to say
            cells[TEXT_BEGINS] = self.path.stat().st_size
            cells[FAULTS_BEGIN] = Path(self._header.faults_in).stat().st_size

    def write_faults_to(self, path: Path | None) -> None:
        """Say in the note to which note faulthandler writes."""
        if self.path is not None and self._header is not None and self._header.faults_in != str(path):
            self._header = replace(self._header, faults_in=str(path))
            self._write_counts()
            replace_header(self.path, self._header)

    def running_here(self) -> frozenset[int]:
        """Return the documents whose body or effect the present thread runs."""
        return self._marks.of_this_thread()

    def running_anywhere(self) -> frozenset[int]:
        """Return the documents whose body or effect any thread of the worker runs."""
        return running_documents(self._marks.cells) or frozenset()

    def remove(self) -> None:
        """Remove the note."""
        if self.path is not None:
            remove_note(self.path)

    def leave(self) -> None:
        """Leave the note to the parent, in a forked process."""
        self._marks.detach()
        self.path = None
        self._close_file()

    def close(self) -> None:
        """End the recording: this worker ends in order."""
        hooks.discard(self)
        self._marks.detach()
        self.remove()
        self._close_file()

    def _close_file(self) -> None:
        file, self.file = self.file, -1
        if file >= 0:
            os.close(file)


def _remove_old_notes(folder: Path) -> None:
    with suppress(OSError):
        oldest = time.time() - FORGOTTEN_AFTER
        for path in folder.glob(f"*{SUFFIX}"):
            if path.lstat().st_mtime < oldest and not is_of_living_process(path):
                remove_note(path)
