"""What a file may be at most. Beyond that it is taken for hostile or broken, and rejected with a reason."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from holdfast.core.errors import Reject


class Limits(Struct, frozen=True, kw_only=True):
    """How much a file may hold. What people make in earnest stays far below; what is made to harm does not."""

    file_bytes: int = 500 << 20
    whole_bytes: int = 64 << 20
    """Of a file that can only be read as a whole: HTML, e-mail. Their trees take many times the memory."""
    tags: int = 2_000_000
    """Of an HTML file: each becomes a node of a tree in memory."""
    pages: int = 20_000
    page_characters: int = 5_000_000
    characters: int = 500_000_000
    """Of all pages that one call gives: a small workbook can name one long text a million times."""
    megapixels: int = 80
    zip_bytes: int = 2 << 30
    """Of everything that is unpacked from one file."""
    zip_ratio: int = 300
    """How many bytes may come of one, once a member is past 16 MiB. Sheets reach 100 in earnest; a bomb has 1000."""
    zip_members: int = 20_000
    stream_bytes: int = 128 << 20
    """Of one stream of a PDF that is no picture, unpacked."""
    attachments: int = 1_000


LIMITS = Limits()


def check_size(path: Path, limits: Limits) -> None:
    """Rejects a file that is empty or larger than it may be."""
    size = path.stat().st_size
    if not size:
        raise Reject("the file is empty: it has no bytes")
    if size > limits.file_bytes:
        raise Reject(f"the file is too large: {in_mib(size)}, and {in_mib(limits.file_bytes)} are allowed; split it")


def check_whole(path: Path, limits: Limits) -> None:
    """Rejects a file that would have to be read as a whole, and is too large for that."""
    size = path.stat().st_size
    if size > limits.whole_bytes:
        raise Reject(
            f"the file is too large to be read as a whole: {in_mib(size)}, and {in_mib(limits.whole_bytes)} are allowed"
        )


def check_pages(count: int, limits: Limits) -> None:
    """Rejects a file that has, or claims to have, more pages than it may."""
    if count > limits.pages:
        raise Reject(f"the file claims {count:,} pages, and {limits.pages:,} are allowed; split it")


def in_mib(size: int) -> str:
    """Says a number of bytes for people."""
    return f"{size / (1 << 20):,.0f} MiB"
