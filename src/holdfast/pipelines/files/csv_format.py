"""CSV and TSV: the dialect of a file, and its records.

The csv module of Python says what a record is. It reads quoted newlines, and its strict mode refuses damaged quotes.
"""

from __future__ import annotations

import csv
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from holdfast.pipelines.files.byte_stream import open_stream
from holdfast.pipelines.files.columns import unique_names
from holdfast.pipelines.files.text_blocks import Parsed, set_aside
from holdfast.pipelines.files.values import FileOptions, FilePosition, FileRefused, Refusal, SetAside

SAMPLE = 1 << 20
DELIMITERS = ",;\t|"
BOM = b"\xef\xbb\xbf"
QUOTE = b'"'


class Converter(Protocol):
    """Convert records to rows."""

    def convert_all(self, records: Sequence[Sequence[str]]) -> Sequence[tuple[Any, ...]]:
        """Return the rows of many records. Raise ValueError if one cannot be converted."""

    def convert(self, record: Sequence[str]) -> Sequence[tuple[Any, ...]]:
        """Return the rows of one record. Raise Refusal if it cannot be converted."""

    @property
    def is_one_to_one(self) -> bool:
        """True if each record is one row."""


class CsvHead(Struct, frozen=True):
    """The start of a CSV file.

    Attributes:
        delimiter: Its delimiter.
        header: The fields of its first record, as they are.
        names: The names of its columns.
        offset: Bytes before the first record of data.
        lines: Lines before it.
        sample: The first records of data.
    """

    delimiter: str
    header: Sequence[str]
    names: Sequence[str]
    offset: int
    lines: int
    sample: Sequence[Sequence[str]]


def read_head(path: Path, options: FileOptions, *, records: int = 0) -> CsvHead | None:
    """Return the start of a file with its header; None if the file is empty.

    Args:
        path: The file.
        options: How it is read.
        records: How many records of data the sample has at most.
    """
    _allow_long_fields(options.max_record)
    with open_stream(path, encoding=options.encoding) as stream:
        start = b""
        while len(start) < (SAMPLE if records else 64 * 1024) and (part := stream.read(SAMPLE)):
            start += part
        encoding = stream.encoding
    offset = len(BOM) if start.startswith(BOM) else 0
    lines = start[offset:].splitlines(keepends=True)
    texts = [line.decode(encoding, "surrogateescape") for line in lines]
    skipped = 0
    delimiter = options.delimiter
    if texts and texts[0].lower().startswith("sep=") and len(texts[0].rstrip("\r\n")) == 5:
        delimiter, skipped = delimiter or texts[0][4], 1  # written by Excel
    while skipped < len(texts) and not texts[skipped].strip():
        skipped += 1
    if skipped == len(texts):
        return None
    delimiter = delimiter or ("\t" if _is_tsv(path) else _delimiter(texts[skipped]))
    counted = _CountedLines(texts, skipped)
    reader = csv.reader(counted, delimiter=delimiter)
    try:
        header = next(reader)
    except csv.Error as error:
        raise FileRefused(f"the header of {path} cannot be read: {error}") from error
    if any("\0" in name for name in header):
        raise FileRefused(f"the header of {path} has a NUL character: it is no CSV file, or has another encoding")
    if any("\udc80" <= char <= "\udcff" for name in header for char in name):
        raise FileRefused(f"the header of {path} is not {encoding}: give its encoding with --encoding")
    used = counted.taken
    offset += sum(map(len, lines[:used]))
    return CsvHead(delimiter, header, unique_names(header), offset, used, _sample(reader, records))


def _sample(reader: Iterator[list[str]], records: int) -> list[list[str]]:
    """Return the first records. The last one may be cut, so it is left out if there are more than a few."""
    try:
        found = [record for record in islice(reader, records + 1) if record]
    except csv.Error:
        return []
    return found[:records] if len(found) > records or len(found) < 3 else found


def _is_tsv(path: Path) -> bool:
    return ".tsv" in [suffix.lower() for suffix in path.suffixes]


def _delimiter(line: str) -> str:
    """Return the delimiter of a header: the one that it has most often outside of quotes."""
    plain = "".join(line.split('"')[::2])
    return max(DELIMITERS, key=lambda char: (plain.count(char), -DELIMITERS.index(char)))


def _allow_long_fields(size: int) -> None:
    """Raise the limit of the csv module, which is one for the process, to the longest record."""
    if csv.field_size_limit() < size:
        csv.field_size_limit(size)


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the search for cycles: records are many lists without cycles, and looking at them took a quarter of a load.

    It is one for the process. If another thread turns it on again meanwhile, this only costs time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _CountedLines:
    """Lines, and how many of them were taken."""

    def __init__(self, lines: Sequence[str], first: int = 0) -> None:
        self._lines = lines
        self.taken = first

    def __iter__(self) -> _CountedLines:
        return self

    def __next__(self) -> str:
        if self.taken == len(self._lines):
            raise StopIteration
        self.taken += 1
        return self._lines[self.taken - 1]


