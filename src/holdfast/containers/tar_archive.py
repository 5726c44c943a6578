"""TAR archives. Entries follow each other, each after its header, so a stopped run goes on at the next header."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.containers.entry import COPY_STEP, ContainerLimits, Entry, UnpackedBytes, copy_counted
from holdfast.containers.names import safe_name
from holdfast.core.errors import Reject

BROKEN = (tarfile.TarError, OSError, ValueError, EOFError, OverflowError, RecursionError, IndexError)
"""What the standard library raises for damaged archives."""


@contextmanager
def open_file(path: Path, limits: ContainerLimits, _name: str) -> Iterator[TarArchive]:
    """Open a TAR archive that is not packed."""
    with path.open("rb") as file:
        yield TarArchive(file, limits)


class TarArchive:
    """The files of a TAR archive."""

    def __init__(self, file: BinaryIO, limits: ContainerLimits, problem: str = "") -> None:
        """Read the archive in a file.

        Args:
            file: The archive.
            limits: Its limits.
            problem: Why the file does not have the whole archive.
        """
        self._file = file
        self._problem = problem
        self._limits = limits

    def entries(self, resume_at: Any = None) -> Iterator[Entry]:
        """Yield the files. `resume_at` is the offset of the next header, and the number of entries before it."""
        begin, number = resume_at or (0, 0)
        archive = self._opened(begin)
        while (member := _next(archive)) is not None:
            number += 1
            if number > self._limits.entries:
                raise Reject(f"the archive has more than {self._limits.entries:,} entries")
            archive.members = []  # type: ignore[attr-defined]  # or the list of all entries would grow in memory
            if member.isfile():
                digest = self._digest(archive, member)
                yield Entry(
                    safe_name(member.name), begin + member.offset, member.size, digest, [begin + archive.offset, number]
                )
        if self._problem:
            raise Reject(self._problem)

    def extract(self, position: Any, target: BinaryIO) -> None:
        """Write a file of the archive."""
        archive = self._opened(position)
        member = _next(archive)
        if member is None or not member.isfile():
            raise Reject("the archive does not have this entry any more; it has changed")
        counter = UnpackedBytes("the entry", packed=member.size, limit=self._limits.entry_bytes, ratio=1)
        try:
            file = archive.extractfile(member)
            assert file is not None
            with file:
                copy_counted(file, target, counter)  # type: ignore[arg-type]  # it can be read, and that is enough
        except BROKEN as error:
            raise Reject(f"broken: the entry cannot be read ({error})") from error
        if counter.count != member.size:
            raise Reject("broken: the archive ends in the middle of this entry")

    def _digest(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
        digest = blake2b(digest_size=16)
        if member.size > self._limits.entry_bytes:
            return f"too large: {member.size}"  # it is rejected when it is extracted
        try:
            file = archive.extractfile(member)
            assert file is not None
            with file:
                while piece := file.read(COPY_STEP):
                    digest.update(piece)
        except BROKEN as error:
            return f"broken: {error}"[:60]
        return digest.hexdigest()

    def _opened(self, offset: int) -> tarfile.TarFile:
        self._file.seek(0)
        try:
            return tarfile.TarFile(fileobj=_From(self._file, offset), errorlevel=2, ignore_zeros=False)  # type: ignore[arg-type]
        except BROKEN as error:
            raise Reject(f"broken: the TAR archive cannot be read ({error})") from error


class _From:
    """A file that seems to begin at an offset: the standard library wants a header there."""

    mode = "rb"
    name = ""

    def __init__(self, file: BinaryIO, offset: int) -> None:
        self._file = file
        self._offset = offset
        self.seek(0)

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        if whence:
            return self._file.seek(place, whence) - self._offset
        return self._file.seek(self._offset + place) - self._offset

    def tell(self) -> int:
        return self._file.tell() - self._offset


def _next(archive: tarfile.TarFile) -> tarfile.TarInfo | None:
    try:
        return archive.next()
    except BROKEN as error:
        raise Reject(f"broken: the TAR archive cannot be read to its end ({error})") from error
