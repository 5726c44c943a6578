"""Count the processes that Linux killed because memory ran out: in the cgroup of this process, or on the machine.

The count of a cgroup rises for every victim in it, whichever limit was reached: its own, that of a cgroup around it, or
the memory of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MOUNTS = Path("/proc/self/mountinfo")
GROUPS = Path("/proc/self/cgroup")
WHOLE_MACHINE = Path("/proc/vmstat")
KEY = "oom_kill"
"""The name of the count, in all files that have it."""


class OomCounter(NamedTuple):
    """A file that counts out-of-memory kills. Another cgroup may have the same path, but not the same file."""

    path: str
    file: str
    """Device and inode."""

    def read(self) -> int | None:
        """Return the count. None if the file is gone, or is another one by now."""
        try:
            return _count(Path(self.path)) if _identity(self.path) == self.file else None
        except (OSError, ValueError):
            return None


def find_oom_counter() -> OomCounter | None:
    """Return the counter of the cgroup of this process; that of the machine if there is none; None if this fails."""
    for path in (*_files_of_cgroup(), WHOLE_MACHINE):
        try:
            if _count(path) is not None:
                return OomCounter(str(path), _identity(str(path)))
        except (OSError, ValueError):
            continue
    return None


class OomWatch:
    """Tell whether the system killed a process here a moment ago because memory ran out.

    `refresh` is called from time to time, by the heartbeat. Kills since the last call but one are recent: a kill may
    have happened just before the last call. Any thread may use it.
    """

    def __init__(self) -> None:
        self.counter = find_oom_counter()
        self.count = self._before = self._read()

    def refresh(self) -> None:
        """Read the count."""
        self._before, self.count = self.count, self._read()

    def killed_recently(self) -> bool:
        """Return True if the count has risen recently."""
        count = self._read()
        return count is not None and self._before is not None and count > self._before

    def _read(self) -> int | None:
        return None if self.counter is None else self.counter.read()


def _files_of_cgroup() -> Iterator[Path]:
    """Yield files that may have the count, those of the innermost cgroup first. Version 2 first, then version 1."""
    try:
        groups = dict(_groups(GROUPS.read_text()))
        mounts = [*_mounts(MOUNTS.read_text())]
    except (OSError, ValueError):
        return
    for kind, name in (("", "memory.events"), ("memory", "memory.oom_control")):
        for controller, root, mounted_at in mounts:
            if controller == kind and kind in groups:
                inside = groups[kind].removeprefix(root.rstrip("/")).strip("/")
                for folder in (mounted_at / inside, *(mounted_at / inside).parents):
                    if folder.is_relative_to(mounted_at):
                        yield folder / name


def _groups(text: str) -> Iterator[tuple[str, str]]:
    """Yield the cgroups of a process: "" for version 2, "memory" for version 1."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _mounts(text: str) -> Iterator[tuple[str, str, Path]]:
    """Yield where cgroups are mounted: the controller, the cgroup that is the root there, and the folder."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        _, _, _, root, folder, *_ = before.split(" ")
        if kind == "cgroup2":
            yield "", root, Path(folder)
        elif kind == "cgroup" and "memory" in options.split(","):
            yield "memory", root, Path(folder)


def _count(path: Path) -> int | None:
    for line in path.read_text().splitlines():
        name, _, number = line.partition(" ")
        if name == KEY:
            return int(number)
    return None


def _identity(path: str) -> str:
    found = os.stat(path)  # noqa: PTH116 - the path is a text everywhere here
    return f"{found.st_dev}:{found.st_ino}"
