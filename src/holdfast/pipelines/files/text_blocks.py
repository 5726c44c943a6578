"""Cut the bytes of a text file into blocks of whole records, and convert each block.

A block is converted as a whole. If something in it does not fit, it is read again record by record: the bad records are
set aside, and the others are converted. Both ways give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any, Protocol

from msgspec import Struct

from holdfast.pipelines.files.byte_stream import ByteStream
from holdfast.pipelines.files.values import MAX_RAW, FilePosition, RecordBlock, SetAside

READ = 256 * 1024
FIRST_AVERAGE = 200.0
"""Bytes of a record, as long as nothing is known."""


MARGIN = 0.95
"""Blocks are a little smaller than their number of records allows: then few of them have to be cut."""
NO_LIMIT = 1 << 62


class Parsed(Struct):
    """What was read from a part of a file: rows, and how far it reached. A size of 0: the part ends too early."""

    rows: Sequence[tuple[Any, ...]]
    total: int
    filtered: int
    size: int
    lines: int
    aside: Sequence[SetAside] = ()
    table: Any = None


class TextFormat(Protocol):
    """A format of text files."""

    def cut(self, buffer: bytes, limit: int) -> int:
        """Return where the last record before the limit seems to end; 0 if there is no such place."""

    def parse(self, part: bytes) -> Parsed | None:
        """Convert a part as a whole. Return None if it has to be read record by record."""

    def parse_records(self, part: bytes, at: FilePosition, *, final: bool, limit: int) -> Parsed:
        """Read a part record by record.

        Args:
            part: The part. It begins with a record.
            at: Where it is in the file.
            final: True if nothing follows.
            limit: How many records to read at most.
        """


class Pace:
    """How many records are committed together.

    Without a number, a commit begins with 1,000 records and grows until it takes about a quarter of a second. So the
    cost of commits stays small, and a kill repeats less than a second of work.
    """

    FIRST = 1000
    LARGEST = 20_000
    SHORT = 0.12
    LONG = 0.4

    def __init__(self, every: int | None = None) -> None:
        self.every = every
        self.records = every or self.FIRST
        self._began = monotonic()

    def committed(self) -> None:
        """Adapt to the time since the last commit."""
        now = monotonic()
        took, self._began = now - self._began, now
        if self.every is None:
            if took < self.SHORT:
                self.records = min(self.records * 2, self.LARGEST)
            elif took > self.LONG:
                self.records = max(self.records // 2, self.FIRST)


def text_blocks(
    stream: ByteStream, at: FilePosition, form: TextFormat, pace: Pace, *, max_record: int
) -> Iterator[tuple[FilePosition, RecordBlock]]:
    """Yield blocks of records, each with the progress after it.

    Args:
        stream: The stream, which is at the offset of `at`.
        at: Where to start.
        form: The format.
        pace: How many records a block has.
        max_record: Bytes of the longest record.
    """
    buffer, average, ended, least = b"", FIRST_AVERAGE, False, 0
    while True:
        want = max(int(pace.records * average * MARGIN), least, 1)
        while len(buffer) <= want and not ended:
            part = stream.read(max(want - len(buffer), READ))
            ended = not part
            buffer = buffer + part if buffer else part
        if not buffer:
            return
        is_rest = ended and len(buffer) <= want
        end = len(buffer) if is_rest else form.cut(buffer, want)
        parsed = form.parse(buffer[:end]) if end else None
        if parsed is None or (pace.every and parsed.total > pace.every):
            end = len(buffer) if is_rest else _end_of_lines(buffer, want)
            limit = pace.every or NO_LIMIT
            parsed = form.parse_records(buffer[:end], at, final=is_rest, limit=limit) if end else None
        if parsed is None or not parsed.size:
            if want < max_record and not is_rest:
                least = max(want, READ) * 2
                continue
            parsed = _without_first_line(buffer, at, max_record)
        records = max(parsed.total, 1)
        average, least = max(parsed.size / records, 1.0), 0
        stream.consumed(memoryview(buffer)[: parsed.size])
        buffer = buffer[parsed.size :]
        at = FilePosition(
            at.offset + parsed.size,
            at.line + parsed.lines,
            at.total + parsed.total,
            at.aside + len(parsed.aside),
            stream.check(),
        )
        yield (
            at,
            RecordBlock(
                parsed.rows,
                total=parsed.total,
                filtered=parsed.filtered,
                aside=parsed.aside,
                table=parsed.table,
            ),
        )


def _end_of_lines(buffer: bytes, limit: int) -> int:
    """Return the end of the last line before a limit; 0 if there is none."""
    return buffer.rfind(b"\n", 0, limit) + 1


def _without_first_line(buffer: bytes, at: FilePosition, longest: int) -> Parsed:
    """Set the first line aside, because its record does not end."""
    size = buffer.find(b"\n") + 1 or len(buffer)
    reason = f"the record that begins here does not end within {longest:,} bytes: is a quote never closed?"
    return Parsed((), 1, 0, size, 1, [set_aside(at, 0, 0, reason, buffer[:size])])


def set_aside(at: FilePosition, line: int, offset: int, reason: str, raw: bytes) -> SetAside:
    """Return a record that is set aside. Line and offset are counted from the start of its part."""
    return SetAside(at.line + line + 1, at.offset + offset, reason, raw[:MAX_RAW])
