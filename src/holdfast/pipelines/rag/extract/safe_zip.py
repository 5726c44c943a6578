"""Open ZIP archives without trusting them: check the size of the member list before it is read into memory."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits

LONGEST_ENTRY = 1_024
"""Bytes that one member may take in the member list, on average. Office files need about 80."""
TAIL = 22 + 65_535
"""Bytes at the end of an archive that may hold its end record: the record and the longest comment."""


BROKEN = (BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, struct.error, zlib.error)
"""What the standard library raises for damaged archives and members."""
USUAL_COMPRESSION = (ZIP_STORED, ZIP_DEFLATED)
"""How members of Office files and e-books are packed. The memory that other methods need is up to the archive."""


def open_zip(path: Path, limits: ExtractLimits) -> ZipFile:
    """Open an archive. Reject it if it is broken, encrypted, or has too many members."""
    try:
        if _member_list_size(path) > limits.zip_members * LONGEST_ENTRY:
            raise Reject(f"the archive lists more than {limits.zip_members:,} members; it may be a ZIP bomb")
        archive = ZipFile(path)
    except BROKEN as error:
        raise Reject(f"broken: it starts like a ZIP archive or Office file but cannot be opened ({error})") from error
    members = archive.infolist()
    if len(members) > limits.zip_members:
        archive.close()
        raise Reject(f"the archive has {len(members):,} members, and at most {limits.zip_members:,} are allowed")
    if any(member.flag_bits & 1 for member in members):
        archive.close()
        raise Reject("encrypted; remove the password")
    return archive


def _member_list_size(path: Path) -> int:
    """Return the size of the member list in bytes, as the archive declares it."""
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
