"""DOC: the text of old Word files, with footnotes, headers and comments. Hard page breaks make pages."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.parsers.cleaning import in_pages, joined
from holdfast.pipelines.rag.extract.parsers.ole_streams import OleStreams, open_ole
from holdfast.pipelines.rag.values import Page

ENCRYPTED, SECOND_TABLE = 0x0100, 0x0200
"""Flags of the header: encrypted; which of two streams has the tables."""
FLAGS, PIECES = 0x0A, 0x01A2
"""Offsets in the header: the flags; the offset and size of the list of pieces."""
COMPRESSED = 0x4000_0000
"""The flag of a piece with one byte for each character."""
FIELD = re.compile("\x13[^\x13\x14\x15]*(?:\x14([^\x13\x14\x15]*))?\x15")
"""A field: its code, and what it shows."""
CHARACTERS = str.maketrans(
    {
        "\x07": "\t",
        "\x0b": "\n",
        "\x0c": "\f",
        "\r": "\n",
        "\x1e": "-",
        "\xa0": " ",
        **dict.fromkeys("\x00\x01\x02\x03\x04\x05\x06\x08\x0e\x1f\x13\x14\x15", ""),
    }
)


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`."""
    with open_ole(path, limits) as ole:
        text = _text(ole)
    parts = (joined(part.split("\n")) for part in in_pages([text]))
    for number, part in islice(enumerate(parts, 1), start, None):
        yield Page(number, part)


def count(path: Path, *, limits: ExtractLimits) -> int:  # the signature is that of all parsers
    """Return 1: the length of the text is not known before it is read."""
    return 1


def _text(ole: OleStreams) -> str:
    main = ole.read("WordDocument")
    try:
        (flags,) = struct.unpack_from("<H", main, FLAGS)
        if flags & ENCRYPTED:
            raise Reject("encrypted; remove the password")
        table = ole.read("1Table" if flags & SECOND_TABLE else "0Table")
        text = "".join(_pieces(main, table))
    except struct.error as error:
        raise Reject(f"broken: the Word file has no readable list of its text ({error})") from error
    for _ in range(20):  # fields inside of fields
        text, changes = FIELD.subn(lambda found: found[1] or "", text)
        if not changes:
            break
    return text.replace("\x07\x07", "\n").translate(CHARACTERS)


def _pieces(main: bytes, table: bytes) -> Iterator[str]:
    """Yield the pieces of text in their order. Each has its offset, and one or two bytes for each character."""
    offset, size = struct.unpack_from("<II", main, PIECES)
    end = min(offset + size, len(table))
    while offset < end and table[offset] == 1:  # formats, before the list of pieces
        (skipped,) = struct.unpack_from("<H", table, offset + 1)
        offset += 3 + skipped
    if offset >= end or table[offset] != 2:
        raise Reject("broken: the Word file has no list of its text; it may be older than Word 97: save it as DOCX")
    (length,) = struct.unpack_from("<I", table, offset + 1)
    listed = table[offset + 5 : offset + 5 + length]
    number = (len(listed) - 4) // 12
    ends = struct.unpack_from(f"<{number + 1}I", listed)
    for index in range(number):
        (place,) = struct.unpack_from("<I", listed, 4 * (number + 1) + 8 * index + 2)
        characters = max(ends[index + 1] - ends[index], 0)
        if place & COMPRESSED:
            begin = (place & ~COMPRESSED) // 2
            yield main[begin : begin + characters].decode("cp1252", errors="replace")
        else:
            yield main[place : place + 2 * characters].decode("utf-16-le", errors="replace")
