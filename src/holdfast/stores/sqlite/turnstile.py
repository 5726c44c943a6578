"""Takes turns at writing, between processes.

SQLite lets writers poll for its lock, so a busy one starves the others. Writers here pass a turnstile first: whoever
waits for the pen already holds the turnstile, so the last writer queues up behind it. A process that dies lets go.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # Windows: SQLite's own polling has to do
    fcntl = None  # type: ignore[assignment]


class Turnstile:
    """A fair lock between processes on one machine, beside a database file."""

    def __init__(self, database: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._files: tuple[int, ...] = ()
        if fcntl:
            self._turn = os.open(f"{database}-turn", flags, 0o666)
            self._pen = os.open(f"{database}-pen", flags, 0o666)
            self._files = (self._turn, self._pen)
            _OPEN.add(self)

    def __enter__(self) -> None:
        if fcntl:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
            try:
                fcntl.flock(self._pen, fcntl.LOCK_EX)
            finally:  # also when Ctrl-C ends the wait
                fcntl.flock(self._turn, fcntl.LOCK_UN)

    def __exit__(self, *_: object) -> None:
        if fcntl:
            fcntl.flock(self._pen, fcntl.LOCK_UN)

    def close(self) -> None:
        """Lets go of the files."""
        for file in self._files:
            os.close(file)
        self._files = ()


_OPEN: weakref.WeakSet[Turnstile] = weakref.WeakSet()


def _close_in_child() -> None:
    """A forked child shares its parent's locks, and would hold them for as long as it outlives a killed parent."""
    for turnstile in list(_OPEN):
        turnstile.close()


if fcntl:
    os.register_at_fork(after_in_child=_close_in_child)
