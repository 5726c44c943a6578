"""Small files of every type, built in code, so that tests know what is in them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile

from PIL import Image, ImageDraw, ImageFont

RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def write_file(path: Path, content: bytes) -> Path:
    """Write a file and return its path."""
    path.write_bytes(content)
    return path


def write_zip(path: Path, parts: Mapping[str, str | bytes]) -> Path:
    """Write a zip file with these parts and return its path."""
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


# PDF ------------------------------------------------------------------------------------------------------------------


def pdf_file(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """Return a PDF of these objects. The first one is the catalogue."""
    out = BytesIO()
    out.write(b"%PDF-1.7\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    for place in places:
        out.write(b"%010d 00000 n \n" % place)
    out.write(b"trailer\n<< /Size %d /Root 1 0 R %s >>\n" % (len(objects) + 1, trailer))
    out.write(b"startxref\n%d\n%%%%EOF\n" % start)
    return out.getvalue()


def stream(content: bytes, entries: bytes = b"") -> bytes:
    """Return a stream object with more entries in its dictionary."""
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), entries, content)


def pdf(pages: Sequence[str], box: str = "0 0 612 792") -> bytes:
    """Return a PDF with a line of text on each page."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * index) for index in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, text in enumerate(pages):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [%s] /Resources << /Font << /F 3 0 R >> >> /Contents %d 0 R >>"
            % (box.encode(), 5 + 2 * index)
        )
        objects.append(stream(b"BT /F 12 Tf 72 700 Td (%s) Tj ET" % text.encode()))
    return pdf_file(objects)


def scan(picture: Image.Image, box: tuple[int, int] = (612, 792)) -> bytes:
    """Return a PDF with one page that has only a picture."""
    wide, high = picture.size
    pixels = stream(
        zlib.compress(picture.convert("L").tobytes()),
        b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 "
        b"/Filter /FlateDecode" % (wide, high),
    )
    return pdf_file(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %d %d] /Resources << /XObject << /I 5 0 R >> >> "
            b"/Contents 4 0 R >>" % box,
            stream(b"q %d 0 0 %d 0 0 cm /I Do Q" % box),
            pixels,
        ]
    )


# Office ---------------------------------------------------------------------------------------------------------------


def relations(*named: tuple[str, str, str]) -> str:
    """Return the XML of relationships, each given by id, type and target."""
    xml = "".join(f'<Relationship Id="{id_}" Type="{RELATIONS}/{type_}" Target="{to}"/>' for id_, type_, to in named)
    return f'<Relationships xmlns="{PACKAGE_RELATIONS}">{xml}</Relationships>'


def word_part(name: str, inside: str) -> str:
    return f'<w:{name} xmlns:w="{WORD}" xmlns:r="{RELATIONS}">{inside}</w:{name}>'


def paragraph(text: str) -> str:
    return f'<w:p><w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


PAGE_BREAK = '<w:p><w:r><w:br w:type="page"/></w:r></w:p>'


def docx(
    path: Path, body: str, parts: Mapping[str, str] | None = None, named: Sequence[tuple[str, str, str]] = ()
) -> Path:
    return write_zip(
        path,
        {
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": word_part("document", f"<w:body>{body}</w:body>"),
            "word/_rels/document.xml.rels": relations(*named),
            **(parts or {}),
        },
    )


def shape(text: str, kind: str = "body") -> str:
    return (
        f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>'
        f"<p:txBody><a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def slide(*shapes: str, name: str = "sld") -> str:
    tree = "".join(shapes)
    return f'<p:{name} xmlns:p="{SLIDES}" xmlns:a="{DRAWING}"><p:cSld><p:spTree>{tree}</p:spTree></p:cSld></p:{name}>'


def pptx(path: Path, slides: Sequence[str], parts: Mapping[str, str] | None = None) -> Path:
    """Write a presentation. Slides are shown in the given order, and their files are numbered in the reverse order."""
    names = [f"slides/slide{len(slides) - index}.xml" for index in range(len(slides))]
    shown = "".join(f'<p:sldId id="{256 + index}" r:id="r{index}"/>' for index in range(len(slides)))
    return write_zip(
        path,
        {
            "[Content_Types].xml": "<Types/>",
            "ppt/presentation.xml": f'<p:presentation xmlns:p="{SLIDES}" xmlns:r="{RELATIONS}"><p:sldIdLst>{shown}'
            "</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": relations(*((f"r{i}", "slide", name) for i, name in enumerate(names))),
            **{f"ppt/{name}": content for name, content in zip(names, slides, strict=True)},
            **(parts or {}),
        },
    )


def xlsx(path: Path, sheets: Mapping[str, str], parts: Mapping[str, str] | None = None) -> Path:
    """Write a workbook from the XML of the rows of each sheet, by name."""
    named = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(sheets))
    return write_zip(
        path,
        {
            "[Content_Types].xml": "<Types/>",
            "xl/workbook.xml": f'<workbook xmlns="{SHEETS}" xmlns:r="{RELATIONS}"><sheets>{named}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(
                *((f"r{i}", "worksheet", f"worksheets/sheet{i}.xml") for i in range(len(sheets))),
                ("s", "sharedStrings", "sharedStrings.xml"),
                ("t", "styles", "styles.xml"),
            ),
            **{
                f"xl/worksheets/sheet{i}.xml": f'<worksheet xmlns="{SHEETS}"><sheetData>{rows}</sheetData></worksheet>'
                for i, rows in enumerate(sheets.values())
            },
            **(parts or {}),
        },
    )


