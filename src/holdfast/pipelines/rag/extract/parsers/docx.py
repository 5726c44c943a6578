"""DOCX: pages as Word broke them, table rows as lines with tabs, notes and comments on the page that refers to them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.parsers.cleaning import joined
from holdfast.pipelines.rag.extract.parsers.office_package import OfficePackage, XmlEvent, open_package
from holdfast.pipelines.rag.values import Page

SKIPPED = {"pPr", "rPr", "tblPr", "tcPr", "trPr", "sectPr", "sdtPr", "moveFrom", "delText", "instrText", "fldData"}
"""Elements whose content is not text of the document: settings, deletions, field codes."""
CHARACTERS = {"tab": "\t", "ptab": "\t", "cr": "\n", "noBreakHyphen": "-"}
NOTES = {"footnoteReference": "footnotes", "endnoteReference": "endnotes", "commentReference": "comments"}


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`."""
    with open_package(path, limits) as package:
        numbered = enumerate(_texts(package), 1)
        for number, text in islice(numbered, start, None):
            yield Page(number, text)


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Return the number of pages that Word counted when it last saved the file."""
    with open_package(path, limits) as package:
        inside = False
        for event in package.events("docProps/app.xml"):
            if event.kind == "text" and inside and event.name.strip().isdecimal():
                return max(1, min(int(event.name.strip()[:9]), limits.pages))
            inside = event.kind == "start" and event.name == "Pages"
    return 1


def _texts(package: OfficePackage) -> Iterator[str]:
    main = package.main_part("word/document.xml")
    relations = package.relations(main).values()
    notes = {
        what: _notes(package, [one.target for one in relations if one.type == what]) for what in set(NOTES.values())
    }
    margins = {
        what: _margins(package, [one.target for one in relations if one.type == what]) for what in ("header", "footer")
    }
    body = _DocxBody(notes)
    first = margins["header"]  # headers go to the first page only
    body.notes_of_page.extend(margins["footer"])
    has_pages = False
    for event in package.events(main):
        body.handle(event)
        if body.page_is_over:
            yield joined([*first, *body.take()])
            first, has_pages = [], True
    last = joined([*first, *body.take()])
    if last or not has_pages:
        yield last


def _margins(package: OfficePackage, parts: list[str]) -> list[str]:
    """Return the texts of headers or footers, each once."""
    found: dict[str, None] = {}
    for part in sorted(set(parts)):
        body = _DocxBody({})
        for event in package.events(part):
            body.handle(event)
        if text := joined(body.take()):
            found[text] = None
    return list(found)


def _notes(package: OfficePackage, parts: list[str]) -> dict[str, str]:
    """Return notes or comments by their id."""
    notes = {}
    for part in parts[:1]:
        name, body = "", _DocxBody({})
        for event in package.events(part):
            body.handle(event)
            if event.name in ("footnote", "endnote", "comment") and event.kind != "text":
                if event.kind == "end":
                    notes[name] = joined(body.take())
                name = event.get("id")
    return notes


class _DocxBody:
    """Collect the lines of a part from its events, and find page breaks."""

    def __init__(self, notes: dict[str, dict[str, str]]) -> None:
        self.lines: list[str] = []
        self.notes_of_page: list[str] = []
        self.page_is_over = False
        self._notes = notes
        self._skipped = 0
        self._in_text = False
        self._line: list[str] = []
        self._outer: list[tuple[list[str], list[str]]] = []  # lines and open line outside a cell or a text box
        self._rows: list[list[str]] = []
        self._boxes: list[str] = []
        self._break_pending = False

    def handle(self, event: XmlEvent) -> None:
        """Handle one event."""
        self.page_is_over = False
        if event.kind == "text":
            if self._in_text and not self._skipped:
                self._line.append(event.name)
        elif event.kind == "start":
            self._start(event)
        else:
            self._end(event.name)

    def take(self) -> list[str]:
        """Return the lines of the page, its notes last, and start the next page."""
        self._end_line()
        lines = [*self.lines, *self.notes_of_page]
        self.lines, self.notes_of_page, self._break_pending, self.page_is_over = [], [], False, False
        return lines

    def _start(self, event: XmlEvent) -> None:
        name = event.name
        if self._skipped or name in SKIPPED:
            self._skipped += 1
            if name == "pageBreakBefore" and event.get("val") not in ("0", "false", "off"):
                self._request_break()
        elif name == "t":
            self._in_text = True
        elif name == "lastRenderedPageBreak" or (name == "br" and event.get("type") == "page"):
            self._request_break()
        elif name in CHARACTERS:
            self._line.append(CHARACTERS[name])
        elif name == "br":
            self._line.append("\n")
        elif name == "tr":
            self._rows.append([])
        elif name in ("tc", "txbxContent"):
            self._outer.append((self.lines, self._line))
            self.lines, self._line = [], []
        elif name in NOTES and (note := self._notes.get(NOTES[name], {}).pop(event.get("id"), "")):
            self.notes_of_page.append(note)

    def _end(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif name == "t":
            self._in_text = False
        elif name == "p":
            self._end_line()
        elif name == "tc" and self._outer:
            text = self._leave()
            if self._rows:
                self._rows[-1].append(" ".join(text.split()))
        elif name == "txbxContent" and self._outer:
            self._boxes.append(self._leave())
        elif name == "tr" and self._rows:
            self.lines.append("\t".join(self._rows.pop()))
            self._break_if_pending()

    def _leave(self) -> str:
        self._end_line()
        text = joined(self.lines)
        self.lines, self._line = self._outer.pop()
        return text

    def _end_line(self) -> None:
        self.lines.append("".join(self._line))
        self._line.clear()
        if not self._outer:
            self.lines.extend(self._boxes)
            self._boxes = []
            self._break_if_pending()

    def _request_break(self) -> None:
        """End the page here; inside a cell or a text box, after it, so that a row is not cut."""
        self._break_pending = True
        self._break_if_pending()

    def _break_if_pending(self) -> None:
        if not self._break_pending or self._outer or self._rows:
            return
        self._break_pending = False
        if "".join(self._line).strip() or any(
            line.strip() for line in self.lines
        ):  # an explicit break and the rendered break beside it count once
            self.page_is_over = True
