"""Runs work in a forked child, which may be killed.

A fork, not a fresh interpreter: the pipeline under test may live anywhere, also inside a test function. Threads of the
caller do not exist in the child. Ours are started after the fork; for a library whose threads the body would wait for,
there is a time limit, and the failure says which threads were running.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

from msgspec import Struct

from holdfast.core.errors import HoldfastError

LOOK = 0.002
"""Seconds between looks whether the child has ended."""


class Outcome(Struct, frozen=True):
    """How a child ended: with an answer, killed, or failed and why."""

    answer: bytes = b""
    killed: bool = False
    failure: str = ""


def in_child(work: Callable[[], bytes], *, answer: Path, patience: float) -> Outcome:
    """Runs the work in a child and gives its answer, which it leaves in a file. Waits at most so many seconds."""
    if not hasattr(os, "fork"):
        raise HoldfastError("the crash test forks and kills processes, which this system cannot do; use Linux or macOS")
    pid = _fork()
    if pid == 0:
        _work_and_leave(work, answer)
    try:
        status = _ended(pid, monotonic() + patience)
    except BaseException:
        _end(pid)
        raise
    if status is None:
        _end(pid)
        return Outcome(failure=f"it did not end within {patience:.0f} s{_hint()}")
    return _outcome(os.waitstatus_to_exitcode(status), answer)


def _fork() -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads that the child will not have: see above
        return os.fork()


def _work_and_leave(work: Callable[[], bytes], answer: Path) -> None:
    code = 1
    try:
        answer.write_bytes(work())
        code = 0
    except BaseException:  # noqa: BLE001 - a child must never return into its parent's code; what it met is told there
        answer.write_text(traceback.format_exc())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ended(pid: int, deadline: float) -> int | None:
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        if monotonic() > deadline:
            return None
        sleep(LOOK)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _outcome(code: int, answer: Path) -> Outcome:
    if code == 0:
        return Outcome(answer.read_bytes())
    if code == -signal.SIGKILL:
        return Outcome(killed=True)
    if code < 0:
        return Outcome(failure=f"its process died of {signal.Signals(-code).name}")
    return Outcome(failure=answer.read_text().strip() if answer.exists() else f"its process ended with code {code}")


def _hint() -> str:
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if not others:
        return ""
    return (
        f". The caller has other threads ({', '.join(others)}), which a forked child has not: if a body waits for "
        "one of them, call the crash test before they are started"
    )
