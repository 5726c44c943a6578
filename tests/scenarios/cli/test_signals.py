"""Ctrl-C and SIGTERM, with real processes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import sqlite3
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

import holdfast as holdfast_library
from holdfast.engine.budget import stopping_on_signals
from tests.cli.conftest import Run, Start
from tests.support.polling import wait_for, wait_for_items, wait_until

SLOW = """
import time
import holdfast

slow = holdfast.Pipeline("slow")

@slow.step
def pages(doc, cursor=0):
    for number in range(cursor, 60):
        time.sleep(0.02)
        yield number
"""

STUCK = """
import time
import holdfast

stuck = holdfast.Pipeline("stuck")

@stuck.step
def quick(doc):
    return 1

@stuck.step
def wait(doc):
    time.sleep(60 if not __import__("pathlib").Path("go").exists() else 0)
"""


@pytest.fixture(autouse=True)
def heeding_signals() -> Iterator[None]:
    """A shell starts background processes with Ctrl-C ignored, nohup with SIGHUP, and their children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    before_hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGINT, before)
    signal.signal(signal.SIGHUP, before_hang_up)


@pytest.fixture
def slow(folder: Path) -> Path:
    (folder / "slow.py").write_text(SLOW)
    (folder / "stuck.py").write_text(STUCK)
    return folder


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, error = process.communicate(timeout=30)
    return process.returncode, out, error


def interrupt_once(process: subprocess.Popen[str]) -> None:
    """Send SIGINT, and wait until the program has printed that a second one ends it at once."""
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    for line in process.stdout:
        if "press Ctrl-C again" in line:
            return


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM"), (signal.SIGHUP, 129, "SIGHUP")],
)
def test_a_signal_stops_at_the_next_item_and_the_next_run_continues(
    slow: Path, start: Start, holdfast: Run, number: signal.Signals, code: int, word: str
) -> None:
    process = start("run", "slow.py", "docs/a.txt")
    wait_for_items(3)
    process.send_signal(number)
    assert (told := ended(process))[0] == code, told
    assert f"Stopped by {word}; everything is saved, 1 document left." in told[1]
    assert "  holdfast run slow.py docs/a.txt" in told[1]
    here = json.loads(holdfast("show", "docs/a.txt", "--json").stdout)
    assert here["state"] == "waiting"
    assert here["attempts"] == here["crashes"] == 0
    kept = here["checkpoint"]["cursor"]
    assert 3 <= kept < 60
    again = json.loads(holdfast("run", "slow.py", "docs/a.txt", "--json").stdout.splitlines()[-1])
    assert again["report"]["items"] == 60 - kept


