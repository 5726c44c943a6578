"""XLSX: a page a sheet, rows as lines and cells between tabs; a very long sheet is several pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from msgspec import Struct

from holdfast.pipelines.rag.limits import Limits, check_pages
from holdfast.pipelines.rag.model import Page
from holdfast.pipelines.rag.parsers.cleaning import SIZE
from holdfast.pipelines.rag.parsers.packages import Package, Relation, open_package
from holdfast.pipelines.rag.parsers.xml import Event

WIDEST_GAP = 16
"""How many tabs stand for cells that are left out: a row of one cell at the far right is not a line of 16,383."""
DATE_FORMATS = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
"""The numbers of the formats for dates and times that every Excel knows."""
NOT_LETTERS = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.')


class Sheet(Struct, frozen=True):
    """A sheet: what people call it, and the part that has its rows."""

    name: str
    part: str


def pages(path: Path, *, start: int, limits: Limits) -> Iterator[Page]:
    """Gives the pages after the first `start`."""
    with open_package(path, limits) as package:
        numbered = enumerate(_all(package, limits), 1)
        for number, (label, text) in islice(numbered, start, None):
            yield Page(number, text, label=label)


def count(path: Path, *, limits: Limits) -> int:
    """Answers how many sheets there are."""
    with open_package(path, limits) as package:
        main = package.main_part("xl/workbook.xml")
        return max(1, len(_sheets(package, main, package.relations(main), limits)))


def _all(package: Package, limits: Limits) -> Iterator[tuple[str, str]]:
    main = package.main_part("xl/workbook.xml")
    relations = package.relations(main)
    sheets = _sheets(package, main, relations, limits)
    cells = _Cells(_strings(package, relations), _date_styles(package, relations), _epoch(package, main))
    for sheet in sheets:
        for text in _in_pages(_rows(package.events(sheet.part), cells)):
            yield sheet.name, text


def _sheets(package: Package, main: str, relations: dict[str, Relation], limits: Limits) -> list[Sheet]:
    sheets = [
        Sheet(event.get("name"), relations[event.get("r:id")].target)
        for event in package.events(main)
        if event.kind == "start" and event.name == "sheet" and event.get("r:id") in relations
    ]
    check_pages(len(sheets), limits)
    return sheets


def _in_pages(rows: Iterable[str]) -> Iterator[str]:
    """Gathers rows into pages. A sheet without rows is a page without text."""
    lines: list[str] = []
    size = given = 0
    for row in rows:
        if lines and size + len(row) > SIZE:
            yield "\n".join(lines)
            lines, size, given = [], 0, given + 1
        lines.append(row)
        size += len(row) + 1
    if lines or not given:
        yield "\n".join(lines)


def _rows(events: Iterable[Event], cells: _Cells) -> Iterator[str]:
    row: list[str] = []
    column, cell, value, in_value = 0, Event("start", "c"), "", False
    for event in events:
        if event.kind == "text":
            if in_value:
                value += event.name
        elif event.kind == "start":
            if event.name == "row":
                row, column = [], 0
            elif event.name == "c":
                at = _column(event.get("r")) or column + 1
                row.extend([""] * min(max(at - column - 1, 0), WIDEST_GAP))
                column, cell, value = at, event, ""
            in_value = event.name in ("v", "t")
        else:
            in_value = False
            if event.name == "c":
                row.append(cells.said(value, cell.get("t"), cell.get("s")))
            elif event.name == "row" and any(row):
                yield "\t".join(row).rstrip("\t")


def _column(reference: str) -> int:
    """Gives the number of a column: 28 for AB7, and 0 for what is no reference."""
    number = 0
    for letter in reference[:3].upper():
        if not "A" <= letter <= "Z":
            break
        number = number * 26 + ord(letter) - 64
    return number


class _Cells:
    """Says what a cell shows: texts are kept apart from it, dates are numbers."""

    def __init__(self, strings: list[str], date_styles: set[int], epoch: datetime) -> None:
        self._strings = strings
        self._date_styles = date_styles
        self._epoch = epoch

    def said(self, value: str, type_: str, style: str) -> str:
        if type_ == "s":
            index = int(value) if value.isdecimal() and len(value) < 10 else -1
            return self._strings[index] if 0 <= index < len(self._strings) else ""
        if type_ == "b":
            return "TRUE" if value == "1" else "FALSE"
        if type_ in ("", "n") and style.isdecimal() and int(style[:9]) in self._date_styles:
            return self._date(value)
        return " ".join(value.split())

    def _date(self, value: str) -> str:
        try:
            days = float(value)
            if not 0 <= days < 2_958_466:  # the end of the year 9999
                return value
            moment = self._epoch + timedelta(seconds=round(days * 86_400))
        except (ValueError, OverflowError):
            return value
        if days < 1:
            return moment.time().isoformat()
        return moment.date().isoformat() if not days % 1 else moment.isoformat(sep=" ")


def _epoch(package: Package, main: str) -> datetime:
    for event in package.events(main):
        if event.kind == "start" and event.name == "workbookPr":
            if event.get("date1904") in ("1", "true"):
                return datetime(1904, 1, 1)  # noqa: DTZ001  # a date on a sheet has no zone
            break
    return datetime(1899, 12, 30)  # noqa: DTZ001


def _part_of(relations: dict[str, Relation], type_: str) -> str:
    return next((relation.target for relation in relations.values() if relation.type == type_), "")


def _strings(package: Package, relations: dict[str, Relation]) -> list[str]:
    """Reads the texts that cells name by number; how Japanese is pronounced (`rPh`) is left out."""
    strings: list[str] = []
    parts: list[str] = []
    in_text, spoken = False, False
    for event in package.events(_part_of(relations, "sharedStrings")):
        if event.kind == "text":
            if in_text and not spoken:
                parts.append(event.name)
            continue
        begins = event.kind == "start"
        in_text = begins and event.name == "t"
        if event.name == "rPh":
            spoken = begins
        elif event.name == "si":
            if not begins:
                strings.append(" ".join("".join(parts).split()))
            parts = []
    return strings


def _date_styles(package: Package, relations: dict[str, Relation]) -> set[int]:
    """Gives the numbers of the cell styles that show a number as a date or a time."""
    formats = set(DATE_FORMATS)
    styles: set[int] = set()
    in_cells, number = False, 0
    for event in package.events(_part_of(relations, "styles")):
        if event.name == "cellXfs":
            in_cells = event.kind == "start"
        if event.kind != "start":
            continue
        named = event.get("numFmtId")
        if not named.isdecimal() or len(named) > 9:
            named = "0"
        if event.name == "numFmt" and re.search("[ymdhs]", NOT_LETTERS.sub("", event.get("formatCode").lower())):
            formats.add(int(named))
        elif event.name == "xf" and in_cells:
            if int(named) in formats:
                styles.add(number)
            number += 1
    return styles
