"""Limits of a child process, and what it must not share with its parent."""

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

    _prctl: Any = CDLL(None).prctl  # looked up once, and not again in every child
except (ImportError, OSError, AttributeError, TypeError):  # macOS has no prctl; on Windows nothing here is called
    _prctl = None

STATM = "/proc/self/statm"
PR_SET_PDEATHSIG = 1
"""The option of prctl(2), in Linux, that sets the signal a process gets when its parent dies."""
OOM_SCORE = 500
"""The oom_score_adj of a child, of 1000: when memory runs out, Linux kills it rather than other processes."""


def can_limit_memory() -> bool:
    """Return True if this system can limit the memory of a process."""
    return os.path.exists(STATM)  # noqa: PTH110 - called for every body, and Path takes longer


def memory_limit(allowance: int) -> int:
    """Return the limit at which this process may use this many bytes more than it uses now."""
    sizes = os.open(STATM, os.O_RDONLY)  # called for every body, so without a file object
    try:
        data = os.read(sizes, 256).split()[5]
    finally:
        os.close(sizes)
    return int(data) * resource.getpagesize() + allowance


@contextmanager
def limited_memory(limit: int | None) -> Iterator[None]:
    """Limit the data of this process to this many bytes in a `with` block. Beyond the limit, MemoryError is raised.

    It sets RLIMIT_DATA, not RLIMIT_AS: RLIMIT_DATA counts memory that can be written to. Address space is also used by
    mapped files and libraries, and reserved by allocators; that takes no memory.
    """
    if limit is None:
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def peak_memory() -> int:
    """Return the largest number of bytes that this process ever had resident."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def reset_signals() -> None:
    """Remove the signal handlers of the parent. Ignore Ctrl-C: the worker decides what it means."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def detach_shared_files(*, keep: set[int]) -> None:
    """Detach from files that the parent shares with others: databases, sockets, pipes, lock files.

    Otherwise a lock or a connection would outlive a worker that is killed. Files that are only read or only written
    stay open: logs, and files of libraries. The file numbers are not freed, but point to a useless file. So a library
    that closes its file later, or believes that it holds a lock, never touches another file with the same number.
    """
    keep = keep | {0, 1, 2} | _numbers_of(sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    useless = os.open("/", getattr(os, "O_PATH", os.O_RDONLY))
    for number in [int(entry.name) for entry in Path("/dev/fd").iterdir()]:
        if number not in keep and number != useless and _is_shared(number):
            os.dup2(useless, number, inheritable=False)
    os.close(useless)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)


def _is_shared(number: int) -> bool:
    try:
        kind = os.fstat(number).st_mode
        access = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE
    except OSError:
        return False  # it was open only to list the directory
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
    """Flush stdout and stderr: before a fork, which would print it twice, and before an exit, which would lose it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()


def exit_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent dies, if it can (Linux)."""
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)  # the parent died before the call above


def raise_oom_score() -> None:
    """Have the system kill this process rather than the worker when the machine runs out of memory."""
    with suppress(OSError):
        score = os.open("/proc/self/oom_score_adj", os.O_RDWR)  # called in every child, so without a file object
        if int(os.read(score, 16)) < OOM_SCORE:
            os.pwrite(score, b"%d" % OOM_SCORE, 0)
        os.close(score)
