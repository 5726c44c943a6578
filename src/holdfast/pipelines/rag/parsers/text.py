"""Text and Markdown: read as they are, in the encoding they turn out to be in."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.pipelines.rag.limits import Limits
from holdfast.pipelines.rag.model import Page
from holdfast.pipelines.rag.parsers.cleaning import SIZE, in_pages

PIECE = 1 << 20
MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def pages(path: Path, *, start: int, limits: Limits) -> Iterator[Page]:  # as all parsers are called
    """Gives the pages after the first `start`; one, unless the text has form feeds or is very long."""
    for number, text in islice(enumerate(in_pages(_pieces(path)), 1), start, None):
        yield Page(number, text)


def count(path: Path, *, limits: Limits) -> int:
    """Answers how many pages there are if every character is a byte."""
    return 1 + path.stat().st_size // SIZE


def encoding_of(path: Path) -> str:
    """Tells the encoding of a text: by its mark, by its zeros, as UTF-8 if all of it is, else as Windows had it."""
    with path.open("rb") as file:
        head = file.read(4096)
        for mark, encoding in MARKS:
            if head.startswith(mark):
                return encoding
        if b"\x00" in head:
            return "utf-16-le" if head[1::2].count(0) > head[0::2].count(0) else "utf-16-be"
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while piece := file.read(PIECE):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def _pieces(path: Path) -> Iterator[str]:
    with path.open(encoding=encoding_of(path), errors="replace", newline=None) as file:
        while piece := file.read(PIECE):
            yield piece