@contextmanager
def in_a_terminal(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], None]]]:
    """Start the command line in a terminal of its own. Return the process, and a function that closes the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - its terminal sends it SIGHUP
    )
    os.close(theirs)
    end = threading.Event()
    reader = threading.Thread(target=_read_until, args=(ours, end))  # else the terminal would be full
    reader.start()

    def close() -> None:
        if not end.is_set():
            end.set()
            reader.join()
            os.close(ours)

    try:
        yield process, close
    finally:
        close()
        process.kill()
        process.wait()


def _read_until(terminal: int, end: threading.Event) -> None:
    with suppress(OSError):  # the other side is closed
        while not end.is_set():
            if select.select([terminal], [], [], 0.05)[0]:
                os.read(terminal, 1024)


@pytest.mark.parametrize("sent_by", ["the kernel", "the kernel and the shell"])
def test_a_worker_whose_terminal_closes_stops_and_gives_its_documents_back(
    slow: Path, holdfast: Run, sent_by: str
) -> None:
    with in_a_terminal("run", "slow.py", "docs/a.txt") as (process, close):
        wait_for_items(3)
        if "shell" in sent_by:
            process.send_signal(signal.SIGHUP)
        close()  # whatever it prints from now on is an error
        assert process.wait(30) == 129
    here = json.loads(holdfast("show", "docs/a.txt", "--json").stdout)
    assert (here["state"], here["attempts"], here["crashes"]) == ("waiting", 0, 0)
    assert here["checkpoint"]["cursor"] >= 3


def test_under_nohup_a_worker_goes_on(slow: Path, start: Start) -> None:
    process = start("run", "slow.py", "docs/a.txt", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for_items(3)
    process.send_signal(signal.SIGHUP)
    code, said, _ = ended(process)
    assert code == 0
    assert "1 document done" in said


def test_a_program_with_its_own_handler_of_sighup_keeps_it() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, _: heard.append(number))
    budget = holdfast_library.Budget()
    with stopping_on_signals(budget):
        os.kill(os.getpid(), signal.SIGHUP)
    assert (heard, budget.reason) == ([signal.SIGHUP], "")


def test_a_second_sighup_does_not_end_a_program_that_finishes() -> None:
    budget = holdfast_library.Budget()
    with stopping_on_signals(budget):
        os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)  # by default, it would end this process
    assert budget.reason == "SIGHUP"


def test_forked_workers_stop_with_their_parent_when_a_terminal_closes(slow: Path, start: Start, holdfast: Run) -> None:
    process = start("run", "slow.py", "docs", "--processes", "2", start_new_session=True)
    wait_for_items(3)
    os.killpg(process.pid, signal.SIGHUP)
    assert ended(process)[0] == 129
    here = json.loads(holdfast("status", "--json").stdout)["pipelines"][0]["batches"][0]
    assert (here["waiting"], here["running"], here["dead"]) == (2, 0, 0)


def test_a_signal_is_reported_while_a_body_still_runs(slow: Path, start: Start) -> None:
    process = start("run", "stuck.py", "docs/a.txt")
    wait_for_items(1)
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert "Stopping at the next item; press Ctrl-C again" in "".join(process.stdout.readline() for _ in range(2))
    process.send_signal(signal.SIGINT)
    ended(process)


def test_ctrl_c_twice_ends_at_once_and_costs_nothing(slow: Path, start: Start, holdfast: Run) -> None:
    process = start("run", "stuck.py", "docs/a.txt")
    wait_for_items(1)
    interrupt_once(process)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, _, error = ended(process)
    assert code == 130
    assert time.monotonic() - began < 3
    assert "Stopped at once; what was committed is saved" in error
    assert "  holdfast run stuck.py docs/a.txt" in error
    assert "Traceback" not in error
    here = json.loads(holdfast("show", "docs/a.txt", "--json").stdout)
    assert (here["state"], here["checkpoint"]["step"], here["crashes"]) == ("waiting", "wait", 0)
    (slow / "go").touch()
    assert holdfast("run", "stuck.py").exit_code == 0


SLOW_EFFECT = """
import pathlib
import time
import holdfast

writes = holdfast.Pipeline("writes")

@writes.step
def one(doc):
    return 1

@one.effect
def write(tx, doc, value):
    pathlib.Path("writing").touch()
    time.sleep(20)
