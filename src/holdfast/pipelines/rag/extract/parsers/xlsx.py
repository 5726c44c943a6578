"""XLSX: one page per sheet, rows as lines with tabs between cells. A very long sheet has several pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import chain, islice
from math import isfinite
from pathlib import Path

from msgspec import Struct

from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_pages
from holdfast.pipelines.rag.extract.parsers.cleaning import PAGE_SIZE
from holdfast.pipelines.rag.extract.parsers.office_package import OfficePackage, Relation, XmlEvent, open_package
from holdfast.pipelines.rag.values import Page

MAX_GAP = 16
"""Tabs for empty cells, at most: a row with one cell at the far right does not get 16,383 tabs."""
DATE_FORMATS = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}
"""The numbers of Excel's built-in date and time formats."""
NUMBER_FORMATS = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    37: "#,##0",
    38: "#,##0",
    39: "#,##0.00",
    40: "#,##0.00",
}
"""Excel's built-in formats of numbers, by their numbers."""
DIGITS = re.compile(r"([#0,?]*[0#])(?:\.([0#?]+))?")
CURRENCY = re.compile(r'\[\$([^\]-]+)[^\]]*\]|"\s*([$€£¥]|[A-Z]{3})\s*"|([$€£¥])')
MAX_DIGITS = 400
SHORT_NUMBER = 15
"""Characters. A number that is not longer is shown as the file has it."""
MAX_FORMATTED = 1e15
"""Numbers from here on have more digits than are exact."""
NOT_LETTERS = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.|_.')


