"""Text and Markdown: read unchanged, in the detected encoding."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.parsers.cleaning import PAGE_SIZE, in_pages
from holdfast.pipelines.rag.values import Page

READ_SIZE = 1 << 20
"""Bytes or characters that are read at a time."""
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:  # the signature is that of all parsers
    """Yield the pages after the first `start`. Form feeds and very long texts make more than one page."""
    for number, text in islice(enumerate(in_pages(_pieces(path)), 1), start, None):
        yield Page(number, text)


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Estimate the number of pages: as if each byte were a character."""
    return 1 + path.stat().st_size // PAGE_SIZE


def encoding_of(path: Path) -> str:
    """Detect the encoding of a text: by its byte order mark, by zero bytes, UTF-8 if valid, else Windows-1252."""
    with path.open("rb") as file:
        head = file.read(4096)
        for mark, encoding in BYTE_ORDER_MARKS:
            if head.startswith(mark):
                return encoding
        if b"\x00" in head:
            return "utf-16-le" if head[1::2].count(0) > head[0::2].count(0) else "utf-16-be"
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while piece := file.read(READ_SIZE):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def _pieces(path: Path) -> Iterator[str]:
    with path.open(encoding=encoding_of(path), errors="replace", newline=None) as file:
        while piece := file.read(READ_SIZE):
            yield piece
