"""ODT, ODS and ODP: OpenDocument files. Text with its pages, sheets with cells as they are shown, slides with notes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.parsers.cleaning import PAGE_SIZE, joined
from holdfast.pipelines.rag.extract.parsers.office_package import OfficePackage, XmlEvent, open_package
from holdfast.pipelines.rag.values import Page

CONTENT, MANIFEST = "content.xml", "META-INF/manifest.xml"
PARAGRAPHS = {"p", "h"}
SKIPPED = {"tracked-changes", "forms", "scripts", "font-face-decls", "automatic-styles", "script", "sequence-decls"}
"""Elements whose content is not text of the document: deletions, forms, programs, formats."""
MAX_REPEATED = 16
"""How often an empty or repeated cell is written. Sheets repeat empty cells thousands of times."""


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`: pages of a text, sheets, or slides."""
    with open_package(path, limits) as package:
        for number, (label, text) in islice(enumerate(_parts(package), 1), start, None):
            yield Page(number, text, label=label)


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Return the number of sheets or slides; 1 for a text."""
    with open_package(path, limits) as package:
        return max(1, sum(event.kind == "start" and event.name == "page" for event in _events(package)))


def _parts(package: OfficePackage) -> Iterator[tuple[str, str]]:
    """Yield the parts of a document with their labels. A document without text has one empty part."""
    body = _OdfBody()
    found = False
    for event in _events(package):
        part = body.handle(event)
        if part is not None:
            found = True
            yield part
    label, text = body.take()
    if text or not found:
        yield label, text


def _events(package: OfficePackage) -> Iterator[XmlEvent]:
    if not package.has(CONTENT):
        raise Reject(f"broken: the OpenDocument file has no {CONTENT}")
    if any(event.kind == "start" and event.name == "encryption-data" for event in package.events(MANIFEST)):
        raise Reject("encrypted; remove the password")
    return package.events(CONTENT)


class _OdfBody:
    """Collects lines. A page break, a sheet and a slide end a part."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line: list[str] = []
        self._label = ""
        self._skipped = 0
        self._paragraphs = 0
        self._in_slide = False
        self._cells: list[list[str]] = []
        self._rows: list[list[str]] = []
        self._repeats: list[int] = []
        self._size = 0

    def handle(self, event: XmlEvent) -> tuple[str, str] | None:
        """Read an event. Return a part if it is complete."""
        if event.kind == "text":
            if self._paragraphs and not self._skipped:
                self._line.append(event.name)
        elif event.kind == "start":
            return self._begin(event)
        else:
            return self._end(event.name)
        return None

    def take(self) -> tuple[str, str]:
        """Return the lines since the last part, with their label."""
        self._end_line()
        part = self._label, joined(self._lines)
        self._lines, self._size = [], 0
        return part

    def _begin(self, event: XmlEvent) -> tuple[str, str] | None:
        name = event.name
        if name in SKIPPED or self._skipped:
            self._skipped += 1
        elif name in PARAGRAPHS:
            self._paragraphs += 1
        elif name == "s":
            self._line.append(" " * min(int(event.get("c")[:3]) if event.get("c").isdecimal() else 1, 80))
        elif name in ("tab", "line-break"):
            self._line.append("\t" if name == "tab" else "\n")
        elif name == "table-row":
            self._rows.append([])
        elif name in ("table-cell", "covered-table-cell"):
            repeated = event.get("number-columns-repeated")
            self._repeats.append(min(int(repeated[:7]), MAX_REPEATED) if repeated.isdecimal() else 1)
            self._cells.append([])
        elif name == "table" and not self._rows and not self._in_slide and event.get("name"):
            self._lines.append("")
            if not self._has_text():
                self._label = event.get("name")
        elif name == "page":
            self._in_slide, self._label = True, event.get("name")
        elif name == "soft-page-break" and not self._rows and not self._in_slide and self._has_text():
            return self.take()
        return None

    def _end(self, name: str) -> tuple[str, str] | None:
        if self._skipped:
            self._skipped -= 1
        elif name in PARAGRAPHS:
            self._paragraphs = max(self._paragraphs - 1, 0)
            self._end_line()
        elif name in ("table-cell", "covered-table-cell") and self._cells:
            text = " ".join(" ".join(self._cells.pop()).split())
            if self._rows:
                self._rows[-1].extend([text] * (self._repeats.pop() if self._repeats else 1))
        elif name == "table-row" and self._rows:
            line = "\t".join(self._rows.pop()).rstrip("\t")
            if line.strip():
                self._add(line)
            if self._size > PAGE_SIZE and not self._rows:
                return self.take()
        elif name == "page":
            self._in_slide = False
            return self.take()
        elif name == "table" and self._is_sheet():
            return self.take()
        return None

    def _is_sheet(self) -> bool:
        return not self._rows and not self._in_slide and bool(self._label)

    def _end_line(self) -> None:
        if self._paragraphs:
            return  # a paragraph inside of a paragraph: a note or a text box
        line = "".join(self._line)
        self._line = []
        if self._cells:
            self._cells[-1].append(line)
        elif line.strip():
            self._add(line)

    def _add(self, line: str) -> None:
        if self._cells:
            self._cells[-1].append(line)
        else:
            self._lines.append(line)
            self._size += len(line)

    def _has_text(self) -> bool:
        return any(line.strip() for line in self._lines)
