"""The files of a database: notice that somebody removed or replaced one while it is in use.

SQLite keeps the newest commits in a log beside the database (-wal), and what its processes know of that log in another
file (-shm). If one of the two is removed, processes that use it go on with a file that nobody else can open. What they
commit is lost if they are killed. A process that starts later does not see it, and may overwrite it.
"""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.core.errors import StoreGone

FileIdentity = tuple[int, int] | None

LOG = ("-wal", "-shm")


def file_identity(path: str | Path) -> FileIdentity:
    """Return what distinguishes a file from another one with the same name; None if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - for every commit, and twice as fast
    except OSError:
        return None
    return found.st_dev, found.st_ino


class LogFiles:
    """The files beside a database that a connection has opened. SQLite opens them for its first transaction."""

    __slots__ = ("_found", "_paths")

    def __init__(self, database: Path) -> None:
        real = os.path.realpath(database)  # SQLite has them beside the file that a link leads to
        self._paths = [f"{real}{ending}" for ending in LOG]
        self._found = [file_identity(path) for path in self._paths]

    def note_opened(self) -> None:
        """Note the files that did not exist before the transaction that has just begun."""
        if None in self._found:
            self._found = [found or file_identity(path) for path, found in zip(self._paths, self._found, strict=True)]

    def require_same(self, url: str) -> None:
        """Raise StoreGone if one of them was removed or replaced since, or was never there."""
        for path, found in zip(self._paths, self._found, strict=True):
            if found is None or file_identity(path) != found:
                raise _removed(url, path)

    def require_unchanged(self, url: str) -> None:
        """Raise StoreGone if one that was there was removed or replaced since."""
        for path, found in zip(self._paths, self._found, strict=True):
            if found is not None and file_identity(path) != found:
                raise _removed(url, path)


def _removed(url: str, path: str) -> StoreGone:
    return StoreGone(
        f"{url}: {path} was removed or replaced while it was in use. SQLite keeps the newest commits in it, so nothing "
        "is acknowledged any more. Do not kill the programs that use the database: stop them (Ctrl-C or SIGTERM), and "
        "the last one copies what it has into the database. Then check it with "
        f"`sqlite3 {path[:-4]} 'pragma integrity_check'`, and start them again. Never remove this file: SQLite does it "
        "when nobody needs it"
    )
