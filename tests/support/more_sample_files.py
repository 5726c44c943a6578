"""Small files of old Office formats, OpenDocument and e-books, built in code."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tests.support.sample_files import ole, write_file, write_zip

OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
TABLE = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
DRAW = "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"
PRESENTATION = "urn:oasis:names:tc:opendocument:xmlns:presentation:1.0"
RTF = rb"{\rtf1\ansi{\fonttbl\f0 Arial;}{\*\generator x;}\f0\pard On tides\par Ebb and \'e9bauche \u8364?\par}"


def word(path: Path, text: str, *, flags: int = 0) -> Path:
    """Write a DOC file with two pieces: one with a byte for each character, and one with two."""
    first, second = text[: len(text) // 2], text[len(text) // 2 :]
    head = bytearray(0x400)
    struct.pack_into("<H", head, 0x0A, flags)
    one, two = first.encode("cp1252", errors="replace"), second.encode("utf-16-le")
    places = (0x400 * 2 | 0x4000_0000, 0x400 + len(one))
    ends = struct.pack("<III", 0, len(first), len(text))
    pieces = b"".join(struct.pack("<HIH", 0, place, 0) for place in places)
    listed = b"\x01\x02\x00ab" + b"\x02" + struct.pack("<I", len(ends + pieces)) + ends + pieces
    struct.pack_into("<II", head, 0x01A2, 0, len(listed))
    return write_file(path, ole({"WordDocument": bytes(head) + one + two, "0Table": listed}))


def record(kind: int, content: bytes, *, instance: int = 0, is_container: bool = False) -> bytes:
    """Return a record of a PPT file."""
    return struct.pack("<HHI", instance << 4 | (0xF if is_container else 0), kind, len(content)) + content


def slides(path: Path, texts: Sequence[tuple[str, str, str]]) -> Path:
    """Write a PPT file. Each slide has a title, a text box and notes."""
    listed = noted = body = b""
    places = []
    for number, (title, box, notes) in enumerate(texts):
        listed += record(1011, struct.pack("<IIIII", 2 * number + 1, 0, 1, number + 256, 0))
        listed += record(3999, struct.pack("<I", 0)) + record(4000, title.encode("utf-16-le"))
        noted += record(1011, struct.pack("<IIIII", 2 * number + 2, 0, 1, number + 900, 0))
        head = record(1007, struct.pack("<I8sIIHH", 0, b"", 0, number + 900, 0, 0))
        for kind, text in ((1006, box), (1008, notes)):
            inside = record(61453, record(4008, text.encode("cp1252")), is_container=True)
            places.append(len(body))
            body += record(kind, (head if kind == 1006 else b"") + inside, is_container=True)
    lists = record(4080, listed, is_container=True) + record(4080, noted, instance=2, is_container=True)
    document = record(1000, lists, is_container=True)
    directory = struct.pack("<I", len(places) << 20 | 1) + struct.pack(
        f"<{len(places)}I", *(len(document) + place for place in places)
    )
    return write_file(path, ole({"PowerPoint Document": document + body + record(6002, directory)}))


def old_workbook(path: Path, sheets: Mapping[str, Sequence[Sequence[str | float]]]) -> Path:
    """Write an XLS file."""

    def biff(kind: int, content: bytes = b"") -> bytes:
        return struct.pack("<HH", kind, len(content)) + content

    def begin(what: int) -> bytes:
        return biff(0x809, struct.pack("<HHHHII", 0x600, what, 0, 0, 0, 0))

    def cell(row: int, column: int, value: str | float) -> bytes:
        if isinstance(value, float):
            return biff(0x203, struct.pack("<HHHd", row, column, 0, value))
        return biff(0x204, struct.pack("<HHHHB", row, column, 0, len(value), 0) + value.encode("latin-1"))

    parts = [
        begin(0x10)
        + b"".join(cell(row, column, value) for row, line in enumerate(lines) for column, value in enumerate(line))
        + biff(0x0A)
        for lines in sheets.values()
    ]
    heads = sum(4 + 8 + len(name) for name in sheets)
    offset = len(begin(5)) + heads + 4
    listed = b""
    for name, part in zip(sheets, parts, strict=True):
        listed += biff(0x85, struct.pack("<IHBB", offset, 0, len(name), 0) + name.encode("latin-1"))
        offset += len(part)
    return write_file(path, ole({"Workbook": begin(5) + listed + biff(0x0A) + b"".join(parts) + bytes(4096)}))


def open_document(path: Path, kind: str, body: str, parts: Mapping[str, str | bytes] | None = None) -> Path:
    """Write an OpenDocument file: `kind` is text, spreadsheet or presentation."""
    names = f'xmlns:o="{OFFICE}" xmlns:t="{TEXT}" xmlns:b="{TABLE}" xmlns:d="{DRAW}" xmlns:p="{PRESENTATION}"'
    content = f"<o:document-content {names}><o:body><o:{kind}>{body}</o:{kind}></o:body></o:document-content>"
    mimetype = f"application/vnd.oasis.opendocument.{kind}"
    return write_zip(path, {"mimetype": mimetype, "content.xml": content, **(parts or {})})


def sheet(name: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a sheet of an OpenDocument file."""
    lines = "".join(
        "<b:table-row>"
        + "".join(f"<b:table-cell><t:p>{escape(cell)}</t:p></b:table-cell>" for cell in row)
        + '<b:table-cell b:number-columns-repeated="16000"/></b:table-row>'
        for row in rows
    )
    return f'<b:table b:name="{name}">{lines}</b:table>'