class Sheet(Struct, frozen=True):
    """A sheet: its name, and the part with its rows."""

    name: str
    part: str


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`."""
    with open_package(path, limits) as package:
        numbered = enumerate(_labelled_pages(package, limits), 1)
        for number, (label, text) in islice(numbered, start, None):
            yield Page(number, text, label=label)


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Return the number of sheets."""
    with open_package(path, limits) as package:
        main = package.main_part("xl/workbook.xml")
        return max(1, len(_sheets(package, main, package.relations(main), limits)))


def _labelled_pages(package: OfficePackage, limits: ExtractLimits) -> Iterator[tuple[str, str]]:
    main = package.main_part("xl/workbook.xml")
    relations = package.relations(main)
    sheets = _sheets(package, main, relations, limits)
    formatter = _CellFormatter(_strings(package, relations), _formats(package, relations), _epoch(package, main))
    for sheet in sheets:
        lines = chain(_rows(package.events(sheet.part), formatter), _notes(package, sheet.part))
        for text in in_pages(lines):
            yield sheet.name, text


def _sheets(package: OfficePackage, main: str, relations: dict[str, Relation], limits: ExtractLimits) -> list[Sheet]:
    sheets = [
        Sheet(event.get("name"), relations[event.get("r:id")].target)
        for event in package.events(main)
        if event.kind == "start" and event.name == "sheet" and event.get("r:id") in relations
    ]
    check_pages(len(sheets), limits)
    return sheets


def in_pages(rows: Iterable[str]) -> Iterator[str]:
    """Collect rows into pages. A sheet without rows is one page without text."""
    lines: list[str] = []
    size = page_count = 0
    for row in rows:
        if lines and size + len(row) > PAGE_SIZE:
            yield "\n".join(lines)
            lines, size, page_count = [], 0, page_count + 1
        lines.append(row)
        size += len(row) + 1
    if lines or not page_count:
        yield "\n".join(lines)


def _rows(events: Iterable[XmlEvent], formatter: _CellFormatter) -> Iterator[str]:
    row: list[str] = []
    column, cell, value, in_value = 0, XmlEvent("start", "c"), "", False
    for event in events:
        if event.kind == "text":
            if in_value:
                value += event.name
        elif event.kind == "start":
            if event.name == "row":
                row, column = [], 0
            elif event.name == "c":
                at = _column(event.get("r")) or column + 1
                row.extend([""] * min(max(at - column - 1, 0), MAX_GAP))
                column, cell, value = at, event, ""
            in_value = event.name in ("v", "t")
        else:
            in_value = False
            if event.name == "c":
                row.append(formatter.format(value, cell.get("t"), cell.get("s")))
            elif event.name == "row" and any(row):
                yield "\t".join(row).rstrip("\t")


def _column(reference: str) -> int:
    """Return the number of a column, such as 28 for AB7; 0 if it is not a cell reference."""
    number = 0
    for letter in reference[:3].upper():
        if not "A" <= letter <= "Z":
            break
        number = number * 26 + ord(letter) - 64
    return number


class _CellFormatter:
    """Format cell values: texts are stored in a shared list, dates are stored as numbers."""

    def __init__(self, strings: list[str], formats: _Formats, epoch: datetime) -> None:
        self._strings = strings
        self._formats = formats
        self._epoch = epoch

    def format(self, value: str, type_: str, style: str) -> str:
        if type_ == "s":
            index = int(value) if value.isdecimal() and len(value) < 10 else -1
            return self._strings[index] if 0 <= index < len(self._strings) else ""
        if type_ == "b":
            return "TRUE" if value == "1" else "FALSE"
        if type_ in ("", "n"):
            number = int(style[:9]) if style.isdecimal() else 0
            if number in self._formats.dates:
                return self._date(value)
            return format_number(value, self._formats.numbers.get(number, ""))
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


def _epoch(package: OfficePackage, main: str) -> datetime:
    for event in package.events(main):
        if event.kind == "start" and event.name == "workbookPr":
            if event.get("date1904") in ("1", "true"):
                return datetime(1904, 1, 1)  # noqa: DTZ001  # a date on a sheet has no time zone
            break
    return datetime(1899, 12, 30)  # noqa: DTZ001


def _part_of(relations: dict[str, Relation], type_: str) -> str:
    return next((relation.target for relation in relations.values() if relation.type == type_), "")


def _strings(package: OfficePackage, relations: dict[str, Relation]) -> list[str]:
    """Return the shared texts that cells refer to by number, without the pronunciation of Japanese (`rPh`)."""
    strings: list[str] = []
    parts: list[str] = []
    in_text, in_pronunciation = False, False
    for event in package.events(_part_of(relations, "sharedStrings")):
        if event.kind == "text":
            if in_text and not in_pronunciation:
                parts.append(event.name)
            continue
        begins = event.kind == "start"
        in_text = begins and event.name == "t"
        if event.name == "rPh":
            in_pronunciation = begins
        elif event.name == "si":
            if not begins:
                strings.append(" ".join("".join(parts).split()))
            parts = []
    return strings


class _Formats(Struct, frozen=True):
    """The cell styles that show a number as a date or a time, and the formats of the others, by their numbers."""

    dates: set[int]
    numbers: dict[int, str]


def _notes(package: OfficePackage, sheet: str) -> Iterator[str]:
    """Yield the text boxes and comments of a sheet."""
    for relation in package.relations(sheet).values():
        if relation.type not in ("comments", "drawing"):
            continue
        text, in_text = "", False
        for event in package.events(relation.target):
            if event.kind == "text":
                text += event.name if in_text else ""
                continue
            in_text = event.kind == "start" and event.name == "t"
            if event.kind == "end" and event.name in ("comment", "p") and text.strip():
                yield " ".join(text.split())
                text = ""


def format_number(value: str, code: str) -> str:
    """Return a number as people see it: with 15 digits at most, and the digits, percent and currency of its format.

    Args:
        value: The number, as the file has it.
        code: The format of its cell. Empty: none.
    """
    try:
        number = float(value)
    except ValueError:
        return " ".join(value.split())
    if not isfinite(number) or len(value) > MAX_DIGITS:
        return value[:MAX_DIGITS]
    section = code.split(";", maxsplit=1)[0]
    currency = CURRENCY.search(section)
    plain = NOT_LETTERS.sub("", section)
    digits = DIGITS.search(plain)
    if digits is None or "E+" in plain or "/" in plain or abs(number) >= MAX_FORMATTED:
        return f"{number:.15g}" if len(value) > SHORT_NUMBER else value
    decimals = min(len(digits[2] or ""), 15)
    text = f"{number * 100 if '%' in plain else number:{',' if ',' in digits[1] else ''}.{decimals}f}"
    if "%" in plain:
        return f"{text}%"
    if currency is None:
        return text
    symbol = next(part for part in currency.groups() if part)
    return f"{text} {symbol}" if currency.start() > section.find("0") >= 0 else f"{symbol}{text}"


def _formats(package: OfficePackage, relations: dict[str, Relation]) -> _Formats:
    """Return the formats of the cell styles."""
    formats = set(DATE_FORMATS)
    codes = dict(NUMBER_FORMATS)
    numbers: dict[int, str] = {}
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
        elif event.name == "numFmt":
            codes[int(named)] = event.get("formatCode")[:200]
        elif event.name == "xf" and in_cells:
            if int(named) in formats:
                styles.add(number)
            elif int(named) in codes:
                numbers[number] = codes[int(named)]
            number += 1
    return _Formats(styles, numbers)
