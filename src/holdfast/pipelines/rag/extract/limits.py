"""Limits for files. A file beyond them counts as hostile or broken, and is rejected with a reason."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from holdfast.core.errors import Reject

DEFAULT_OCR_LANGUAGES = ("eng",)
"""The languages in which pictures are read if a collection names no others."""


class ExtractLimits(Struct, frozen=True, kw_only=True):
    """Maximum sizes and counts of one file. Real documents stay far below; decompression bombs do not."""

    file_bytes: int = 500 << 20
    whole_bytes: int = 64 << 20
    """Bytes of a file that is parsed in memory as a whole: HTML, e-mail. The tree takes many times that memory."""
    tags: int = 2_000_000
    """Tags of an HTML file. Each becomes a node of a tree in memory."""
    pages: int = 20_000
    page_characters: int = 5_000_000
    characters: int = 500_000_000
    """Characters of all pages of one call. A small workbook can refer to one long text a million times."""
    megapixels: int = 80
    """Of one picture."""
    zip_bytes: int = 2 << 30
    """Bytes of everything that is unpacked from one file."""
    zip_ratio: int = 300
    """Unpacked bytes per packed byte, checked after 16 MiB of a member. Real sheets reach 100, bombs 1000."""
    zip_members: int = 20_000
    stream_bytes: int = 128 << 20
    """Unpacked bytes of one stream of a PDF, except pictures."""
    attachments: int = 1_000
    ocr_languages: tuple[str, ...] = DEFAULT_OCR_LANGUAGES
    """Not a limit: the languages in which pictures are read, by Tesseract's names. Every parser gets its limits."""


LIMITS = ExtractLimits()


def check_size(path: Path, limits: ExtractLimits) -> None:
    """Reject a file that is empty or too large."""
    size = path.stat().st_size
    if not size:
        raise Reject("the file is empty: it has no bytes")
    if size > limits.file_bytes:
        raise Reject(f"the file is too large: {in_mib(size)}, and {in_mib(limits.file_bytes)} are allowed; split it")


def check_whole(path: Path, limits: ExtractLimits) -> None:
    """Reject a file that has to be parsed in memory as a whole and is too large for that."""
    size = path.stat().st_size
    if size > limits.whole_bytes:
        raise Reject(
            f"the file is too large to be read as a whole: {in_mib(size)}, and {in_mib(limits.whole_bytes)} are allowed"
        )


def check_pages(count: int, limits: ExtractLimits) -> None:
    """Reject a file that has, or claims to have, too many pages."""
    if count > limits.pages:
        raise Reject(f"the file claims to have {count:,} pages, and at most {limits.pages:,} are allowed; split it")


def in_mib(size: int) -> str:
    """Format a number of bytes in MiB."""
    return f"{size / (1 << 20):,.0f} MiB"
