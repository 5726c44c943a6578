"""The reader's side: what the notes of dead workers say. A supervising parent adds to them what it saw."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection, Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.core.model import WorkerRecord
from holdfast.core.worker_deaths import UNKNOWN_DEATH, WorkerDeath
from holdfast.engine.crash_evidence.notes import (
    SUFFIX,
    ExitNote,
    Note,
    add_text,
    note_path,
    notes_folder,
    read_note,
    remove_note,
)
from holdfast.engine.crash_evidence.running_marks import OOM_KILLS, running_documents
from holdfast.process_identity import boot_of, is_zombie, this_host
from holdfast.stores.protocol import Store

OUT_OF_MEMORY = "the system killed it because memory ran out"
MAX_TRACEBACK = 4000
"""How many characters of a traceback are kept."""
OWN_SIGNALS = frozenset(
    signal.Signals[name]
    for name in (
        *("SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS"),
        *("SIGALRM", "SIGVTALRM", "SIGPROF", "SIGPIPE", "SIGXCPU", "SIGXFSZ"),
    )
    if name in signal.Signals.__members__
)
"""The signals that a process gets because of what its own code does. Others are sent from outside."""

_FAULT = re.compile(r"\A(?:Fatal Python error|Windows fatal exception): (.*)")
_NAMES = {
    "Segmentation fault": "SIGSEGV",
    "Bus error": "SIGBUS",
    "Aborted": "SIGABRT",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "Floating-point exception": "SIGFPE",
}
"""The names of signals in the text of faulthandler."""


class DeathReports(Struct, frozen=True):
    """What is known about the end of workers, by id. `pending` are those about which a parent will know more soon."""

    deaths: dict[int, WorkerDeath]
    pending: frozenset[int] = frozenset()


def find_deaths(store: Store, workers: Iterable[WorkerRecord], *, gone: Collection[int]) -> DeathReports:
    """Return what is known about the end of workers that are silent or gone.

    Args:
        store: Their store.
        workers: The workers.
        gone: The ids of those whose processes are certainly dead.
    """
    folder = notes_folder(store)
    if folder is None:
        return DeathReports({})
    notes = {worker.id: read_note(note_path(folder, worker)) for worker in workers}
    found = {worker_id: note for worker_id, note in notes.items() if note is not None}
    pending = frozenset(worker_id for worker_id, note in found.items() if _is_pending(note))
    deaths = {worker_id: _death(note, is_gone=worker_id in gone) for worker_id, note in found.items()}
    return DeathReports({worker_id: death for worker_id, death in deaths.items() if worker_id not in pending}, pending)


def forget_notes(store: Store, workers: Iterable[WorkerRecord]) -> None:
    """Remove the notes of workers whose documents were taken over."""
    folder = notes_folder(store)
    if folder is not None:
        for worker in workers:
            remove_note(note_path(folder, worker))


def note_exit_of_child(folder: Path | None, pid: int, exit_code: int) -> None:
    """Add to the notes of a child how it ended. It is dead, and nobody has waited for it yet.

    A child that ended in order has no note any more. An exit code of one that has is an exit in native code.
    """
    seen = _seen_by_parent(exit_code)
    if folder is None or seen is None:
        return
    for path in folder.glob(f"{pid}-*{SUFFIX}"):
        note = read_note(path)
        if note is not None and not note.text and note.header.host == this_host():
            add_text(path, seen)


def _seen_by_parent(exit_code: int) -> ExitNote | None:
    if exit_code >= 0:
        return ExitNote("exit", f"an exit with code {exit_code} in native code")
    return ExitNote("signal", signal.Signals(-exit_code).name) if -exit_code in OWN_SIGNALS else None


def _is_pending(note: Note) -> bool:
    """Return True if the parent of a dead process has not looked at it yet, and will add what it sees."""
    header = note.header
    return bool(
        header.supervisor
        and not note.text
        and header.host == this_host()
        and is_zombie(header.pid, parent=header.supervisor)
    )


def _death(note: Note, *, is_gone: bool) -> WorkerDeath:
    # what was in memory at a power cut may never have reached the disk
    running = running_documents(note.cells) if boot_of(note.header.host) == boot_of(this_host()) else None
    if note.text.startswith("{"):
        return _death_by_exit(note, running)
    if fault := _FAULT.match(note.text):
        name = fault[1].strip()
        return WorkerDeath("signal", _NAMES.get(name, name), running, note.text[:MAX_TRACEBACK].strip())
    if is_gone and _died_of_memory(note):
        return WorkerDeath("memory", OUT_OF_MEMORY, running)
    return WorkerDeath(running=running)


def _death_by_exit(note: Note, running: frozenset[int] | None) -> WorkerDeath:
    line, _, stack = note.text.partition("\n")
    try:
        seen = msgspec.json.decode(line, type=ExitNote)
    except msgspec.MsgspecError:
        return UNKNOWN_DEATH
    return WorkerDeath(seen.evidence, seen.sign, seen.running or running, stack[:MAX_TRACEBACK].strip())


def _died_of_memory(note: Note) -> bool:
    """Return True if the system killed a process in the cgroup of the worker since its last heartbeat."""
    counter, before = note.header.oom_counter, note.cells[OOM_KILLS]
    now = None if counter is None or before < 0 else counter.read()
    return now is not None and now > before
