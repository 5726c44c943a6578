"""The hooks of a process: they are there while workers run, and change nothing for others."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.core.model import WorkerRecord
from holdfast.engine.crash_evidence import CrashRecorder, OomWatch, RunningMarks, find_deaths, record_crashes
from holdfast.engine.crash_evidence.process_hooks import hooks
from holdfast.process_identity import this_host
from holdfast.stores.protocol import Store

WORKER = WorkerRecord(1, "ann", this_host(), 999_999, "then", timedelta(seconds=1))


@pytest.fixture
def store(tmp_path: Path):
    with holdfast.open(f"sqlite:///{tmp_path / 'a.db'}") as opened:
        yield opened


@pytest.fixture
def marks() -> RunningMarks:
    return RunningMarks()


@pytest.fixture
def recorder(store: Store, marks: RunningMarks, without_faulthandler: None):
    recorder = record_crashes(store, WORKER, marks=marks, oom=OomWatch())
    yield recorder
    recorder.close()


def test_the_hooks_are_installed_while_a_worker_runs(recorder: CrashRecorder) -> None:
    assert faulthandler.is_enabled()
    assert os._exit is hooks._our_exit
    recorder.close()
    assert not faulthandler.is_enabled()
    assert os._exit.__module__ == "posix"


def test_a_program_that_enabled_faulthandler_keeps_it(store: Store, tmp_path: Path, without_faulthandler: None) -> None:
    with (tmp_path / "faults").open("w") as file:
        faulthandler.enable(file)
        recorder = record_crashes(store, WORKER, marks=RunningMarks(), oom=OomWatch())
        assert not hooks._has_faulthandler
        recorder.close()
        assert faulthandler.is_enabled()
        faulthandler.disable()


def test_an_exit_hook_of_others_is_left_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = record_crashes(store, WORKER, marks=RunningMarks(), oom=OomWatch())
    theirs = lambda status: None  # noqa: E731 - it stands for the hook of another library
    monkeypatch.setattr(os, "_exit", theirs)
    recorder.close()
    assert os._exit is theirs
    monkeypatch.undo()
    os._exit = hooks._real_exit


def test_an_exit_in_a_body_is_noted_and_blames_only_its_document(
    store: Store, recorder: CrashRecorder, marks: RunningMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks.begin(marks.take_cell(), 4)  # in another thread
    exits: list[int] = []
    monkeypatch.setattr(hooks, "_real_exit", exits.append)

    def body() -> None:
        marks.cells[marks.enter_thread()] = 5
        os._exit(3)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    death = find_deaths(store, [WORKER], gone=[1]).deaths[1]
    assert (death.evidence, death.sign, death.running, exits) == ("exit", "os._exit(3)", {5}, [3])
    assert "in body" in death.traceback


def test_an_exit_in_a_thread_that_a_body_started_blames_what_runs(
    store: Store, recorder: CrashRecorder, marks: RunningMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks.begin(marks.take_cell(), 4)  # in another thread
    monkeypatch.setattr(hooks, "_real_exit", lambda _: None)

    def watchdog() -> None:
        inner = threading.Thread(target=os._exit, args=(3,))
        inner.start()
        inner.join()

    def body() -> None:
        marks.cells[marks.enter_thread()] = 5
        outer = threading.Thread(target=watchdog)
        outer.start()
        outer.join()

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    death = find_deaths(store, [WORKER], gone=[1]).deaths[1]
    assert (death.evidence, death.sign, death.running) == ("exit", "os._exit(3)", {4, 5})


def test_a_thread_of_the_program_itself_may_end_it(
    store: Store, recorder: CrashRecorder, marks: RunningMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks.begin(marks.take_cell(), 4)
    monkeypatch.setattr(hooks, "_real_exit", lambda _: None)
    thread = threading.Thread(target=os._exit, args=(3,))
    thread.start()
    thread.join()
    assert find_deaths(store, [WORKER], gone=[1]).deaths == {}


def test_threads_start_as_before_when_no_worker_runs(recorder: CrashRecorder) -> None:
    assert threading.Thread.start is hooks._our_start
    recorder.close()
    assert threading.Thread.start.__module__ == "threading"


def test_an_exit_that_no_body_calls_ends_in_order(
    store: Store, recorder: CrashRecorder, marks: RunningMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks.begin(marks.take_cell(), 4)
    monkeypatch.setattr(hooks, "_real_exit", lambda _: None)
    os._exit(130)
    assert find_deaths(store, [WORKER], gone=[1]).deaths == {}


@pytest.mark.parametrize("end", ["os._exit(3)", "ctypes.string_at(0)"])
def test_the_end_of_a_forked_process_is_not_that_of_the_worker(tmp_path: Path, end: str) -> None:
    program = f"""
import ctypes, os, sys, threading
sys.path.insert(0, {str(Path.cwd())!r})
import holdfast
from holdfast.engine.crash_evidence import OomWatch, RunningMarks, find_deaths, record_crashes
from tests.engine.crash_evidence.test_process_hooks import WORKER

with holdfast.open("sqlite:///{tmp_path}/a.db") as store:
    marks = RunningMarks()
    recorder = record_crashes(store, WORKER, marks=marks, oom=OomWatch())
    def body():
        cell = marks.enter_thread()
        marks.cells[cell] = 5
        pid = os.fork()
        if not pid:
            marks.cells[cell] = 6
            {end}
        os.waitpid(pid, 0)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    print(find_deaths(store, [WORKER], gone=[1]).deaths[1])
    recorder.close()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "WorkerDeath(evidence='', sign='', running=frozenset({5}), traceback='')\n", ended.stderr
