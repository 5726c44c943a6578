"""Unpacked copies of containers that can only be read from their beginning.

Each entry of a container is read by itself. If each time all the entries before it had to be unpacked again, a packed
archive of n entries would cost n times its size. So the unpacked content stays in a temporary file, which has no name:
it disappears with its process, also after a kill. A process keeps only the last one.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from msgspec import Struct


class Spool(Struct, frozen=True):
    """An unpacked copy.

    Attributes:
        file: The content.
        places: Where each entry begins, and its size, if the content is several entries in one.
        problem: Why the rest could not be unpacked.
    """

    file: BinaryIO
    places: tuple[tuple[int, int], ...] = ()
    problem: str = ""


_last: dict[tuple[int, ...], Spool] = {}
"""The last copy of this process, by its file."""


def spooled(path: Path, unpack: Callable[[BinaryIO], Spool]) -> Spool:
    """Return the unpacked copy of a container. It is unpacked only if this process does not have it yet.

    Args:
        path: The container.
        unpack: Writes the content to a file, and returns it as a copy.
    """
    found = path.stat()
    key = (os.getpid(), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if key not in _last:
        forget()
        file = cast("BinaryIO", tempfile.TemporaryFile(prefix="holdfast-"))  # noqa: SIM115  # it stays open
        try:
            spool = unpack(file)
        except BaseException:  # also an interrupt: the file would fill the disk
            file.close()
            raise
        _last[key] = spool
    spool = _last[key]
    spool.file.seek(0)
    return spool


@atexit.register
def forget() -> None:
    """Delete the copy that this process has."""
    while _last:
        _last.popitem()[1].file.close()