def book(path: Path, chapters: Sequence[str], parts: Mapping[str, str | bytes] | None = None) -> Path:
    """Write an EPUB file."""
    items = "".join(f'<item id="c{n}" href="text/c{n}.xhtml"/>' for n in range(len(chapters)))
    order = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    return write_zip(
        path,
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container><rootfile full-path="OPS/book.opf"/></container>',
            "OPS/book.opf": f"<package><manifest>{items}</manifest><spine>{order}</spine></package>",
            **{
                f"OPS/text/c{n}.xhtml": f"<html><head><title>Chapter {n + 1}</title></head><body><p>{text}</p></body>"
                for n, text in enumerate(chapters)
            },
            **(parts or {}),
        },
    )


def binary_workbook(path: Path, name: str, rows: Sequence[Sequence[str]]) -> Path:
    """Write an XLSB file with one sheet."""

    def wide(text: str) -> bytes:
        return struct.pack("<I", len(text)) + text.encode("utf-16-le")

    def brt(kind: int, content: bytes = b"") -> bytes:
        head = bytes([kind]) if kind < 128 else bytes([kind & 0x7F | 0x80, kind >> 7])
        assert len(content) < 128
        return head + bytes([len(content)]) + content

    workbook = brt(143) + brt(156, struct.pack("<II", 0, 1) + wide("rId1") + wide(name)) + brt(144) + brt(132)
    width = max(map(len, rows))
    lines = brt(148, struct.pack("<IIII", 0, len(rows) - 1, 0, width - 1)) + brt(145)
    for number, row in enumerate(rows):
        lines += brt(0, struct.pack("<I", number) + bytes(13))
        lines += b"".join(brt(6, struct.pack("<II", column, 0) + wide(cell)) for column, cell in enumerate(row))
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"
    names = "http://schemas.openxmlformats.org/package/2006/relationships"
    return write_zip(
        path,
        {
            "[Content_Types].xml": "",
            "xl/workbook.bin": workbook,
            "xl/_rels/workbook.bin.rels": f'<Relationships xmlns="{names}"><Relationship Id="rId1" '
            f'Type="{relation}" Target="worksheets/sheet1.bin"/></Relationships>',
            "xl/worksheets/sheet1.bin": lines + brt(146),
        },
    )
