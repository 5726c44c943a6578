"""Hostile files: each is rejected with a clear reason, before it can use much memory or time."""

from __future__ import annotations

import struct
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile
from zlib import compress, crc32

import pytest

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.limits import ExtractLimits
from holdfast.pipelines.rag.extract.parsers import page_count, pages_of
from tests.support import sample_files
from tests.support.sample_files import pdf_file, row, stream


def refused(path: Path, reason: str, limits: ExtractLimits | None = None) -> None:
    with pytest.raises(Reject, match=reason):
        list(pages_of(path, limits=limits or ExtractLimits()))


def kept(folder: Path, content: bytes) -> Path:
    return sample_files.write_file(folder / "file", content)


# Archives and XML -----------------------------------------------------------------------------------------------------


def test_a_member_that_decompresses_a_thousandfold_is_refused_while_it_is_read(tmp_path: Path) -> None:
    body = sample_files.word_part("document", "<w:body>" + " " * (20 << 20) + "</w:body>")
    refused(sample_files.write_zip(tmp_path / "a.docx", {"word/document.xml": body}), "ZIP bomb")


def test_all_members_together_are_counted(tmp_path: Path) -> None:
    rows = row("x" * 1000) * 100
    made = sample_files.xlsx(tmp_path / "a.xlsx", {f"s{number}": rows for number in range(20)})
    refused(made, "unpacks to more than", ExtractLimits(zip_bytes=1 << 20))


def test_sizes_that_an_archive_declares_are_not_trusted(tmp_path: Path) -> None:
    made = sample_files.docx(tmp_path / "a.docx", sample_files.paragraph("x" * (17 << 20)))
    content = made.read_bytes()
    with ZipFile(made) as archive:
        size = archive.getinfo("word/document.xml").file_size
    lied = content.replace(struct.pack("<I", size), struct.pack("<I", size * 2))
    refused(kept(tmp_path, lied), "ZIP bomb")
    assert lied != content


def test_more_members_than_any_document_needs_are_refused(tmp_path: Path) -> None:
    refused(
        sample_files.docx(tmp_path / "a.docx", "", {f"m{n}": "" for n in range(30)}),
        "33 entries",
        ExtractLimits(zip_members=20),
    )


def test_an_oversized_list_of_members_is_not_read(tmp_path: Path) -> None:
    content = bytearray(sample_files.docx(tmp_path / "a.docx", "").read_bytes())
    content[-10:-6] = struct.pack("<I", 1 << 30)
    refused(kept(tmp_path, bytes(content)), "ZIP bomb")


def test_an_archive_with_a_password_says_so(tmp_path: Path) -> None:
    content = bytearray(sample_files.docx(tmp_path / "a.docx", sample_files.paragraph("secret")).read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 8] |= 1
    refused(kept(tmp_path, bytes(content)), "encrypted; remove the password")


@pytest.mark.parametrize("method", [5, 99])
def test_a_member_with_an_unknown_compression_is_broken(tmp_path: Path, method: int) -> None:
    made = sample_files.docx(tmp_path / "a.docx", sample_files.paragraph("x"))
    content = made.read_bytes().replace(b"\x14\x00\x00\x00\x08\x00", b"\x14\x00\x00\x00" + bytes([method, 0]))
    refused(kept(tmp_path, content), "broken")


@pytest.mark.parametrize("method", [ZIP_LZMA, ZIP_BZIP2])
def test_a_member_with_a_compression_that_needs_memory_is_refused(tmp_path: Path, method: int) -> None:
    with ZipFile(tmp_path / "a.docx", "w", method) as archive:
        archive.writestr("word/document.xml", sample_files.word_part("document", sample_files.paragraph("tides")))
        archive.writestr("mimetype", "application/epub+zip")
    refused(tmp_path / "a.docx", "a compression that Office does not support")


def test_a_member_whose_name_is_not_text_is_broken(tmp_path: Path) -> None:
    content = bytearray(sample_files.docx(tmp_path / "a.docx", sample_files.paragraph("x")).read_bytes())
    content[7], content[30] = 0x08, 0xFF  # said to be UTF-8, where the member itself is
    at = content.index(b"PK\x03\x04", 4)
    content[at + 7], content[at + 30] = 0x08, 0xFF
    for later in range(at + 4, len(content)):
        if content[later : later + 4] == b"PK\x03\x04":
            content[later + 7], content[later + 30] = 0x08, 0xFF
    refused(kept(tmp_path, bytes(content)), "broken")


