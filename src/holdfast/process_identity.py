"""Identify processes, and check whether a worker of this machine is dead.

A process id alone is not enough: it is used again, and means another process in another container. Host name, boot id,
pid namespace, process id and start time together identify one process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from holdfast.core.model import WorkerRecord


def host_name() -> str:
    """Return the name of the machine, if possible without importing `socket`."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import socket

    return socket.gethostname()


@cache
def this_host() -> str:
    """Return the name of the machine with its boot id and the pid namespace of this process."""
    boot = _read("/proc/sys/kernel/random/boot_id")
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return "/".join(part for part in (host_name(), boot, namespace) if part)


def born(pid: int) -> str:
    """Return when a process started, in clock ticks since boot. Empty if there is no such process or no /proc."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def boot_of(host: str) -> str:
    """Return the boot id in the value of `this_host`. Empty if there is none."""
    return host.partition("/")[2].partition("/")[0]


def is_zombie(pid: int, *, parent: int) -> bool:
    """Return True if a process is dead, and its parent has not asked how it ended."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return len(fields) > 1 and fields[0] in "ZX" and fields[1] == str(parent)


def is_gone(worker: WorkerRecord) -> bool:
    """Return True if a worker of this machine is certainly dead. False for workers of other machines."""
    if not worker.born or worker.host != this_host():
        return False
    started = born(worker.pid)
    if not started and _is_unreadable(worker.pid):
        return False  # the process exists, and belongs to another user
    return started != worker.born


def gone_among(workers: Iterable[WorkerRecord]) -> list[int]:
    """Return the ids of the workers of this machine whose processes are certainly dead."""
    return [worker.id for worker in workers if is_gone(worker)]


def _is_unreadable(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and not os.access(f"/proc/{pid}/stat", os.R_OK)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
