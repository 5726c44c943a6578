"""What the notes of dead workers say: fatal signals, exits, memory, a parent's word, and nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

import holdfast
from holdfast.core.model import WorkerRecord
from holdfast.core.worker_deaths import WorkerDeath
from holdfast.engine.crash_evidence.deaths import (
    OUT_OF_MEMORY,
    DeathReports,
    find_deaths,
    forget_notes,
    note_exit_of_child,
)
from holdfast.engine.crash_evidence.notes import NoteHeader, create_note, note_path, notes_folder, read_note
from holdfast.engine.crash_evidence.oom_kills import OomCounter
from holdfast.engine.crash_evidence.running_marks import BODIES, OOM_KILLS
from holdfast.process_identity import this_host
from holdfast.stores.protocol import Store
from tests.support.polling import wait_for

WORKER = WorkerRecord(3, "ann", this_host(), 999_999, "then", timedelta(seconds=1))
RUNNING = frozenset([7])


class Notes:
    """The note of one worker, and what is read from it."""

    def __init__(self, store: Store, worker: WorkerRecord = WORKER, **more: object) -> None:
        self.store = store
        self.worker = worker
        folder = notes_folder(store)
        assert folder is not None
        self.folder = folder
        self.path = note_path(folder, worker)
        self.header = NoteHeader(worker.id, worker.host, worker.pid, worker.born, **more)  # type: ignore[arg-type]
        self.file, self.cells = create_note(self.path, self.header)
        self.cells[BODIES.start] = 7

    def add(self, text: str) -> None:
        os.write(self.file, text.encode())

    def death(self, *, gone: bool = True) -> WorkerDeath:
        reports = find_deaths(self.store, [self.worker], gone=[self.worker.id] if gone else [])
        return reports.deaths[self.worker.id]


@pytest.fixture
def store(tmp_path: Path):
    with holdfast.open(f"sqlite:///{tmp_path / 'a.db'}") as opened:
        yield opened


def test_a_note_without_text_says_only_what_was_running(store: Store) -> None:
    assert Notes(store).death() == WorkerDeath(running=RUNNING)


def test_a_worker_without_a_note_is_not_reported(store: Store) -> None:
    assert find_deaths(store, [WORKER], gone=[3]) == DeathReports({})
    with holdfast.open("memory://") as memory:
        assert find_deaths(memory, [WORKER], gone=[3]) == DeathReports({})


@pytest.mark.parametrize(
    ("words", "sign"),
    [
        ("Segmentation fault", "SIGSEGV"),
        ("Bus error", "SIGBUS"),
        ("Aborted", "SIGABRT"),
        ("Illegal instruction", "SIGILL"),
        ("Floating point exception", "SIGFPE"),
        ("Something new", "Something new"),
    ],
)
def test_a_fault_is_evidence(store: Store, words: str, sign: str) -> None:
    notes = Notes(store)
    notes.add(f"Fatal Python error: {words}\n\nThread 1:\n  File a.py\n")
    death = notes.death()
    assert (death.evidence, death.sign, death.running) == ("signal", sign, RUNNING)
    assert death.traceback.endswith("File a.py")


def test_a_text_that_nobody_knows_is_no_evidence(store: Store) -> None:
    notes = Notes(store)
    notes.add("{not json\n")
    assert notes.death() == WorkerDeath()


def test_a_count_of_memory_kills_that_rose_is_evidence_if_the_process_is_dead(store: Store, tmp_path: Path) -> None:
    counted = tmp_path / "memory.events"
    counted.write_text("oom_kill 4\n")
    found = counted.stat()
    notes = Notes(store, oom_counter=OomCounter(str(counted), f"{found.st_dev}:{found.st_ino}"))
    notes.cells[OOM_KILLS] = 4
    assert notes.death().evidence == ""
    counted.write_text("oom_kill 5\n")
    assert notes.death() == WorkerDeath("memory", OUT_OF_MEMORY, RUNNING)
    assert notes.death(gone=False).evidence == ""
    notes.cells[OOM_KILLS] = -1  # it could not be read
    assert notes.death().evidence == ""


def test_marks_from_before_a_reboot_are_not_trusted(store: Store) -> None:
    name, _, rest = this_host().partition("/")
    earlier = replace(WORKER, host=f"{name}/another-boot/{rest.partition('/')[2]}")
    notes = Notes(store, earlier)
    assert notes.death() == WorkerDeath()
    notes.add("Fatal Python error: Aborted\n")
    assert notes.death().sign == "SIGABRT"


@pytest.mark.parametrize(
    ("code", "sign"),
    [(-signal.SIGSEGV, "SIGSEGV"), (-signal.SIGXCPU, "SIGXCPU"), (4, "an exit with code 4 in native code")],
)
def test_a_parent_adds_how_its_child_ended(store: Store, code: int, sign: str) -> None:
    notes = Notes(store)
    note_exit_of_child(notes.folder, WORKER.pid, code)
    death = notes.death()
    assert (death.sign, death.running) == (sign, RUNNING)


@pytest.mark.parametrize("code", [-signal.SIGKILL, -signal.SIGTERM])
def test_a_signal_from_outside_is_no_evidence_for_a_parent(store: Store, code: int) -> None:
    notes = Notes(store)
    note_exit_of_child(notes.folder, WORKER.pid, code)
    assert notes.death() == WorkerDeath(running=RUNNING)


def test_a_parent_adds_nothing_to_what_the_child_wrote_or_to_other_notes(store: Store) -> None:
    notes = Notes(store)
    other = Notes(store, replace(WORKER, id=4, pid=WORKER.pid + 1))
    notes.add("Fatal Python error: Bus error\n")
    note_exit_of_child(notes.folder, WORKER.pid, -signal.SIGABRT)
    note_exit_of_child(None, WORKER.pid, -signal.SIGABRT)
    assert notes.death().sign == "SIGBUS"
    assert other.death().sign == ""


def test_a_dead_process_is_pending_until_its_parent_has_looked_at_it(store: Store) -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"], stdin=subprocess.PIPE) as child:
        notes = Notes(store, replace(WORKER, pid=child.pid), supervisor=os.getpid())
        wait_for(lambda: find_deaths(store, [notes.worker], gone=[3]).pending == {3})
        assert find_deaths(store, [notes.worker], gone=[3]).deaths == {}
        note_exit_of_child(notes.folder, child.pid, 3)
        assert find_deaths(store, [notes.worker], gone=[3]).pending == frozenset()
    assert notes.death().evidence == "exit"


def test_a_zombie_without_a_supervisor_is_not_waited_for(store: Store) -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        notes = Notes(store, replace(WORKER, pid=child.pid))
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert find_deaths(store, [notes.worker], gone=[3]).pending == frozenset()


def test_notes_that_were_read_are_removed(store: Store) -> None:
    notes = Notes(store)
    forget_notes(store, [WORKER])
    assert read_note(notes.path) is None
    assert not notes.folder.exists()
