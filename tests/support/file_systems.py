"""A small mounted file system, for tests that need a full or a read-only disk."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BLOCK = 4096


class NoMount(Exception):
    """A file system cannot be mounted on this machine."""


class MountedDisk:
    """A file system in memory that can be filled, emptied and made read-only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Use all free space, even if other processes use some of it meanwhile."""
        with self._filler.open("ab") as filler:
            part = shutil.disk_usage(self.folder).free
            while part >= BLOCK:
                try:
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), part)
                except OSError:
                    part //= 2

    def free_space(self) -> None:
        """Free the space again."""
        self._filler.unlink()

    def make_read_only(self) -> None:
        """Make the file system read-only. No process may have a file open for writing."""
        _mount("-o", "remount,ro", str(self.folder))

    def make_writable(self) -> None:
        """Make the file system writable again."""
        _mount("-o", "remount,rw", str(self.folder))


@contextmanager
def small_disk(size: int) -> Iterator[MountedDisk]:
    """Mount a file system of this many bytes, and unmount it at the end. Raise NoMount if that is not allowed."""
    if os.geteuid() != 0:
        raise NoMount("only root may mount a file system")
    with tempfile.TemporaryDirectory(prefix="holdfast-disk-", dir="/tmp") as folder:
        _mount("-t", "tmpfs", "-o", f"size={size}", "holdfast-disk", folder)
        try:
            Path(folder).chmod(0o755)
            yield MountedDisk(Path(folder))
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def _mount(*arguments: str) -> None:
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoMount(str(error)) from error
    if done.returncode:
        raise NoMount(done.stderr.strip())
