"""The guard: an audit hook that reports opened files, started programs, connections and compiled code.

An audit hook cannot be removed, so a process has one guard, and the guard records events only inside `watching`.
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
"""Events that reading untrusted data must not cause."""

FORBIDDEN_FOR_WORKERS = (
    *("open", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.startfile", "subprocess.", "pty.", "pickle."),
    *("socket.connect", "socket.getaddrinfo", "socket.gethostby", "socket.bind", "urllib.", "http.", "webbrowser."),
)
"""Events that a worker must not cause when it processes untrusted data, except opening its own files."""


class ForbiddenAction(Exception):
    """The input caused a forbidden event. Raised after the attempt, so that the code under test cannot catch it."""


class Guard:
    """Records forbidden events of this process."""

    def __init__(self) -> None:
        self._watching = False
        self._seen: list[str] = []
        sys.addaudithook(self._on_event)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._watching and event.startswith(FORBIDDEN):
            self._watching = False  # the repr of the arguments may cause events itself
            self._seen.append(f"{event} {arguments!r}"[:300])
            self._watching = True

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raise ForbiddenAction at the end of the block if it caused a forbidden event."""
        self._seen.clear()
        self._watching = True
        try:
            yield
        finally:
            self._watching = False
            if self._seen:
                raise ForbiddenAction("; ".join(self._seen))
