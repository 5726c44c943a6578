"""Run a function in a forked child process, which may be killed.

It is a fork and not a new interpreter, because the pipeline under test may be defined anywhere, also inside a test
function. Threads of the caller do not exist in the child; ours start after the fork. A body may wait for a thread of
some library. For this there is a time limit, and the failure names the threads that were running.
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

POLL_SECONDS = 0.002
"""Seconds between two checks whether the child has ended."""


class ChildOutcome(Struct, frozen=True):
    """How a child ended: with an answer, killed, or failed."""

    answer: bytes = b""
    killed: bool = False
    failure: str = ""


def run_in_child(work: Callable[[], bytes], *, answer: Path, time_limit: float) -> ChildOutcome:
    """Run a function in a child process and return its answer. The child leaves the answer in a file."""
    if not hasattr(os, "fork"):
        raise HoldfastError("the crash test forks and kills processes, which this system cannot do; use Linux or macOS")
    pid = _fork()
    if pid == 0:
        _run_and_exit(work, answer)
    try:
        status = _ended(pid, monotonic() + time_limit)
    except BaseException:  # re-raised; the child must not outlive any error
        _end(pid)
        raise
    if status is None:
        _end(pid)
        return ChildOutcome(failure=f"it did not end within {time_limit:.0f} s{_hint()}")
    return _outcome(os.waitstatus_to_exitcode(status), answer)


def _fork() -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it warns of other threads: see the module's docstring
        return os.fork()


def _run_and_exit(work: Callable[[], bytes], answer: Path) -> None:
    code = 1
    try:
        answer.write_bytes(work())
        code = 0
    except BaseException:  # noqa: BLE001 - a child must never return into its parent's code; the parent reports the error
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
        sleep(POLL_SECONDS)


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _outcome(code: int, answer: Path) -> ChildOutcome:
    if code == 0:
        return ChildOutcome(answer.read_bytes())
    if code == -signal.SIGKILL:
        return ChildOutcome(killed=True)
    if code < 0:
        return ChildOutcome(failure=f"its process died of {signal.Signals(-code).name}")
    return ChildOutcome(
        failure=answer.read_text().strip() if answer.exists() else f"its process ended with code {code}"
    )


def _hint() -> str:
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    if not others:
        return ""
    return (
        f". The caller has other threads ({', '.join(others)}), and a forked child does not have them: if a body waits "
        "for one of them, call the crash test before they are started"
    )
