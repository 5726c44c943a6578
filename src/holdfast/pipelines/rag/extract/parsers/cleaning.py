"""Clean texts and names of attachments.

Remove what a store refuses or a reader never sees, divide long texts into pages, and make names safe and unique.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from holdfast.core.errors import Reject

PAGE_SIZE = 100_000
"""Characters of a page, at most, in formats that have no pages."""

HYPHENATED = re.compile("[\u00ad\ufffe]\n?")
REMOVED = re.compile("[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]")
REMOVED_ASCII = bytes(code for code in range(128) if REMOVED.match(chr(code)))
SURROGATE = re.compile("[\ud800-\udfff]")
MAX_NAME_LENGTH = 150
"""Characters of a name, at most; its extension is kept."""


def clean(text: str) -> str:
    """Return the text with \\n line ends, without soft hyphens, and without characters that a store refuses."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        plain = text.encode("ascii")
        return text if len(plain.translate(None, REMOVED_ASCII)) == len(plain) else REMOVED.sub("", text)
    return REMOVED.sub("", SURROGATE.sub("\ufffd", HYPHENATED.sub("", text)))


def in_pages(pieces: Iterable[str]) -> Iterator[str]:
    """Divide a text that comes in pieces into pages: at form feeds, and after PAGE_SIZE characters at a paragraph end.

    The pages depend on the text only, not on the pieces.
    """
    pending, has_pages = "", False
    for piece in pieces:
        pending += piece
        begin = 0
        while len(pending) - begin > PAGE_SIZE:
            end = _end_of_page(pending, begin)
            yield pending[begin:end]
            begin, has_pages = end + pending.startswith("\f", end), True
        pending = pending[begin:]
    *full, last = pending.split("\f")
    yield from full
    if last.strip() or not (full or has_pages):
        yield last


def _end_of_page(text: str, begin: int) -> int:
    feed = text.find("\f", begin, begin + PAGE_SIZE)
    if feed >= 0:
        return feed
    for mark in ("\n\n", "\n", ". ", " "):
        found = text.rfind(mark, begin + PAGE_SIZE // 2, begin + PAGE_SIZE)
        if found >= 0:
            return found + len(mark)
    return begin + PAGE_SIZE


def joined(lines: Iterable[str]) -> str:
    """Join lines. Remove blanks at line ends, and leave at most one empty line between two lines."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")


class AttachmentNames:
    """Give each attachment of a message a unique name, and limit their number."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used: set[str] = set()

    def unique(self, name: str) -> str:
        """Return the name without folders and control characters; a second `name` becomes `name (2)`."""
        if len(self._used) >= self._limit:
            raise Reject(f"the message has more than {self._limit:,} attachments")
        safe = PurePosixPath(_safe(name))
        chosen, number = str(safe), 1
        while chosen.casefold() in self._used:
            number += 1
            chosen = f"{safe.stem} ({number}){safe.suffix}"
        self._used.add(chosen.casefold())
        return chosen


def _safe(name: str) -> str:
    last = re.split(r"[/\\]", clean(name))[-1]
    last = re.sub(r'[\s:*?"<>|\ufffd]+', " ", last).strip(" .")
    if len(last) > MAX_NAME_LENGTH:
        stem, dot, suffix = last.rpartition(".")
        last = f"{stem[:MAX_NAME_LENGTH]}.{suffix}" if dot and len(suffix) < 10 else last[:MAX_NAME_LENGTH]
    return last or "attachment"