def test_a_damaged_member_is_broken(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "a.docx", "w", ZIP_DEFLATED) as archive:
        archive.writestr(
            "word/document.xml", sample_files.word_part("document", sample_files.paragraph("tides " * 1000))
        )
    content = bytearray((tmp_path / "a.docx").read_bytes())
    content[80:90] = bytes(10)
    refused(kept(tmp_path, bytes(content)), "broken")


@pytest.mark.parametrize(
    "declaration",
    [
        '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>',
        '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE a SYSTEM "http://192.0.2.1/a.dtd">',
        "<!DOCTYPE a>",
    ],
)
def test_xml_that_declares_entities_or_a_type_is_refused(tmp_path: Path, declaration: str) -> None:
    part = declaration + sample_files.word_part("document", sample_files.paragraph("x"))
    refused(sample_files.write_zip(tmp_path / "a.docx", {"word/document.xml": part}), "XML bomb")


def test_xml_that_nests_without_end_is_refused(tmp_path: Path) -> None:
    refused(
        sample_files.docx(tmp_path / "a.docx", "<w:tbl><w:tr><w:tc>" * 2000 + "</w:tc></w:tr></w:tbl>" * 2000), "nests"
    )


def test_invalid_xml_is_broken(tmp_path: Path) -> None:
    refused(sample_files.write_zip(tmp_path / "a.docx", {"word/document.xml": "<w:body"}), "not well-formed XML")


def test_one_long_text_named_by_many_cells_is_refused_at_the_limit(tmp_path: Path) -> None:
    strings = f'<sst xmlns="{sample_files.SHEETS}"><si><t>{"x" * 30_000}</t></si></sst>'
    cells = "<row>" + '<c t="s"><v>0</v></c>' * 10 + "</row>"
    made = sample_files.xlsx(tmp_path / "a.xlsx", {"s": cells * 1000}, {"xl/sharedStrings.xml": strings})
    refused(made, "too much text", ExtractLimits(characters=2_000_000))


# PDF ------------------------------------------------------------------------------------------------------------------

CATALOGUE = b"<< /Type /Catalog /Pages 2 0 R >>"


def test_a_page_tree_with_a_cycle_is_broken(tmp_path: Path) -> None:
    refused(kept(tmp_path, pdf_file([CATALOGUE, b"<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>"])), "broken")
    crossed = [b"<< /Type /Pages /Kids [3 0 R 3 0 R] /Count 4 >>", b"<< /Type /Pages /Kids [2 0 R] /Count 2 >>"]
    refused(kept(tmp_path, pdf_file([CATALOGUE, *crossed])), "broken")


def test_a_page_tree_of_a_billion_leaves_is_refused(tmp_path: Path) -> None:
    tree = [
        b"<< /Type /Pages /Kids [%d 0 R %d 0 R] /Count %d >>" % (level + 3, level + 3, 2 ** (30 - level))
        for level in range(30)
    ]
    refused(kept(tmp_path, pdf_file([CATALOGUE, *tree, b"<< /Type /Page /MediaBox [0 0 9 9] >>"])), "broken|claims")


def test_more_pages_than_allowed_are_refused_before_the_first(tmp_path: Path) -> None:
    made = kept(tmp_path, sample_files.pdf(["x"] * 30))
    refused(made, "claims to have 30 pages", ExtractLimits(pages=20))
    with pytest.raises(Reject, match="claims to have 30 pages"):
        page_count(made, limits=ExtractLimits(pages=20))


def test_a_false_number_of_pages_does_no_harm(tmp_path: Path) -> None:
    made = kept(tmp_path, sample_files.pdf(["tides"]).replace(b"/Count 1", b"/Count 10000000"))
    assert [page.text for page in pages_of(made)] == ["tides"]


