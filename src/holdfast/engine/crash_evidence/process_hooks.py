"""What is installed once in a process while workers run in it: faulthandler, and a note before `os._exit`.

A body may start threads, and one of them may call `os._exit`. So a thread that a body starts carries a mark, and so do
the threads that it starts. Which document the thread works for is not known: all that run then are suspected.

A process may have several workers, each with its own note. faulthandler writes to one file, so one of the notes has the
text of all. A program that enabled faulthandler itself keeps it: then only a supervising parent sees a fatal signal.
"""

from __future__ import annotations

import faulthandler
import os
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from holdfast.engine.crash_evidence.notes import ExitNote, encoded_text

MAX_FRAMES = 30
"""How many frames of the stack are added to a note."""
STARTED_FOR = "_holdfast_started_for"
"""The attribute of a thread that a body started, directly or not: the recorders of the workers that ran the body."""


class Recorder(Protocol):
    """A recorder of this process, as the hooks know it."""

    file: int
    """The file of its note, open for adding text."""

    path: Path | None
    """Where its note is."""

    def write_faults_to(self, path: Path | None) -> None:
        """Say in the note to which note faulthandler writes."""

    def running_here(self) -> frozenset[int]:
        """Return the documents whose body or effect the present thread runs."""

    def running_anywhere(self) -> frozenset[int]:
        """Return the documents whose body or effect any thread of the worker runs."""

    def remove(self) -> None:
        """Remove the note."""

    def leave(self) -> None:
        """Leave the note to the parent, in a forked process."""


class ProcessHooks:
    """The hooks of this process, and the recorders that use them. A forked copy of the process has none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorders: list[Recorder] = []
        self._has_faulthandler = False
        self._real_exit = os._exit
        self._our_exit = self._exit  # one object, so that it can be recognised
        self._real_start = threading.Thread.start
        self._our_start = self._marking_start()
        self.supervisor = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave)

    def add(self, recorder: Recorder) -> None:
        """Install the hooks with the first recorder."""
        with self._lock:
            self._recorders.append(recorder)
            if os._exit is not self._our_exit:
                self._real_exit, os._exit = os._exit, self._our_exit
            if threading.Thread.start is not self._our_start:
                self._real_start = threading.Thread.start
                threading.Thread.start = self._our_start  # type: ignore[method-assign,assignment]
            self._write_faults_to_first()

    def discard(self, recorder: Recorder) -> None:
        """Remove the hooks with the last recorder."""
        with self._lock:
            if recorder in self._recorders:
                self._recorders.remove(recorder)
                self._write_faults_to_first()
            if not self._recorders:
                self._restore_functions()

    def _restore_functions(self) -> None:
        """Put back the functions that were replaced, unless others have replaced them since, and call ours."""
        if os._exit is self._our_exit:
            os._exit = self._real_exit
        if threading.Thread.start is self._our_start:
            threading.Thread.start = self._real_start  # type: ignore[method-assign]

    def _marking_start(self) -> Callable[[threading.Thread], None]:
        """Return a `Thread.start` that marks the threads that bodies start."""

        def start(thread: threading.Thread) -> None:
            starters = [recorder for recorder in self._recorders if recorder.running_here()] or _started_for()
            if starters:
                setattr(thread, STARTED_FOR, starters)
            self._real_start(thread)

        return start

    def _write_faults_to_first(self) -> None:
        if not self._recorders:
            if self._has_faulthandler:
                faulthandler.disable()
            self._has_faulthandler = False
        elif self._has_faulthandler or not faulthandler.is_enabled():
            first = self._recorders[0]
            faulthandler.enable(first.file)
            self._has_faulthandler = True
            for recorder in self._recorders:
                recorder.write_faults_to(first.path)

    def _exit(self, status: int) -> NoReturn:
        """Add a note if a body, an effect or a thread of one ends the process. Other code ends it in order."""
        try:
            self._note_exit(status)
        finally:
            self._real_exit(status)

    def _note_exit(self, status: int) -> None:
        running = {recorder: recorder.running_here() for recorder in self._recorders}
        if not any(running.values()):
            running |= {recorder: recorder.running_anywhere() for recorder in _started_for() if recorder in running}
        stack = "".join(traceback.format_stack(limit=MAX_FRAMES))
        for recorder, documents in running.items():
            if documents:
                note = ExitNote("exit", f"os._exit({status})", documents)
                os.write(recorder.file, encoded_text(note, stack))
            elif not any(running.values()):
                recorder.remove()

    def _leave(self) -> None:
        """Forget the recorders in a forked process: its faults and its exit are not those of the worker."""
        self._lock = threading.Lock()  # another thread may have held it at the fork
        recorders, self._recorders = self._recorders, []
        self._write_faults_to_first()
        self._restore_functions()
        self.supervisor = 0
        for recorder in recorders:
            recorder.leave()


def _started_for() -> Sequence[Recorder]:
    """Return the recorders of the workers whose bodies started the present thread."""
    return getattr(threading.current_thread(), STARTED_FOR, ())


hooks = ProcessHooks()
"""The hooks of this process: faulthandler and os._exit exist once in a process, too."""


def mark_supervised() -> None:
    """Say that the parent of this process adds to the notes of its workers how it ended."""
    hooks.supervisor = os.getppid()
