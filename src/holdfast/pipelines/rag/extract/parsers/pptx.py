"""PPTX: one page per slide, with its title as label, its tables, its diagrams, its footer and the speaker notes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_pages
from holdfast.pipelines.rag.extract.parsers.cleaning import joined
from holdfast.pipelines.rag.extract.parsers.office_package import OfficePackage, open_package
from holdfast.pipelines.rag.values import Page

TITLES = {"title", "ctrTitle"}
IGNORED_PLACEHOLDERS = {"sldNum", "sldImg", "hdr", "dt"}
"""Placeholders without content: slide number, slide image, header of notes, date."""


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the slides after the first `start`, in presentation order."""
    with open_package(path, limits) as package:
        slides = _slides(package, limits)
        for number, slide in enumerate(slides[start:], start + 1):
            title, lines = _title_and_lines(package, slide)
            for relation in package.relations(slide).values():
                if relation.type in ("diagramData", "notesSlide"):
                    lines.extend(["", *_title_and_lines(package, relation.target)[1]])
            yield Page(number, joined(lines), label=title, last=number == len(slides))


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Return the number of slides."""
    with open_package(path, limits) as package:
        return max(1, len(_slides(package, limits)))


def _slides(package: OfficePackage, limits: ExtractLimits) -> list[str]:
    main = package.main_part("ppt/presentation.xml")
    relations = package.relations(main)
    slides = [
        relations[event.get("r:id")].target
        for event in package.events(main)
        if event.kind == "start" and event.name == "sldId" and event.get("r:id") in relations
    ]
    check_pages(len(slides), limits)
    return slides


def _title_and_lines(package: OfficePackage, part: str) -> tuple[str, list[str]]:
    """Return the title of a slide and its lines."""
    slide = _Slide()
    for event in package.events(part):
        if event.kind == "text":
            slide.add_text(event.name)
        elif event.kind == "start":
            slide.begin(event.name, event.get("type"))
        else:
            slide.end(event.name)
    return slide.title, slide.lines


class _Slide:
    def __init__(self) -> None:
        self.title = ""
        self.lines: list[str] = []
        self._line: list[str] = []
        self._cell: list[str] | None = None
        self._row: list[str] = []
        self._shape = ""
        self._in_text = False

    def begin(self, name: str, type_: str) -> None:
        if name == "t":
            self._in_text = True
        elif name == "sp":
            self._shape = ""
        elif name == "ph":
            self._shape = type_
        elif name == "br":
            self._line.append("\n")
        elif name == "tr":
            self._row = []
        elif name == "tc":
            self._cell = []

    def add_text(self, text: str) -> None:
        if self._in_text:
            self._line.append(text)

    def end(self, name: str) -> None:
        if name == "t":
            self._in_text = False
        elif name == "p":
            self._end_line()
        elif name == "sp":
            self._shape = ""
        elif name == "tc" and self._cell is not None:
            self._row.append(" ".join(self._cell))
            self._cell = None
        elif name == "tr":
            self.lines.append("\t".join(self._row))

    def _end_line(self) -> None:
        line = "".join(self._line).strip()
        self._line.clear()
        if not line or self._shape in IGNORED_PLACEHOLDERS:
            return
        if self._cell is not None:
            self._cell.append(" ".join(line.split()))
            return
        if self._shape in TITLES and not self.title:
            self.title = " ".join(line.split())
        self.lines.append(line)
