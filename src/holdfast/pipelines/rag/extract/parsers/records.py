"""CSV, JSON and XML: by their structure. Each row, record or element is a paragraph, with the names of its values.

A file that only looks like one of them, or is broken, is read as text.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any
from xml.parsers import expat

from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.parsers import text as text_parser
from holdfast.pipelines.rag.extract.parsers.cleaning import PAGE_SIZE, in_pages
from holdfast.pipelines.rag.extract.parsers.html import decoded
from holdfast.pipelines.rag.values import Page

MAX_FIELD = 1_000_000
"""Characters of a field of a CSV file, at most. A quote that is not closed would take the rest of the file."""
SAMPLE = 64 * 1024
"""Characters at the start of a CSV file in which its delimiter is found."""
DELIMITERS = ",;\t|"
MAX_DEPTH = 200
"""Nested values and elements, at most."""
NUMBER = re.compile(r"[-+]?[\d.,]+%?|")


class _Unreadable(Exception):
    """The file does not have the structure that it seems to have."""


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`. A page ends at the end of a record, if the records are not very long."""
    paragraphs = _paragraphs(path, limits)
    texts = _in_pages(paragraphs) if paragraphs is not None else None
    if texts is None:
        yield from text_parser.pages(path, start=start, limits=limits)
        return
    for number, text in islice(enumerate(texts, 1), start, None):
        yield Page(number, text)


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Estimate the number of pages: as if each byte were a character."""
    return text_parser.count(path, limits=limits)


def _paragraphs(path: Path, limits: ExtractLimits) -> Iterable[str] | None:
    """Return the records as paragraphs; None if the file is to be read as text."""
    with path.open("rb") as file:
        head = file.read(1024).lstrip(b"\xef\xbb\xbf\xff\xfe\x00 \t\r\n")
    if not head.startswith((b"<", b"{", b"[")):
        return _csv_rows(path)
    if path.stat().st_size > limits.whole_bytes:
        return None
    try:
        if head.startswith(b"<"):
            return _xml_elements(path.read_bytes())
        return _json_records(decoded(path.read_bytes()).lstrip("\ufeff"))
    except (_Unreadable, ValueError, RecursionError, expat.ExpatError):
        return None


def _in_pages(paragraphs: Iterable[str]) -> Iterator[str]:
    """Collect paragraphs into pages."""
    pending: list[str] = []
    size = number = 0
    for paragraph in paragraphs:
        if pending and size + len(paragraph) > PAGE_SIZE:
            yield "\n\n".join(pending)
            pending, size, number = [], 0, number + 1
        rest = paragraph
        if len(paragraph) > PAGE_SIZE:
            *full, rest = in_pages([paragraph])
            yield from full
            number += len(full)
        pending.append(rest)
        size += len(rest) + 2
    if pending or not number:
        yield "\n\n".join(pending)


# CSV -----------------------------------------------------------------------------------------------------------------


def _csv_rows(path: Path) -> Iterator[str]:
    """Yield rows: each value with the name of its column, if the first row has names."""
    with path.open(encoding=text_parser.encoding_of(path), errors="replace", newline="") as file:
        sample = file.read(SAMPLE)
        delimiter = max(DELIMITERS, key=sample.partition("\n")[0].count)
        file.seek(0)
        lines = (line.replace("\x00", "") for line in file)
        csv.field_size_limit(MAX_FIELD)
        rows = _readable(csv.reader(lines, delimiter=delimiter))
        first = next(rows, [])
        names = first if _is_header(first) else None
        if names:
            yield "\t".join(" ".join(name.split()) for name in names)
        for row in rows if names else chain([first], rows):
            if line := _row(row, names):
                yield line


def _readable(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yield rows. A row that the library refuses is left out: its field is too long."""
    while True:
        try:
            yield next(rows)
        except StopIteration:
            return
        except csv.Error:
            continue


def _is_header(row: list[str]) -> bool:
    """Return True if a first row has names: several, all different, none a number."""
    names = [name.strip() for name in row]
    return len(names) > 1 and len(set(names)) == len(names) and not any(NUMBER.fullmatch(name) for name in names)


def _row(row: list[str], names: list[str] | None) -> str:
    values = [" ".join(value.split()) for value in row]
    if names is None or len(values) > len(names):
        return "\t".join(values).strip("\t")
    return "\n".join(f"{name.strip()}: {value}" for name, value in zip(names, values, strict=False) if value)


# JSON ----------------------------------------------------------------------------------------------------------------


def _json_records(text: str) -> list[str]:
    """Return the records of a JSON file, or of a file with one JSON value on each line."""
    try:
        value = json.loads(text)
    except ValueError:
        value = [json.loads(line) for line in text.splitlines() if line.strip()]
    records = value if isinstance(value, list) else [value]
    return [paragraph for record in records if (paragraph := "\n".join(_flat(record, "", 0)))]


def _flat(value: Any, name: str, depth: int) -> Iterator[str]:
    """Yield the values inside of a value as lines, with their names from the outside in."""
    if depth > MAX_DEPTH:
        raise _Unreadable
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, list):
        if value and not any(isinstance(inner, dict | list) for inner in value):
            value = ", ".join(_shown(inner) for inner in value)
            yield f"{name}: {value}" if name else value
            return
        for inner in value:
            yield from _flat(inner, name, depth + 1)
    elif value is not None and value != "":
        yield f"{name}: {_shown(value)}" if name else _shown(value)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# XML -----------------------------------------------------------------------------------------------------------------


def _xml_elements(content: bytes) -> list[str]:
    """Return the elements below the root as paragraphs: each text with the name of its element."""
    reader = _XmlReader()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.EntityDeclHandler = reader.refuse
    parser.StartElementHandler = reader.begin
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.add
    parser.Parse(content, True)  # noqa: FBT003
    return reader.paragraphs


class _XmlReader:
    """Collects texts. An element that has text itself is one line, with what is inside of it."""

    def __init__(self) -> None:
        self.paragraphs: list[str] = []
        self._lines: list[str] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self._owner = 0

    def refuse(self, *_: object) -> None:
        """Refuse entities: they can be made to grow."""
        raise _Unreadable

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        self._open.append(name.rpartition(" ")[2])
        if len(self._open) > MAX_DEPTH:
            raise _Unreadable
        if self._owner:
            self._text.append(" ")
            return
        named = [f"{key.rpartition(' ')[2]}={value}" for key, value in attributes.items() if value.strip()]
        if named:
            self._lines.append(f"{self._open[-1]}: {', '.join(named)}")

    def add(self, text: str) -> None:
        """Add text. The first element that has some owns all until its end."""
        if self._owner or text.strip():
            self._owner = self._owner or len(self._open)
            self._text.append(text)

    def end(self, _name: str) -> None:
        """End an element. One below the root ends a paragraph."""
        name = self._open.pop()
        if self._owner > len(self._open):
            self._lines.append(f"{name}: {' '.join(''.join(self._text).split())}")
            self._text, self._owner = [], 0
        if len(self._open) <= 1 and self._lines:
            self.paragraphs.append("\n".join(self._lines))
            self._lines = []
