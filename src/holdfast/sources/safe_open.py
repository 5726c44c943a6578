"""Open a file of a folder without leaving the folder through a link.

A person who may write into a folder can put a link there that leads to any file of this machine. Without this check, a
search would show what the link leads to. Files are listed first and opened later, and a link can be put there in
between. So the check is made for the file that is really opened, not for its name.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from tempfile import TemporaryDirectory

from holdfast.core.errors import Reject

OUTSIDE = "a link that leads outside of the folder; to follow such links, use --follow-symlinks"

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Opening a pipe does not block: it may have taken the place of the file."""
_CAN_DESCEND = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_OPEN_FILES = Path("/proc/self/fd")


class OutsideSource(Reject):
    """A file of a source is outside of it: a link leads there, and links are not followed."""


def is_below(path: str, folder: str) -> bool:
    """Return True if a path is a folder or below it. Both are without links."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def open_inside(path: str, root: str | None) -> int:
    """Open a file for reading and return its file descriptor.

    Args:
        path: The file.
        root: The folder that the file must be in, which may itself be a link. None, or the file itself: anywhere.

    Raises:
        OutsideSource: The file is not in the folder.
        OSError: The file cannot be opened, or it is not a file.
    """
    opened = os.open(path, _FLAGS) if root is None or root == path else _descend(path, root)
    if not S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "it is not a file", path)
    return opened


def _descend(path: str, root: str) -> int:
    """Open each folder on the way without following links: nobody can put one there after the path was resolved."""
    folder, file = os.path.realpath(root), os.path.realpath(path)
    if not is_below(file, folder):
        raise OutsideSource(f"{path} leads outside of {root}: it is {OUTSIDE}")
    if not _CAN_DESCEND:  # Windows
        return os.open(file, _FLAGS)
    *folders, name = Path(file).relative_to(folder).parts
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            outer, inside = inside, os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=inside)
            os.close(outer)
        return os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=inside)
    finally:
        os.close(inside)


@contextmanager
def path_to(opened: int, path: str) -> Iterator[Path]:
    """Yield a path of the same name that leads to an open file, whatever is at its own path meanwhile.

    Where the system has no such paths, or no room for a temporary folder, yield its own path.
    """
    link = _OPEN_FILES / str(opened)
    with ExitStack() as stack:
        named = Path(path)
        if os.path.lexists(link):
            with suppress(OSError):
                folder = stack.enter_context(TemporaryDirectory(prefix="holdfast-"))
                (Path(folder) / named.name).symlink_to(link)  # the same name: parsers look at its suffix
                named = Path(folder) / named.name
        yield named
