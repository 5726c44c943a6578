"""Parse the structure of Markdown that decides where to split: headings, fences, tables, paragraphs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

Span = tuple[int, int]

HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t](.*))?$")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
TINY_SECTION = 10
"""A section that is shorter than a chunk divided by this is put together with the next section."""


class Block(Struct, frozen=True):
    """Lines that belong together. `level` is 0 unless it is a heading. A `whole` block is split only at line ends."""

    start: int
    end: int
    level: int = 0
    title: str = ""
    whole: bool = False


def spans_of(text: str, size: int, overlap: int) -> Iterator[Span]:
    """Yield start and end of each chunk, with the white space around it."""
    for section in _sections(list(blocks_of(text)), size):
        yield from _packed(text, section, size, overlap)


def heading_path(text: str, at: int) -> tuple[str, ...]:
    """Return the headings above a position of a text, the outermost first."""
    path: list[Block] = []
    for block in blocks_of(text):
        if block.start > at:
            break
        if block.level:
            path = [*(outer for outer in path if outer.level < block.level), block]
    return tuple(heading.title for heading in path)


def blocks_of(text: str) -> Iterator[Block]:
    """Yield headings, fences, tables and paragraphs in order. Together they are the whole text."""
    lines = _Lines(text)
    while (line := lines.peek()) is not None:
        start = lines.at
        if heading := HEADING.match(line.rstrip("\r\n")):
            lines.take()
            yield Block(start, lines.at, len(heading[1]), _title(heading[2] or ""))
        elif fence := FENCE.match(line):
            lines.take_fence(fence[1])
            yield Block(start, lines.at, whole=True)
        elif line.lstrip().startswith("|"):
            lines.take_while(lambda row: row.lstrip().startswith("|"))
            yield Block(start, lines.at, whole=True)
        else:
            lines.take_paragraph()
            yield Block(start, lines.at)


def _title(heading: str) -> str:
    """Return the text of a heading without closing #. One regular expression would take quadratic time."""
    heading = heading.strip(" \t")
    bare = heading.rstrip("#")
    return bare.rstrip(" \t") if not bare or bare[-1] in " \t" else heading


class _Lines:
    """The lines of a text, taken one after another. Only \\n ends a line: form feeds are text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def peek(self) -> str | None:
        return self._text[self.at : self._next()] if self.at < len(self._text) else None

    def take(self) -> None:
        self.at = self._next()

    def take_while(self, wanted: Callable[[str], bool]) -> None:
        while (line := self.peek()) is not None and wanted(line):
            self.take()

    def take_fence(self, mark: str) -> None:
        """Take a code block up to its closing fence: the same character, at least as often, alone. Else the rest."""
        self.take()
        while (line := self.peek()) is not None:
            self.take()
            closing = line.strip()
            if len(closing) >= len(mark) and not closing.strip(mark[0]):
                return

    def take_paragraph(self) -> None:
        """Take lines up to and including blank lines, or up to another kind of block."""
        blank = False
        while (line := self.peek()) is not None:
            if line.strip() and (blank or _begins_block(line)):
                return
            blank = blank or not line.strip()
            self.take()

    def _next(self) -> int:
        end = self._text.find("\n", self.at)
        return len(self._text) if end < 0 else end + 1


def _begins_block(line: str) -> bool:
    return bool(HEADING.match(line.rstrip("\r\n")) or FENCE.match(line)) or line.lstrip().startswith("|")


def _sections(blocks: Sequence[Block], size: int) -> Iterator[list[Block]]:
    """Begin a section at each heading of level 1 to 3, unless the section before it is tiny."""
    section: list[Block] = []
    for block in blocks:
        if section and 1 <= block.level <= 3 and (block.start - section[0].start) * TINY_SECTION >= size:
            yield section
            section = []
        section.append(block)
    if section:
        yield section


def _packed(text: str, section: Sequence[Block], size: int, overlap: int) -> Iterator[Span]:
    """Put whole blocks together while they fit. The next chunk begins with as many of them as may overlap."""
    from holdfast.pipelines.rag.chunk.splitters import split_recursive

    kept: list[Block] = []
    for block in section:
        if kept and block.end - kept[0].start > size:
            yield kept[0].start, kept[-1].end
            while kept and (kept[-1].end - kept[0].start > overlap or block.end - kept[0].start > size):
                kept.pop(0)
        if block.end - block.start <= size:
            kept.append(block)
            continue
        separators = ("\n", " ", "") if block.whole else ("\n", ". ", " ", "")
        for start, end in split_recursive(text[block.start : block.end], size, overlap, separators):
            yield block.start + start, block.start + end
        kept = []
    if kept:
        yield kept[0].start, kept[-1].end
