"""Evidence: why a worker process died, and which documents were running in it.

A document is blamed for the death of its worker only with evidence. Every worker keeps a note in a file that outlives
it: which documents it runs, and how many out-of-memory kills there were. A fatal signal and `os._exit` add to it. The
next worker on the machine reads the note of a dead one. A worker that ends in order removes its note.

running_marks  which documents run, in shared memory: the mark of a killed process can still be read
oom_kills      how many processes the system killed because memory ran out
notes          the file: where it is, how it is written and read
process_hooks  what is installed once in a process: faulthandler, os._exit
recorder       the worker's side
deaths         the reader's side, and what a supervising parent adds
"""

from __future__ import annotations

from holdfast.engine.crash_evidence.deaths import (
    OWN_SIGNALS,
    DeathReports,
    find_deaths,
    forget_notes,
    note_exit_of_child,
)
from holdfast.engine.crash_evidence.notes import notes_folder
from holdfast.engine.crash_evidence.oom_kills import OomWatch
from holdfast.engine.crash_evidence.process_hooks import mark_supervised
from holdfast.engine.crash_evidence.recorder import CrashRecorder, record_crashes
from holdfast.engine.crash_evidence.running_marks import RunningMarks

__all__ = [
    "OWN_SIGNALS",
    "CrashRecorder",
    "DeathReports",
    "OomWatch",
    "RunningMarks",
    "find_deaths",
    "forget_notes",
    "mark_supervised",
    "note_exit_of_child",
    "notes_folder",
    "record_crashes",
]
