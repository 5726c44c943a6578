"""Create files that only their owner can read: databases, reports and notes contain what documents contain."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE = 0o600
"""The rights of new files. The umask can take rights away, not add any. The rights of existing files stay."""


def create_private(path: str | os.PathLike[str], *, mode: int = PRIVATE) -> bool:
    """Create an empty file that only its owner can read, unless it exists.

    Args:
        path: The file. If it is a link, the file that it leads to.
        mode: The rights.

    Returns:
        True if it was created.

    Raises:
        OSError: The file cannot be created.
    """
    try:
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | _CLOSE_ON_EXEC, mode))
    except FileExistsError:
        return False
    return True


def write_private(path: Path, content: bytes) -> None:
    """Write a file. If it is new, only its owner can read it.

    Args:
        path: The file. If it exists, its content is replaced and its rights stay.
        content: The content.

    Raises:
        OSError: The file cannot be written.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _CLOSE_ON_EXEC
    with os.fdopen(os.open(path, flags, PRIVATE), "wb") as file:
        file.write(content)


_CLOSE_ON_EXEC = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