"""


def test_ctrl_c_twice_ends_at_once_while_another_program_holds_the_write_lock(
    slow: Path, start: Start, holdfast: Run
) -> None:
    process = start("run", "slow.py", "docs/a.txt")
    wait_for_items(3)
    with closing(sqlite3.connect("holdfast.db", isolation_level=None)) as other:
        other.execute("begin immediate")
        time.sleep(0.3)  # until the worker comes to its next commit and waits for the lock; nothing shows that
        assert_it_ends_at_once(process)
    assert holdfast("run", "slow.py").exit_code == 0


def test_ctrl_c_twice_ends_at_once_while_an_effect_is_slow(folder: Path, start: Start) -> None:
    (folder / "writes.py").write_text(SLOW_EFFECT)
    process = start("run", "writes.py", "docs/a.txt", "docs/b.txt")
    wait_for((folder / "writing").exists)
    assert_it_ends_at_once(process)


def assert_it_ends_at_once(process: subprocess.Popen[str]) -> None:
    interrupt_once(process)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, out, error = ended(process)
    assert time.monotonic() - began < 3
    assert code == 130
    assert "Stopped at once; what was committed is saved" in error
    assert "the next worker on this machine takes them over at once" in out + error
    assert "Traceback" not in error


def test_ctrl_c_while_submitting_is_shown_and_the_next_run_submits_the_rest(folder: Path, start: Start) -> None:
    (folder / "many.py").write_text(
        "import holdfast, time\nmany = holdfast.Pipeline('many')\n@many.step\ndef one(doc): return 1\n"
        "def documents():\n    for n in range(10**9):\n        time.sleep(0.001)\n        yield f'd{n}', None\n"
    )
    process = start("run", "many.py")
    wait_until("select count(*) from hf_document", lambda counts: counts[0] > 0)
    process.send_signal(signal.SIGINT)
    code, _, error = ended(process)
    assert code == 130
    assert "Stopped at once" in error
    assert "Traceback" not in error


def test_a_run_that_was_killed_continues(slow: Path, start: Start, holdfast: Run) -> None:
    process = start("run", "slow.py", "docs/a.txt")
    wait_for_items(3)
    process.kill()
    ended(process)
    last = json.loads(holdfast("run", "slow.py", "docs/a.txt", "--json").stdout.splitlines()[-1])
    assert last["report"]["done"] == last["report"]["reclaimed"] == 1
    assert last["report"]["items"] <= 57


def test_a_reader_that_goes_away_does_not_make_a_traceback(folder: Path, start: Start) -> None:
    process = start("run", "papers.py", "docs")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    error = process.stderr.read()
    process.wait(timeout=30)
    process.stderr.close()
    assert "Traceback" not in error


SLOW_CLOSING = """
import pathlib
import time
import holdfast

box = holdfast.Pipeline("box")

@box.step
def one(doc):
    return 1

@box.closing
def pages(doc, cursor=0):
    for number in range(cursor, 60):
        time.sleep(0.02 if not pathlib.Path("go").exists() else 0)
        yield number
"""


@pytest.mark.parametrize(("number", "code", "word"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")])
def test_closing_steps_that_a_signal_stopped_say_so_and_continue(
    folder: Path, start: Start, holdfast: Run, number: signal.Signals, code: int, word: str
) -> None:
    (folder / "box.py").write_text(SLOW_CLOSING)
    holdfast("run", "box.py", "docs/a.txt")
    process = start("batch", "close", "box.py", "default", "--seal")
    wait_for_items(3)
    process.send_signal(number)
    assert (told := ended(process))[0] == code, told
    assert f"Its closing steps were stopped by {word} at pages; everything is saved." in told[1]
    assert "  holdfast batch close box.py default --seal" in told[1]
    (folder / "go").touch()
    again = holdfast("batch", "close", "box.py", "default", "--seal")
    assert (again.exit_code, "Its closing steps are done." in again.stdout) == (0, True)


STUCK_CLOSING = """
import pathlib
import time
import holdfast

box = holdfast.Pipeline("box")

@box.step
def one(doc):
    return None

@box.closing
def count(doc):
    return 1

@box.closing
def wait(doc):
    time.sleep(0 if pathlib.Path("go").exists() else 60)
"""


def test_ctrl_c_twice_does_not_wait_for_closing_steps_and_costs_nothing(
    folder: Path, start: Start, holdfast: Run
) -> None:
    (folder / "box.py").write_text(STUCK_CLOSING)
    holdfast("run", "box.py", "docs/a.txt")
    process = start("batch", "close", "box.py", "default", "--seal")
    wait_for_items(1)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)  # until the first signal is handled; close prints nothing about it
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    code, _, error = ended(process)
    assert (code, time.monotonic() - began < 3, "Traceback" in error) == (130, True, False)
    assert (
        "Stopped at once; what was committed is saved. Continue with:\n  holdfast batch close box.py default --seal"
        in error
    )
    (folder / "go").touch()
    assert holdfast("batch", "close", "box.py", "default").exit_code == 0
    here = json.loads(holdfast("show", "default", "--pipeline", "box.closing", "--json").stdout)
    assert (here["state"], here["crashes"]) == ("done", 0)
