"""The recorder: a note exists while a worker runs, is kept up to date, and is removed at the end."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.core.model import WorkerRecord
from holdfast.engine.crash_evidence import OomWatch, RunningMarks, find_deaths, record_crashes
from holdfast.engine.crash_evidence.notes import note_path, notes_folder, read_note
from holdfast.engine.crash_evidence.recorder import FORGOTTEN_AFTER, CrashRecorder
from holdfast.process_identity import born, this_host
from holdfast.stores.protocol import Store


@pytest.fixture
def store(tmp_path: Path):
    with holdfast.open(f"sqlite:///{tmp_path / 'a.db'}") as opened:
        yield opened


def worker(number: int = 1) -> WorkerRecord:
    return WorkerRecord(number, "ann", this_host(), os.getpid(), born(os.getpid()), timedelta(seconds=1))


def recorder_of(store: Store, number: int = 1, marks: RunningMarks | None = None) -> CrashRecorder:
    return record_crashes(store, worker(number), marks=marks or RunningMarks(), oom=OomWatch())


def test_a_note_has_the_marks_until_the_worker_ends(store: Store) -> None:
    marks = RunningMarks()
    recorder = recorder_of(store, marks=marks)
    marks.begin(marks.take_cell(), 5)
    assert find_deaths(store, [worker()], gone=[]).deaths[1].running == {5}
    recorder.close()
    assert not (notes_folder(store) or Path()).exists()
    marks.begin(marks.take_cell(), 6)  # by a thread that is stuck in a body


def test_a_fault_that_the_process_survived_is_no_evidence(store: Store) -> None:
    recorder = recorder_of(store)
    os.write(recorder.file, b"Fatal Python error: Segmentation fault\n")
    assert find_deaths(store, [worker()], gone=[1]).deaths[1].evidence == "signal"
    recorder.refresh()
    assert find_deaths(store, [worker()], gone=[1]).deaths[1].evidence == ""
    recorder.close()


def test_a_fault_is_in_the_note_of_every_worker_of_the_process(
    store: Store, tmp_path: Path, without_faulthandler: None
) -> None:
    with holdfast.open(f"sqlite:///{tmp_path / 'b.db'}") as other:
        first, second = recorder_of(store), recorder_of(other, 2)
        os.write(first.file, b"Fatal Python error: Aborted\n")
        assert find_deaths(other, [worker(2)], gone=[2]).deaths[2].sign == "SIGABRT"
        first.close()
        assert find_deaths(other, [worker(2)], gone=[2]).deaths[2].sign == ""
        os.write(second.file, b"Fatal Python error: Bus error\n")
        assert find_deaths(other, [worker(2)], gone=[2]).deaths[2].sign == "SIGBUS"
        second.close()


def test_a_worker_works_without_a_note_if_no_folder_can_be_written(store: Store, tmp_path: Path) -> None:
    (tmp_path / f"a.db-workers-{os.getuid()}").write_text("this is a file")
    marks = RunningMarks()
    recorder = recorder_of(store, marks=marks)
    marks.begin(marks.take_cell(), 5)
    recorder.refresh()
    assert find_deaths(store, [worker()], gone=[1]).deaths == {}
    recorder.close()


def test_a_note_that_somebody_removed_disturbs_nobody(store: Store) -> None:
    recorder = recorder_of(store)
    note_path(notes_folder(store) or Path(), worker()).unlink()
    recorder.refresh()
    recorder.close()


def test_old_notes_of_dead_processes_are_removed(store: Store) -> None:
    living = recorder_of(store)
    folder = notes_folder(store) or Path()
    mine = note_path(folder, worker())
    dead, young = folder / "1-1-a.note", folder / "1-1-b.note"
    for path in (dead, young):
        path.write_bytes(b"from another time")
    for path in (dead, mine):
        os.utime(path, (0, time.time() - FORGOTTEN_AFTER - 60))
    second = recorder_of(store, 2)
    assert (dead.exists(), young.exists(), read_note(mine) is not None) == (False, True, True)
    living.close()
    second.close()