def test_text_on_an_enormous_page_is_read_and_a_picture_on_it_is_left_out(tmp_path: Path) -> None:
    made = kept(tmp_path, sample_files.pdf(["tides"], box="0 0 1000000 1000000"))
    assert [page.text for page in pages_of(made)] == ["tides"]
    (page,) = pages_of(kept(tmp_path, sample_files.scan(sample_files.picture("tides"), (100_000, 100_000))))
    assert "too large for OCR" in page.label


def test_a_picture_in_a_pdf_that_claims_too_many_pixels_costs_its_page(tmp_path: Path) -> None:
    made = sample_files.scan(sample_files.picture("tides")).replace(
        b"/Width 1000 /Height 300", b"/Width 50000 /Height 50000"
    )
    (page,) = pages_of(kept(tmp_path, made))
    assert (page.text.strip(), "2,500 megapixels" in page.label) == ("", True)


@pytest.mark.parametrize("layers", [1, 2])
def test_a_stream_that_decompresses_beyond_the_limit_is_refused(tmp_path: Path, layers: int) -> None:
    content, filters = b"q " * (40 << 20), b""
    for _ in range(layers):
        content, filters = compress(content), filters + b"/FlateDecode "
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>"
    objects = [CATALOGUE, b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>", page]
    made = pdf_file([*objects, stream(content, b"/Filter [%s]" % filters)])
    refused(kept(tmp_path, made), "stream in the PDF unpacks to more than", ExtractLimits(stream_bytes=64 << 20))


@pytest.mark.parametrize("cut", [9, 100, 300])
def test_a_pdf_cut_short_is_broken(tmp_path: Path, cut: int) -> None:
    refused(kept(tmp_path, sample_files.pdf(["tides"])[:cut]), "broken")


def test_a_pdf_with_a_password_says_so(tmp_path: Path) -> None:
    lock = b"<< /Filter /Standard /V 1 /R 2 /O (%s) /U (%s) /P -4 >>" % (b"o" * 32, b"u" * 32)
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>"
    objects = [CATALOGUE, b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>", page, stream(b"BT ET"), lock]
    made = pdf_file(objects, b"/Encrypt 5 0 R /ID [(1234567890123456) (1234567890123456)]")
    refused(kept(tmp_path, made), "encrypted; remove the password")


def test_a_broken_page_among_good_ones_has_no_text(tmp_path: Path) -> None:
    content = sample_files.pdf(["ebb", "slack", "flow"]).replace(
        b"6 0 obj\n<< /Type /Page ", b"6 0 obj\n(              "
    )
    pages = list(pages_of(kept(tmp_path, content)))
    assert [page.text for page in pages if page.text] == ["ebb", "flow"]


# Pictures and HTML ----------------------------------------------------------------------------------------------------


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    sample_files.picture("x").save(path)
    content = path.read_bytes()
    for side, reason in ((12_000, "144 megapixels"), (100_000, "too many pixels")):
        header = b"IHDR" + struct.pack(">II", side, side) + content[24:29]
        made = content[:12] + header + struct.pack(">I", crc32(header)) + content[33:]
        refused(kept(tmp_path, made), reason)


def test_more_pages_of_a_tiff_than_allowed_are_refused(tmp_path: Path) -> None:
    first, *others = [sample_files.picture("x", (40, 40)) for _ in range(12)]
    first.save(tmp_path / "a.tiff", save_all=True, append_images=others)
    refused(tmp_path / "a.tiff", "claims to have 11 pages", ExtractLimits(pages=10))
    assert page_count(tmp_path / "a.tiff", limits=ExtractLimits(pages=12)) == 12


@pytest.mark.parametrize("kind", ["png", "jpeg", "tiff"])
def test_a_picture_cut_short_is_broken(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    sample_files.picture("Tides", (2000, 2000)).convert("RGB").save(path)
    refused(kept(tmp_path, path.read_bytes()[:1000]), "broken")


def test_html_of_too_many_or_too_deep_tags_is_refused(tmp_path: Path) -> None:
    refused(kept(tmp_path, b"<html>" + b"<p>x" * 200), "tags", ExtractLimits(tags=100))
    refused(kept(tmp_path, b"<html>" + b"<div>" * 20_000), "nests")
    refused(kept(tmp_path, b"<html><p>" + b"x" * 2000), "too large", ExtractLimits(whole_bytes=1000))
