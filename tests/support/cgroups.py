"""A real memory cgroup, in which the kernel kills a process that uses too much. Only where this machine allows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

V1 = Path("/sys/fs/cgroup/memory")
V2 = Path("/sys/fs/cgroup")


@contextmanager
def memory_cgroup(limit: int) -> Iterator[Path]:
    """Create a cgroup with this many bytes of memory. Skip the test if that is not possible."""
    group = (V1 if (V1 / "memory.limit_in_bytes").exists() else V2) / f"holdfast-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    try:
        _limit(group, limit)
        yield group
    finally:
        with suppress(OSError):
            group.rmdir()


def _limit(group: Path, limit: int) -> None:
    is_v1 = (group / "memory.limit_in_bytes").exists()
    try:
        (group / ("memory.limit_in_bytes" if is_v1 else "memory.max")).write_text(str(limit))
        with suppress(OSError):  # without swap there is no such limit
            (group / ("memory.memsw.limit_in_bytes" if is_v1 else "memory.swap.max")).write_text(
                str(limit) if is_v1 else "0"
            )
    except OSError as error:
        pytest.skip(f"the memory of a cgroup cannot be limited here: {error}")


def oom_kills(group: Path) -> int:
    """Return how many processes the kernel killed in a cgroup because memory ran out."""
    file = next(path for name in ("memory.events", "memory.oom_control") if (path := group / name).exists())
    return next(int(line.split()[1]) for line in file.read_text().splitlines() if line.startswith("oom_kill "))
