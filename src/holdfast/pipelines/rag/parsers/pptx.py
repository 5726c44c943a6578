"""PPTX: a page a slide, with its title as label, its tables, its diagrams and the speaker's notes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.pipelines.rag.limits import Limits, check_pages
from holdfast.pipelines.rag.model import Page
from holdfast.pipelines.rag.parsers.cleaning import joined
from holdfast.pipelines.rag.parsers.packages import Package, open_package

TITLES = {"title", "ctrTitle"}
FURNITURE = {"sldNum", "sldImg", "hdr", "ftr", "dt"}
"""Placeholders that say nothing: the number of the slide, its picture, the date."""


def pages(path: Path, *, start: int, limits: Limits) -> Iterator[Page]:
    """Gives the slides after the first `start`, in the order they are shown."""
    with open_package(path, limits) as package:
        slides = _slides(package, limits)
        for number, slide in enumerate(slides[start:], start + 1):
            title, lines = _said(package, slide)
            for relation in package.relations(slide).values():
                if relation.type in ("diagramData", "notesSlide"):
                    lines.extend(["", *_said(package, relation.target)[1]])
            yield Page(number, joined(lines), label=title, last=number == len(slides))


def count(path: Path, *, limits: Limits) -> int:
    """Answers how many slides there are."""
    with open_package(path, limits) as package:
        return max(1, len(_slides(package, limits)))


def _slides(package: Package, limits: Limits) -> list[str]:
    main = package.main_part("ppt/presentation.xml")
    relations = package.relations(main)
    slides = [
        relations[event.get("r:id")].target
        for event in package.events(main)
        if event.kind == "start" and event.name == "sldId" and event.get("r:id") in relations
    ]
    check_pages(len(slides), limits)
    return slides


def _said(package: Package, part: str) -> tuple[str, list[str]]:
    """Gives the title of a slide, and its lines."""
    slide = _Slide()
    for event in package.events(part):
        if event.kind == "text":
            slide.hear(event.name)
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

    def hear(self, text: str) -> None:
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
        if not line or self._shape in FURNITURE:
            return
        if self._cell is not None:
            self._cell.append(" ".join(line.split()))
            return
        if self._shape in TITLES and not self.title:
            self.title = " ".join(line.split())
        self.lines.append(line)
