"""Read-only connections to the SQLite file of an index, one for each thread."""

from __future__ import annotations

import os
import sqlite3
import threading
from pathlib import Path

MAPPED_BYTES = 1 << 30
"""Bytes of the file that a connection for searches may map into memory."""


class ReadConnections:
    """Open a connection for each thread and process that asks. A forked child must not use those of its parent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._lock = threading.Lock()
        self._opened: list[tuple[int, sqlite3.Connection]] = []

    @property
    def current(self) -> sqlite3.Connection:
        """The connection of this thread."""
        own: tuple[int, sqlite3.Connection] | None = getattr(self._local, "own", None)
        if own is None or own[0] != os.getpid():
            address = self._path.resolve().as_uri() + "?mode=ro"
            db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
            db.execute("pragma query_only = on")
            own = self._local.own = (os.getpid(), db)
            self._local.is_mapped = False
            with self._lock:
                self._opened.append(own)
        return own[1]

    @property
    def for_search(self) -> sqlite3.Connection:
        """The connection of this thread, with the file mapped into memory.

        Only searches use it: a process that only ingests would seem to use as much memory as the file is large.
        """
        db = self.current
        if not self._local.is_mapped:
            db.execute(f"pragma mmap_size = {MAPPED_BYTES}")
            self._local.is_mapped = True
        return db

    def close(self) -> None:
        """Close the connections of this process. The next use opens new ones."""
        with self._lock:
            for pid, connection in self._opened:
                if pid == os.getpid():
                    connection.close()
            self._opened.clear()
            self._local = threading.local()
