"""Check how large the sheets of XLS and XLSB files are, before a library makes a table with a place for every cell.

A file of a few bytes can have one cell in the first row and one in the last. The table for both would fill the memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.parsers.office_package import OfficePackage
from holdfast.pipelines.rag.extract.parsers.ole_streams import OleStreams

MAX_CELLS = 10_000_000
"""Places for cells in all sheets together. Each takes 32 bytes."""
BOF = {0x009, 0x209, 0x409, 0x809}
"""The first record of a sheet of an XLS file."""
CELLS = {0x006, 0x206, 0x406, 0x201, 0x203, 0x204, 0x205, 0x0BD, 0x0BE, 0x0D6, 0x0FD, 0x27E, 0x001, 0x003, 0x004}
"""Records of XLS files that begin with a row and a column."""
MULTIPLE = {0x0BD, 0x0BE}
"""Records with several cells. They end with the last column."""
ROW, LAST_CELL = 0, 11
"""Records of XLSB files: a row; the last kind of cell."""


class _Area:
    """The rows and columns of one sheet that have cells."""

    def __init__(self) -> None:
        self.rows = self.columns = 0

    def add(self, row: int, column: int) -> None:
        self.rows = max(self.rows, row + 1)
        self.columns = max(self.columns, column + 1)


def check_old_workbook(ole: OleStreams) -> None:
    """Reject an XLS file with sheets that are too large.

    Args:
        ole: The open file.

    Raises:
        Reject: There are too many cells.
    """
    content = ole.read("Workbook" if ole.has("Workbook") else "Book")
    areas = [_Area()]
    at = 0
    while at + 4 <= len(content):
        kind, size = struct.unpack_from("<HH", content, at)
        at += 4
        if kind in BOF:
            areas.append(_Area())
        elif kind in CELLS and size >= 6:
            row, column = struct.unpack_from("<HH", content, at) if at + 4 <= len(content) else (0, 0)
            areas[-1].add(row, column)
            if kind in MULTIPLE and at + size <= len(content):
                areas[-1].add(row, struct.unpack_from("<H", content, at + size - 2)[0])
        at += size
    _check(areas)


def check_binary_workbook(package: OfficePackage) -> None:
    """Reject an XLSB file with sheets that are too large.

    Args:
        package: The open file.

    Raises:
        Reject: There are too many cells.
    """
    areas = []
    for part in package.names:
        if part.endswith(".bin") and "sheet" in part:
            area, row = _Area(), 0
            for kind, content in _records(package.pieces(part)):
                if kind == ROW and len(content) >= 4:
                    (row,) = struct.unpack_from("<I", content)
                elif 0 < kind <= LAST_CELL and len(content) >= 4:
                    area.add(row, struct.unpack_from("<I", content)[0])
            areas.append(area)
    _check(areas)


def _records(pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a part: their kind, and their first bytes."""
    pending = bytearray()
    skip = 0
    for piece in pieces:
        pending += piece
        at = 0
        while True:
            if skip:
                step = min(skip, len(pending) - at)
                at, skip = at + step, skip - step
                if skip:
                    break
            if len(pending) - at < 16:
                break
            kind = pending[at]
            at += 1
            if kind & 0x80:
                kind = kind & 0x7F | (pending[at] & 0x7F) << 7
                at += 1
            size = 0
            for shift in range(0, 28, 7):
                byte = pending[at]
                at += 1
                size |= (byte & 0x7F) << shift
                if not byte & 0x80:
                    break
            yield kind, bytes(pending[at : at + min(size, 8)])
            skip = size
        del pending[:at]


def _check(areas: Iterable[_Area]) -> None:
    if (cells := sum(area.rows * area.columns for area in areas)) > MAX_CELLS:
        raise Reject(
            f"the sheets of the workbook have room for {cells:,} cells, and at most {MAX_CELLS:,} are allowed; "
            "save it as XLSX or CSV"
        )
