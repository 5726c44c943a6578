"""File types: the content decides, not the name. Unsupported types are rejected with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.limits import ExtractLimits
from tests.support import sample_files

HTML = b"<!DOCTYPE html><html><body><p>Hello</p></body></html>"
MAIL = b"From: a@example.org\r\nTo: b@example.org\r\nSubject: Tides\r\n\r\nHigh at noon.\r\n"


def of(folder: Path, content: bytes, name: str = "file.bin") -> str:
    return detect_file_type(sample_files.write_file(folder / name, content))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (sample_files.pdf(["Hello"]), "pdf"),
        (b"\n\n" + sample_files.pdf(["Hello"]), "pdf"),
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"\xff\xd8\xff\xe0", "jpeg"),
        (b"II*\x00", "tiff"),
        (b"MM\x00*", "tiff"),
        (b"GIF89a", "gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "webp"),
        (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "jp2"),
        (b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00", "heic"),
        (b"BM\x3a\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00(\x00\x00\x00" + bytes(40), "bmp"),
        (b"{\\rtf1 Hello}", "rtf"),
        (HTML, "html"),
        (b"\xef\xbb\xbf<?xml version='1.0'?><!-- a page -->\n<HTML><p>x", "html"),
        (HTML.decode().encode("utf-16"), "html"),
        (b"<div><p>a fragment</p></div>", "html"),
        (MAIL, "eml"),
        (b"From nobody Mon Jan  1 00:00:00 2001\n" + MAIL, "eml"),
        (MAIL.replace(b"noon", b"no\xf6n"), "eml"),
        (b"just words", "text"),
        ("Flut um zwölf".encode(), "text"),
        ("Flut um zwölf".encode("latin-1"), "text"),
        ("Flut um zwölf".encode("utf-16"), "text"),
        ("Flut um zwölf".encode("utf-16-le"), "text"),
        (b"<note><to>you</to></note>", "text"),
        (b"Note: this\nis: a list\n\nof things", "text"),
        (b"MZ are letters too", "text"),
        (b"the header %PDF- stands in a sentence", "text"),
        (sample_files.ole(sample_files.properties({0x37: "Tides"}, 32)), "msg"),
    ],
)
def test_the_content_decides_the_type_of_a_file(tmp_path: Path, content: bytes, kind: str) -> None:
    assert of(tmp_path, content) == kind


def test_office_files_are_distinguished_by_their_parts(tmp_path: Path) -> None:
    assert detect_file_type(sample_files.docx(tmp_path / "a.zip", "")) == "docx"
    assert detect_file_type(sample_files.pptx(tmp_path / "b.zip", [])) == "pptx"
    assert detect_file_type(sample_files.xlsx(tmp_path / "c.zip", {})) == "xlsx"


def test_only_markdown_is_recognised_by_its_name(tmp_path: Path) -> None:
    assert of(tmp_path, b"# Tides", "a.md") == "markdown"
    assert of(tmp_path, b"<div>a badge</div>\n\n# Tides", "b.md") == "markdown"
    assert of(tmp_path, HTML, "c.md") == "html"
    assert of(tmp_path, sample_files.pdf(["Hello"]), "d.md") == "pdf"
    assert of(tmp_path, b"words", "e.pdf") == "text"


def test_a_character_cut_at_the_end_of_the_head_is_still_text(tmp_path: Path) -> None:
    assert of(tmp_path, "ö".encode() * 100_000) == "text"
    assert of(tmp_path, b"a" + "ö".encode() * 100_000) == "text"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b" \n\t\n ", "empty"),
        (b"\x7fELF\x02\x01\x01", "program"),
        (b"MZ\x90\x00\x03\x00\x00\x00", "program"),
        (b"PK\x03\x04broken", "broken"),
        (bytes(range(256)) * 40, "binary"),
        (b"\x00" * 5000, "binary"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 and nothing", "broken"),
        (sample_files.ole({"EncryptedPackage": b"x", "EncryptionInfo": b"x"}), "encrypted; remove the password"),
        (sample_files.ole({"Something": b"x"}), "OLE"),
    ],
)
def test_an_unsupported_type_is_rejected_with_a_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(Reject, match=reason):
        of(tmp_path, content)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"mimetype": "application/vnd.oasis.opendocument.graphics"}, "OpenDocument"),
        ({"[Content_Types].xml": "", "FixedDocSeq.fdseq": ""}, "an unsupported type"),
    ],
)
def test_an_archive_is_rejected_with_its_type(tmp_path: Path, parts: dict[str, str], reason: str) -> None:
    with pytest.raises(Reject, match=reason):
        detect_file_type(sample_files.write_zip(tmp_path / "a.docx", parts))


def test_a_file_that_is_too_large_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(Reject, match="too large"):
        detect_file_type(sample_files.write_file(tmp_path / "a", b"words" * 100), ExtractLimits(file_bytes=100))


def test_what_begins_like_a_text_and_goes_on_like_a_program_is_rejected(tmp_path: Path) -> None:
    path = sample_files.write_file(tmp_path / "a", b"words " * 20_000 + bytes(range(256)) * 2_000)
    with pytest.raises(Reject, match="binary"):
        detect_file_type(path)