def row(*texts: str) -> str:
    cells = "".join(f'<c t="inlineStr"><is><t>{escape(text)}</t></is></c>' for text in texts)
    return f"<row>{cells}</row>"


# Pictures -------------------------------------------------------------------------------------------------------------


def picture(text: str, size: tuple[int, int] = (1000, 300)) -> Image.Image:
    """Return a white picture with large text."""
    made = Image.new("L", size, 255)
    ImageDraw.Draw(made).text((60, 100), text, fill=0, font=ImageFont.load_default(size=64))
    return made


# Outlook --------------------------------------------------------------------------------------------------------------

Tree = Mapping[str, "bytes | Tree"]
NOTHING, END = 0xFFFFFFFF, 0xFFFFFFFE


def ole(tree: Tree) -> bytes:
    """Return a compound file. Storages are mappings and streams are bytes. Small streams are in the mini stream."""
    entries: list[dict[str, int | str]] = []
    mini, large = BytesIO(), BytesIO()
    mini_fat: list[int] = []
    fat: list[int] = []

    def chain(table: list[int], sectors: int) -> int:
        if not sectors:
            return END
        first = len(table)
        table.extend([*range(first + 1, first + sectors), END])
        return first

    def keep(content: bytes, room: BytesIO, table: list[int], size: int) -> int:
        padded = content + bytes(-len(content) % size)
        room.write(padded)
        return chain(table, len(padded) // size)

    def add(name: str, what: bytes | Tree, kind: int) -> int:
        number = len(entries)
        entry: dict[str, int | str] = {
            "name": name,
            "kind": kind,
            "right": NOTHING,
            "child": NOTHING,
            "at": 0,
            "size": 0,
        }
        entries.append(entry)
        if isinstance(what, bytes):
            small = len(what) < 4096
            entry["at"] = keep(what, mini, mini_fat, 64) if small else keep(what, large, fat, 512)
            entry["size"] = len(what)
            return number
        before = -1
        for inner in sorted(what, key=lambda one: (len(one), one.upper())):
            found = add(inner, what[inner], 2 if isinstance(what[inner], bytes) else 1)
            if before < 0:
                entry["child"] = found
            else:
                entries[before]["right"] = found
            before = found
        return number

    add("Root Entry", tree, 5)
    entries[0]["at"], entries[0]["size"] = keep(mini.getvalue(), large, fat, 512), len(mini.getvalue())
    mini_start = keep(struct.pack(f"<{len(mini_fat)}I", *mini_fat), large, fat, 512)
    directory = b"".join(
        str(one["name"]).encode("utf-16-le").ljust(64, b"\0")
        + struct.pack("<HBB", 2 * len(str(one["name"])) + 2, one["kind"], 1)
        + struct.pack("<III", NOTHING, one["right"], one["child"])
        + bytes(36)
        + struct.pack("<IQ", one["at"], one["size"])
        for one in entries
    )
    directory_start = keep(directory, large, fat, 512)
    fat_sectors = 1
    while (len(fat) + fat_sectors) * 4 > fat_sectors * 512:
        fat_sectors += 1
    places = list(range(len(fat), len(fat) + fat_sectors))
    table = [*fat, *[0xFFFFFFFD] * fat_sectors]
    table += [NOTHING] * (fat_sectors * 128 - len(table))
    header = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6) + bytes(10)
    header += struct.pack("<IIII", fat_sectors, directory_start, 0, 4096)
    header += struct.pack("<IIII", mini_start, -(-len(mini_fat) * 4 // 512), END, 0)
    header += struct.pack("<109I", *(places + [NOTHING] * (109 - len(places))))
    return header + large.getvalue() + struct.pack(f"<{len(table)}I", *table)


def properties(values: Mapping[int, str | bytes], header: int) -> dict[str, bytes]:
    """Return the streams with the properties of a message or an attachment."""
    streams, listed = {}, b""
    for number, value in values.items():
        kind = 0x001F if isinstance(value, str) else 0x0102
        content = value.encode("utf-16-le") if isinstance(value, str) else value
        streams[f"__substg1.0_{number:04X}{kind:04X}"] = content
        listed += struct.pack("<HHIII", kind, number, 6, len(content), 0)
    return {**streams, "__properties_version1.0": bytes(header) + listed}
