"""Opens ZIP archives without trusting them: the list of members is measured before it is read into memory."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.limits import Limits

LONGEST_ENTRY = 1_024
"""Bytes of the list that one member may take on average. Office files take about 80."""
TAIL = 22 + 65_535
"""Where the end record of an archive is to be found: it may have a comment behind it."""


BROKEN = (BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, struct.error, zlib.error)
"""What the standard library raises over archives and members that are damaged."""
PLAIN = (ZIP_STORED, ZIP_DEFLATED)
"""How members of Office files and books are packed. Other ways take memory as their archive likes."""


def open_zip(path: Path, limits: Limits) -> ZipFile:
    """Opens an archive, or rejects it: broken, with a password, or with far too many members."""
    try:
        if _size_of_list(path) > limits.zip_members * LONGEST_ENTRY:
            raise Reject(f"the archive lists more than {limits.zip_members:,} members; it may be a ZIP bomb")
        archive = ZipFile(path)
    except BROKEN as error:
        raise Reject(f"broken: it begins like a ZIP archive or Office file and cannot be opened ({error})") from error
    members = archive.infolist()
    if len(members) > limits.zip_members:
        archive.close()
        raise Reject(f"the archive has {len(members):,} members, and {limits.zip_members:,} are allowed")
    if any(member.flag_bits & 1 for member in members):
        archive.close()
        raise Reject("encrypted; remove the password")
    return archive


def _size_of_list(path: Path) -> int:
    """Answers how many bytes the archive says that its list of members takes."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL - 20))
        tail = file.read()
        end = tail.rfind(b"PK\x05\x06")
        if end < 0:
            return 0  # opening it will say so
        locator = tail[max(0, end - 20) : end]
        if locator.startswith(b"PK\x06\x07"):
            file.seek(struct.unpack_from("<Q", locator, 8)[0])
            record = file.read(56)
            return int(struct.unpack_from("<Q", record, 40)[0]) if record.startswith(b"PK\x06\x06") else 0
        return int(struct.unpack_from("<I", tail, end + 12)[0])
