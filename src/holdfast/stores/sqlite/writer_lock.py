"""A fair lock for writers of one SQLite file, between threads and between processes.

SQLite lets writers poll for its lock, so a busy writer starves the others. Here there are two locks. A writer takes the
queue lock, keeps it while it waits for the write lock, and then releases it. So a writer that has just written comes
after one that waits: it needs the queue lock first. The system releases the locks of a process that dies.

The threads of one process queue for locks of Python first, and only one of them for the files. So a thread never waits
in the system for another thread of its own process, where nothing could end the wait (see thread_lock.py).
"""

from __future__ import annotations

import os
import stat
import threading
import weakref
from pathlib import Path

from holdfast.core.private_files import PRIVATE, create_private
from holdfast.stores.thread_lock import ThreadLock

try:
    import fcntl
except ModuleNotFoundError:  # Windows has only SQLite's own polling
    fcntl = None  # type: ignore[assignment]


class WriterLock:
    """A fair lock between threads and processes on one machine. Between processes it is two files by the database."""

    def __init__(self, database: Path) -> None:
        self._files: tuple[int, ...] = ()
        if fcntl:
            mode = stat.S_IMODE(database.stat().st_mode) if database.exists() else PRIVATE
            self._queue = _open(f"{database}-queue", mode)
            self._files = (self._queue,)
            try:
                self._lock = _open(f"{database}-lock", mode)
            except OSError:
                self.close()
                raise
            self._files = (self._queue, self._lock)
            _OPEN.add(self)
        self.threads = _thread_lock(database)

    def __enter__(self) -> None:
        self.threads.acquire()
        try:
            self._lock_files()
        except BaseException:  # re-raised; also when Ctrl-C ends the wait
            self.threads.release()
            raise

    def _lock_files(self) -> None:
        if fcntl:
            fcntl.flock(self._queue, fcntl.LOCK_EX)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            finally:  # also when Ctrl-C ends the wait
                fcntl.flock(self._queue, fcntl.LOCK_UN)

    def __exit__(self, *_: object) -> None:
        if fcntl:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        self.threads.release()

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            os.close(file)
        self._files = ()


def _open(path: str, mode: int) -> int:
    """Open a file of the lock. A new one has the rights of the database: all who may write that may take the lock."""
    is_new = create_private(path, mode=mode)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    if is_new:
        os.fchmod(file, mode)  # the umask may have taken rights away that the database has
    return file


_OPEN: weakref.WeakSet[WriterLock] = weakref.WeakSet()
_THREADS: weakref.WeakValueDictionary[tuple[int, int], ThreadLock] = weakref.WeakValueDictionary()
_THREADS_LOCK = threading.Lock()


def _thread_lock(database: Path) -> ThreadLock:
    """Return the lock between threads for a file, whatever path it was opened by."""
    found = database.stat()
    with _THREADS_LOCK:
        return _THREADS.setdefault((found.st_dev, found.st_ino), ThreadLock())


def _close_in_child() -> None:
    """Close the locks in a forked child: it shares them, and would hold them after its parent was killed."""
    global _THREADS_LOCK  # noqa: PLW0603 - a thread of the parent may hold it, and there is no such thread in the child
    for lock in list(_OPEN):
        lock.close()
    _THREADS_LOCK = threading.Lock()
    _THREADS.clear()


os.register_at_fork(after_in_child=_close_in_child)
