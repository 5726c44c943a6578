"""ZIP archives. The list of entries is at the end of the file, and each entry is read by itself."""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

from holdfast.containers.entry import ContainerLimits, Entry, UnpackedBytes, copy_counted
from holdfast.containers.names import safe_name
from holdfast.core.errors import Reject

LONGEST_ENTRY = 1_024
"""Bytes that one entry may take in the list, on average. Office files need about 80."""
TAIL = 22 + 65_535
"""Bytes at the end of an archive that may hold its end record: the record and the longest comment."""
BROKEN = (
    *(BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, struct.error, zlib.error),
    lzma.LZMAError,
)
"""What the standard library raises for damaged archives and entries."""
ENCRYPTED = 1
"""The flag of an encrypted entry."""
UNIX_TYPE, UNIX_LINK = 0o170000, 0o120000


def open_zip(path: Path, *, max_entries: int) -> ZipFile:
    """Open an archive. The size of its list is checked before the list is read into memory.

    Args:
        path: The archive.
        max_entries: How many entries it may have.

    Raises:
        Reject: It is broken, or has too many entries.
    """
    try:
        if _list_size(path) > max_entries * LONGEST_ENTRY:
            raise Reject(f"the archive lists more than {max_entries:,} entries; it may be a ZIP bomb")
        archive = ZipFile(path)
    except BROKEN as error:
        raise Reject(f"broken: it starts like a ZIP archive or Office file but cannot be opened ({error})") from error
    if (count := len(archive.filelist)) > max_entries:
        archive.close()
        raise Reject(f"the archive has {count:,} entries, and at most {max_entries:,} are allowed")
    return archive


@contextmanager
def open_file(path: Path, limits: ContainerLimits, _name: str) -> Iterator[ZipArchive]:
    """Open a ZIP archive."""
    with open_zip(path, max_entries=limits.entries) as archive:
        yield ZipArchive(archive, limits)


class ZipArchive:
    """The files of a ZIP archive."""

    def __init__(self, archive: ZipFile, limits: ContainerLimits) -> None:
        self._archive = archive
        self._limits = limits

    def entries(self, resume_at: Any = None) -> Iterator[Entry]:
        """Yield the files. `resume_at` is the place of the next one in the list."""
        total = 0
        for place, info in enumerate(self._archive.filelist):
            total += info.file_size
            if total > self._limits.bytes:
                raise Reject(f"the archive unpacks to more than {self._limits.bytes >> 20:,} MiB; it may be a ZIP bomb")
            if place < (resume_at or 0) or info.is_dir() or info.external_attr >> 16 & UNIX_TYPE == UNIX_LINK:
                continue
            yield Entry(safe_name(info.filename), place, info.file_size, f"{info.CRC:08x}:{info.file_size}", place + 1)

    def extract(self, position: Any, target: BinaryIO) -> None:
        """Write a file of the archive."""
        if not 0 <= position < len(self._archive.filelist):
            raise Reject("the archive does not have this entry any more; it has changed")
        info = self._archive.filelist[position]
        if info.flag_bits & ENCRYPTED:
            raise Reject("encrypted; unpack the archive with its password, and add the files inside")
        counter = UnpackedBytes(
            "the entry", packed=info.compress_size, limit=self._limits.entry_bytes, ratio=self._limits.ratio
        )
        try:
            with self._archive.open(info) as file:
                copy_counted(file, target, counter)  # type: ignore[arg-type]  # it can be read, and that is enough
        except BROKEN as error:
            raise Reject(f"broken: the entry cannot be unpacked ({error})") from error


def _list_size(path: Path) -> int:
    """Return the size of the list of entries in bytes, as the archive declares it."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL - 20))
        tail = file.read()
        end = tail.rfind(b"PK\x05\x06")
        if end < 0:
            return 0  # opening it reports the damage
        locator = tail[max(0, end - 20) : end]
        if locator.startswith(b"PK\x06\x07"):
            file.seek(struct.unpack_from("<Q", locator, 8)[0])
            record = file.read(56)
            return int(struct.unpack_from("<Q", record, 40)[0]) if record.startswith(b"PK\x06\x06") else 0
        return int(struct.unpack_from("<I", tail, end + 12)[0])
