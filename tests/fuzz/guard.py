"""The guard: an audit hook that sees files opened, programs started, connections made and code compiled.

A hook cannot be taken away again, so it is there once for a process, and looks only while something is guarded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FORBIDDEN = (
    *("open", "os.", "shutil.", "tempfile.", "glob.", "pathlib.", "mmap."),
    *("exec", "compile", "import", "code.", "marshal.", "pickle.", "ctypes.", "sys.settrace", "sys.setprofile"),
    *("subprocess.", "pty.", "socket.", "urllib.", "http.", "ftplib.", "smtplib.", "sqlite3.connect", "webbrowser."),
)
"""What reading a letter from a stranger never does. `object.` and `gc.` events are none of these."""

AT_WORK = (
    *("open", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.startfile", "subprocess.", "pty.", "pickle."),
    *("socket.connect", "socket.getaddrinfo", "socket.gethostby", "socket.bind", "urllib.", "http.", "webbrowser."),
)
"""What working on a letter from a stranger never does, but for opening files that are the worker's own."""


class Broken(Exception):
    """Something was done that input must not bring about. Raised after all is over, so that nobody can catch it."""


class Guard:
    """Sees what a process does."""

    def __init__(self) -> None:
        self._watching = False
        self._seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._watching and event.startswith(FORBIDDEN):
            self._watching = False  # wording it may itself open something
            self._seen.append(f"{event} {arguments!r}"[:300])
            self._watching = True

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raises Broken at the end of the block if anything forbidden was done in it."""
        self._seen.clear()
        self._watching = True
        try:
            yield
        finally:
            self._watching = False
            if self._seen:
                raise Broken("; ".join(self._seen))
