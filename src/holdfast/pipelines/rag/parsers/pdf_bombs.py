"""Finds streams in a PDF that unpack beyond all measure, before PDFium unpacks them.

A look, not a proof: a stream can be hidden in ways that only a whole parser sees. What gets past it meets the limits
of the process that reads it.
"""

from __future__ import annotations

import mmap
import re
import zlib
from pathlib import Path

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.limits import Limits, in_mib

BEGIN = re.compile(rb"stream\r?\n(?=[\x08-\x78][\x01\x5e\x9c\xda\xd5\xd4])")
"""Where a stream begins that is packed with Flate, as nearly all are."""
SHORT = 16 * 1024
"""A stream that is packed once and no longer than this comes to 16 MiB at most."""
DENSE = 300
"""How many bytes must come of one to look further. Blank scans come to 1000."""
PIECE = 1 << 20


def check_streams(path: Path, limits: Limits) -> None:
    """Rejects a PDF with a stream that unpacks to more than a page can need."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for found in BEGIN.finditer(content):
            begin = found.end()
            end = content.find(b"endstream", begin)
            end = len(content) if end < 0 else end
            words = content[max(0, found.start() - 400) : found.start()].rpartition(b" obj")[2]
            twice = words.count(b"/FlateDecode") + words.count(b"/Fl ") > 1
            if end - begin > SHORT or twice:
                most = 3_000_000 * limits.megapixels if b"/Image" in words else limits.stream_bytes
                _check(content[begin:end], most, layers=2 if twice else 1)


def _check(packed: bytes, most: int, *, layers: int) -> None:
    if layers == 1 and len(_unpacked(packed[:4096])) < DENSE * 4096:
        return
    given = 0
    outer, inner = zlib.decompressobj(), zlib.decompressobj()
    try:
        while packed and not outer.eof:
            piece = outer.decompress(packed, PIECE)
            packed = outer.unconsumed_tail
            given += len(piece)
            while layers > 1 and piece and not inner.eof and given <= most:
                given += len(inner.decompress(piece, PIECE))
                piece = inner.unconsumed_tail
            if given > most:
                raise Reject(f"a stream in the PDF unpacks to more than {in_mib(most)}; it may be made to harm")
    except zlib.error:
        return  # no such stream after all, or broken: the parser will say


def _unpacked(head: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(head, DENSE * 4096)
    except zlib.error:
        return b""
