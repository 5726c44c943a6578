"""Limits: what a child may take, and what it must not keep of its parent."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
    import resource
    from ctypes import CDLL

    _prctl: Any = CDLL(None).prctl  # found once: every child would else look for it again
except (ImportError, OSError, AttributeError, TypeError):  # macOS has no prctl; on Windows nothing here is called
    _prctl = None

STATM = "/proc/self/statm"
DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux."""
FIRST_TO_GO = 500
"""Of 1000: how much rather a child is taken than others when the machine runs out of memory."""


def can_limit_memory() -> bool:
    """Answers whether this system lets a process be held to an amount of memory."""
    return os.path.exists(STATM)  # noqa: PTH110 - every body comes by here, and Path takes longer


def ceiling_above(allowance: int) -> int:
    """Gives the limit that lets this process take so many bytes more than it has."""
    sizes = os.open(STATM, os.O_RDONLY)  # bare calls, since every body comes by here
    try:
        data = os.read(sizes, 256).split()[5]
    finally:
        os.close(sizes)
    return int(data) * resource.getpagesize() + allowance


@contextmanager
def held_to(ceiling: int | None) -> Iterator[None]:
    """Holds this process to so many bytes of data for a while; beyond that it meets MemoryError.

    RLIMIT_DATA, not RLIMIT_AS: it counts what can be written to. Address space is also reserved by allocators, and
    used by mapped files and libraries, that take no memory.
    """
    if ceiling is None:
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    room = ceiling if hard == resource.RLIM_INFINITY else min(ceiling, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def peak_memory() -> int:
    """Answers the most bytes that this process ever had resident."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def forget_signals() -> None:
    """Takes down the parent's handlers. Ctrl-C is the worker's to decide about: a child does not hear it."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def let_go_of_files(*, keep: set[int]) -> None:
    """Lets go of what the parent has open to share with others: databases, sockets, pipes, lock files.

    A lock or a connection would else outlive a worker that is killed. Files that are only read or only written stay:
    logs, and whatever a library has open. The numbers are not freed but put out of use, so that a library that closes
    its own later, or believes to hold a lock, never meets a file that has come to the same number.
    """
    keep = keep | {0, 1, 2} | _numbers_of(sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    useless = os.open("/", getattr(os, "O_PATH", os.O_RDONLY))
    for number in [int(entry.name) for entry in Path("/dev/fd").iterdir()]:
        if number not in keep and number != useless and _is_shared(number):
            os.dup2(useless, number, inheritable=False)
    os.close(useless)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _is_shared(number: int) -> bool:
    try:
        kind = os.fstat(number).st_mode
        access = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
    except OSError:
        return False  # the listing itself had it open
    if stat.S_ISREG(kind):
        return access == os.O_RDWR
    return not (stat.S_ISCHR(kind) or stat.S_ISDIR(kind))


def _numbers_of(*streams: object) -> set[int]:
    numbers: set[int] = set()
    for stream in streams:
        with suppress(AttributeError, OSError, ValueError):
            numbers.add(stream.fileno())  # type: ignore[attr-defined]
    return numbers


def flush_output() -> None:
    """Writes out what was printed: before a fork, which would double it, and before an end, which would lose it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()


def die_with(parent: int) -> None:
    """Lets the system kill this process when its parent dies, where it can (Linux)."""
    if _prctl is not None:
        _prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)  # it died before we asked


def offer_to_the_oom_killer() -> None:
    """When the machine runs out of memory, lets the system take this process rather than the worker."""
    with suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_RDWR)  # bare calls: every child comes by here
        if int(os.read(score, 16)) < FIRST_TO_GO:
            os.pwrite(score, b"%d" % FIRST_TO_GO, 0)
        os.close(score)
