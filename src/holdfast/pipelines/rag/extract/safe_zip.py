"""Open ZIP archives without trusting them: check the size of the member list before it is read into memory."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from holdfast.containers import zip_archive
from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits

BROKEN = zip_archive.BROKEN
"""What the standard library raises for damaged archives and members."""
USUAL_COMPRESSION = (ZIP_STORED, ZIP_DEFLATED)
"""How members of Office files and e-books are packed. The memory that other methods need is up to the archive."""


def open_zip(path: Path, limits: ExtractLimits) -> ZipFile:
    """Open an Office file or an e-book. Reject it if it is broken, encrypted, or has too many members."""
    archive = zip_archive.open_zip(path, max_entries=limits.zip_members)
    if any(member.flag_bits & zip_archive.ENCRYPTED for member in archive.filelist):
        archive.close()
        raise Reject("encrypted; remove the password")
    return archive
