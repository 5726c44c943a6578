"""XLS and XLSB: old and binary Excel files. One page for each sheet, as for XLSX."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from holdfast.core.distribution import install_command
from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits, check_pages, check_whole
from holdfast.pipelines.rag.extract.parsers.cell_ranges import check_binary_workbook, check_old_workbook
from holdfast.pipelines.rag.extract.parsers.office_package import open_package
from holdfast.pipelines.rag.extract.parsers.ole_streams import open_ole
from holdfast.pipelines.rag.extract.parsers.xlsx import MAX_GAP, in_pages
from holdfast.pipelines.rag.values import Page

ZIP = b"PK"


def pages(path: Path, *, start: int, limits: ExtractLimits) -> Iterator[Page]:
    """Yield the pages after the first `start`."""
    workbook = _opened(path, limits)
    for number, (name, text) in islice(enumerate(_labelled_pages(workbook), 1), start, None):
        yield Page(number, text, label=name)


def count(path: Path, *, limits: ExtractLimits) -> int:
    """Return the number of sheets."""
    return max(1, len(_opened(path, limits).sheet_names))


def _opened(path: Path, limits: ExtractLimits) -> Any:
    try:
        import python_calamine as calamine
    except ImportError as error:
        raise Reject(f"XLS and XLSB files need the package python-calamine: {install_command('rag')}") from error
    check_whole(path, limits)
    with path.open("rb") as file:
        is_zip = file.read(2) == ZIP
    if is_zip:
        with open_package(path, limits) as package:
            package.check_sizes()  # the library has no limits
            check_binary_workbook(package)
    else:
        with open_ole(path, limits) as ole:
            check_old_workbook(ole)
    try:
        with _without_panics():
            workbook = calamine.CalamineWorkbook.from_path(str(path))
    except calamine.PasswordError as error:
        raise Reject("encrypted; remove the password") from error
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise Reject(f"broken: the workbook cannot be opened ({error})") from error
    check_pages(len(workbook.sheet_names), limits)
    return workbook


def _labelled_pages(workbook: Any) -> Iterator[tuple[str, str]]:
    from python_calamine import CalamineError

    for name in workbook.sheet_names:
        try:
            with _without_panics():
                rows = workbook.get_sheet_by_name(name).iter_rows()
        except (CalamineError, OSError, ValueError):  # a chart, or a broken sheet among good ones
            yield name, ""
            continue
        for text in in_pages(filter(None, map(_line, _rows(rows)))):
            yield name, text


def _rows(rows: Iterator[list[Any]]) -> Iterator[list[Any]]:
    with _without_panics():
        yield from rows


@contextmanager
def _without_panics() -> Iterator[None]:
    """Reject a file on which the library fails. It is written in Rust, and its panics are no ordinary exceptions."""
    try:
        yield
    except BaseException as error:  # PanicException, which has no public name; all others are raised again
        if type(error).__name__ != "PanicException":
            raise
        raise Reject(f"broken: the workbook cannot be read ({error})") from error


def _line(row: list[Any]) -> str:
    cells: list[str] = []
    gap = 0
    for value in row:
        text = _shown(value)
        if not text:
            gap += 1
            continue
        cells += [""] * min(gap, MAX_GAP)
        gap = 0
        cells.append(text)
    return "\t".join(cells)


def _shown(value: Any) -> str:
    """Return a value as people see it: a number with at most 15 digits, a date without a time if it has none."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time() else value.isoformat(sep=" ")
    return " ".join(str(value).split())
