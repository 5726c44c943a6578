"""Who a worker is on its machine, and whether another one on the same machine is gone.

A pid says little: it is used again, and means something else in another container. The host's name, its boot and its
pid namespace together with the pid and the moment the process began name one process for ever.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from holdfast.core.model import Worker


def host_name() -> str:
    """Gives the name of the machine, without the import of `socket` where that can be helped."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    import socket

    return socket.gethostname()


@cache
def this_host() -> str:
    """Names the machine as processes see it, since it booted."""
    boot = _read("/proc/sys/kernel/random/boot_id")
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return "/".join(part for part in (host_name(), boot, namespace) if part)


def born(pid: int) -> str:
    """Tells when a process began, as a mark that no later process of its pid has; empty where that is not known."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def is_gone(worker: Worker) -> bool:
    """Answers whether a worker of this machine is certainly gone. Of other machines nothing is certain."""
    if not worker.born or worker.host != this_host():
        return False
    began = born(worker.pid)
    if not began and _may_not_look(worker.pid):
        return False  # it is there, and somebody else's
    return began != worker.born


def _may_not_look(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists() and not os.access(f"/proc/{pid}/stat", os.R_OK)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
