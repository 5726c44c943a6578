"""Takes turns at writing, between processes.

SQLite lets writers poll for its lock, so a busy one starves the others. Writers here pass a turnstile first: whoever
waits for the pen already holds the turnstile, so the last writer queues up behind it. A process that dies lets go.
"""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # Windows: SQLite's own polling has to do
    fcntl = None  # type: ignore[assignment]


class Turnstile:
    """A fair lock between processes on one machine, beside a database file."""

    def __init__(self, database: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._turn = os.open(f"{database}-turn", flags, 0o666) if fcntl else -1
        self._pen = os.open(f"{database}-pen", flags, 0o666) if fcntl else -1

    def __enter__(self) -> None:
        if fcntl:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
            fcntl.flock(self._pen, fcntl.LOCK_EX)
            fcntl.flock(self._turn, fcntl.LOCK_UN)

    def __exit__(self, *_: object) -> None:
        if fcntl:
            fcntl.flock(self._pen, fcntl.LOCK_UN)

    def close(self) -> None:
        """Lets go of the files."""
        if fcntl:
            os.close(self._turn)
            os.close(self._pen)
