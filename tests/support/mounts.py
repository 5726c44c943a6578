"""A small file system of its own, for tests that need one to be full or read-only."""

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
    """This machine does not let us mount."""


class Disk:
    """A file system in memory, which can be filled, emptied, and made read-only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Takes all room that is left, whoever else takes some of it meanwhile."""
        with self._filler.open("ab") as filler:
            part = shutil.disk_usage(self.folder).free
            while part >= BLOCK:
                try:
                    os.posix_fallocate(filler.fileno(), filler.seek(0, os.SEEK_END), part)
                except OSError:
                    part //= 2

    def make_room(self) -> None:
        """Gives all room back."""
        self._filler.unlink()

    def forbid_writing(self) -> None:
        """Lets nobody write. Nobody may have a file open to write."""
        _mount("-o", "remount,ro", str(self.folder))

    def allow_writing(self) -> None:
        _mount("-o", "remount,rw", str(self.folder))


@contextmanager
def small_disk(size: int) -> Iterator[Disk]:
    """Mounts a file system of so many bytes, and takes it away at the end. Raises NoMount where that is forbidden."""
    if os.geteuid() != 0:
        raise NoMount("only root may mount a file system of its own")
    with tempfile.TemporaryDirectory(prefix="holdfast-disk-", dir="/tmp") as folder:
        _mount("-t", "tmpfs", "-o", f"size={size}", "holdfast-disk", folder)
        try:
            Path(folder).chmod(0o755)
            yield Disk(Path(folder))
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def _mount(*words: str) -> None:
    try:
        done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoMount(str(error)) from error
    if done.returncode:
        raise NoMount(done.stderr.strip())
