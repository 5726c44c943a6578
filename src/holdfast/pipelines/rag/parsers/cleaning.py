"""Text as it can be kept and searched: nothing in it that a store refuses or a reader never sees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

SIZE = 100_000
"""The most characters of a page of what has no pages."""

HYPHENATED = re.compile("[\u00ad\ufffe]\n?")
UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")
UNFIT_ASCII = bytes(code for code in range(128) if UNFIT.match(chr(code)))
SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Gives the text with plain line ends, hyphenated words joined, and without what a store refuses."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        plain = text.encode("ascii")
        return text if len(plain.translate(None, UNFIT_ASCII)) == len(plain) else UNFIT.sub("", text)
    return UNFIT.sub("", SURROGATE.sub("\ufffd", HYPHENATED.sub("", text)))


def in_pages(pieces: Iterable[str]) -> Iterator[str]:
    """Divides a text that comes in pieces into pages: at form feeds, and after 100,000 characters at a paragraph's end.

    Where it is divided depends on the text alone, not on the pieces.
    """
    waiting, given = "", False
    for piece in pieces:
        waiting += piece
        begin = 0
        while len(waiting) - begin > SIZE:
            end = _end_of_page(waiting, begin)
            yield waiting[begin:end]
            begin, given = end + waiting.startswith("\f", end), True
        waiting = waiting[begin:]
    *full, last = waiting.split("\f")
    yield from full
    if last.strip() or not (full or given):
        yield last


def _end_of_page(text: str, begin: int) -> int:
    feed = text.find("\f", begin, begin + SIZE)
    if feed >= 0:
        return feed
    for mark in ("\n\n", "\n", ". ", " "):
        found = text.rfind(mark, begin + SIZE // 2, begin + SIZE)
        if found >= 0:
            return found + len(mark)
    return begin + SIZE


def joined(lines: Iterable[str]) -> str:
    """Joins lines, without the blanks at their ends and with at most one empty line between two."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")