class CsvFormat:
    """The records of a CSV file, as a format of texts."""

    def __init__(
        self,
        head: CsvHead,
        converter: Converter,
        *,
        encoding: str = "utf-8",
        fast: Callable[[bytes], Parsed | None] | None = None,
    ) -> None:
        self.head = head
        self.converter = converter
        self.encoding = encoding
        self.fast = fast
        self._header = list(head.header)
        self._width = len(self._header)

    def cut(self, buffer: bytes, limit: int) -> int:
        """Return the end of the last line before the limit that is outside of quotes, if quotes are in pairs."""
        end = buffer.rfind(b"\n", 0, limit) + 1
        if not end and b"\n" not in buffer:
            end = buffer.rfind(b"\r", 0, min(limit, len(buffer) - 1)) + 1  # lines that end with CR alone
        is_open = buffer.count(QUOTE, 0, end) % 2
        while is_open and end:
            before = buffer.rfind(b"\n", 0, end - 1) + 1
            is_open ^= buffer.count(QUOTE, before, end) % 2
            end = before
        return end

    def parse(self, part: bytes) -> Parsed | None:
        if self.fast is not None and (parsed := self.fast(part)) is not None:
            return parsed
        with without_collector():
            return self._parse(part)

    def _parse(self, part: bytes) -> Parsed | None:
        try:
            text = part.decode(self.encoding)
            if "\0" in text:
                return None
            reader = csv.reader(StringIO(text, newline=""), delimiter=self.head.delimiter, strict=True)
            records = list(reader)  # an open quote at the end is an error: then the part ends within a record
        except (UnicodeDecodeError, csv.Error):
            return None
        widths = set(map(len, records))
        if 0 in widths:
            records = [record for record in records if record]
            widths.discard(0)
        if not records:
            return Parsed((), 0, 0, len(part), reader.line_num)
        if widths != {self._width} or self._header in records:
            return None
        try:
            rows = self.converter.convert_all(records)
        except ValueError:
            return None
        filtered = 0 if self.converter.is_one_to_one else max(len(records) - len(rows), 0)
        return Parsed(rows, len(records), filtered, len(part), reader.line_num)

    def parse_records(self, part: bytes, at: FilePosition, *, final: bool, limit: int) -> Parsed:
        lines = part.splitlines(keepends=True)
        offsets = [0]
        for line in lines:
            offsets.append(offsets[-1] + len(line))
        rows: list[tuple[Any, ...]] = []
        aside: list[SetAside] = []
        total = filtered = start = 0
        for begin, end, record, error in self._records(lines, final=final):
            if total == limit:
                break
            raw = part[offsets[begin] : offsets[end]]
            start = end
            if record == []:
                continue
            total += 1
            try:
                made = self._row(raw, record, error)
                rows += made
                filtered += not made
            except Refusal as refusal:
                aside.append(set_aside(at, begin, offsets[begin], str(refusal), raw))
        return Parsed(rows, total, filtered, offsets[start], start, aside)

    def _records(self, lines: Sequence[bytes], *, final: bool) -> Iterator[tuple[int, int, list[str], str]]:
        """Yield records with their first line, the line after them, and what is wrong with their quotes.

        After damaged quotes, reading goes on with the next line: a quote that is never closed would take all others. A
        record at the end that is not complete is left out, unless nothing follows.
        """
        texts = [line.decode(self.encoding, "surrogateescape") for line in lines]
        first = 0
        while first < len(texts):
            counted = _CountedLines(texts, first)
            reader = csv.reader(counted, delimiter=self.head.delimiter, strict=True)
            try:
                for record in reader:
                    yield first, counted.taken, record, ""
                    first = counted.taken
            except csv.Error as error:
                if counted.taken == len(texts) and not final:
                    return
                yield first, first + 1, [""], f"its quotes are damaged, or a quote is never closed ({error})"
                first += 1

    def _row(self, raw: bytes, record: list[str], error: str) -> Sequence[tuple[Any, ...]]:
        if error:
            raise Refusal(error)
        try:
            raw.decode(self.encoding)
        except UnicodeDecodeError as wrong:
            raise Refusal(
                f"byte {raw[wrong.start]:#04x} at place {wrong.start} of the record is not "
                f"{self.encoding.upper()}; if the whole file has another encoding, give it with --encoding"
            ) from wrong
        if b"\0" in raw:
            raise Refusal("it has a NUL character, which no text in a database can have")
        if len(record) != self._width:
            raise Refusal(f"it has {len(record)} {_fields(len(record))}, and the header has {self._width}")
        if record == self._header:
            raise Refusal("it repeats the header")
        return self.converter.convert(record)


def _fields(count: int) -> str:
    return "field" if count == 1 else "fields"
