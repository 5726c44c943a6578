"""What files say about themselves, and searches that filter by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.pipelines import rag
from holdfast.pipelines.rag.extract.properties import file_properties
from holdfast.pipelines.rag.ingest.intake import ScanOptions
from holdfast.stores.protocol import Store
from tests.support.sample_files import docx, paragraph, pdf_file, stream

pytest.importorskip("numpy", reason="document search needs the extra rag")

Open = Callable[..., rag.Library]
MAIL = (
    "From: Ann Sailor <ann@example.org>\nTo: Bob <bob@example.org>, eve@example.org\n"
    "Date: Fri, 1 Mar 2024 12:00:00 +0100\nSubject: Spring tides\n\nThe spring tide comes twice a month.\n"
)
CORE = (
    '<cp:coreProperties xmlns:cp="c" xmlns:dc="d" xmlns:t="t"><dc:title>Anchors</dc:title>'
    "<dc:creator>Ann Sailor</dc:creator><t:created>2024-03-01T12:00:00Z</t:created></cp:coreProperties>"
)


def pdf_of(author: bytes) -> bytes:
    """Return a PDF with one page and an author."""
    fonts = b"<< /Font << /F 3 0 R >> >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R /Resources %b >>" % fonts,
        stream(b"BT /F 12 Tf 72 700 Td (The neap tide is the smallest one of all.) Tj ET"),
        b"<< /Author (%s) /CreationDate (D:20240301120000+01'00') >>" % author,
    ]
    return pdf_file(objects, b"/Info 6 0 R")


def test_a_message_has_its_sender_its_recipients_and_its_date(tmp_path: Path) -> None:
    (tmp_path / "mail.eml").write_text(MAIL)
    assert file_properties(tmp_path / "mail.eml", "eml") == {
        "author": "Ann Sailor",
        "from": "ann@example.org",
        "to": "bob@example.org, eve@example.org",
        "created": "2024-03-01T12:00:00+01:00",
    }


def test_an_office_file_has_its_author_and_its_dates(tmp_path: Path) -> None:
    docx(tmp_path / "a.docx", paragraph("Text"), parts={"docProps/core.xml": CORE})
    assert file_properties(tmp_path / "a.docx", "docx") == {
        "title": "Anchors",
        "author": "Ann Sailor",
        "created": "2024-03-01T12:00:00Z",
    }


def test_a_pdf_has_its_author_and_its_dates(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf_of(b"Bob Miller"))
    assert file_properties(tmp_path / "a.pdf", "pdf") == {"author": "Bob Miller", "created": "2024-03-01T12:00:00"}


def test_a_broken_file_has_no_properties(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(b"PK and no more")
    assert file_properties(tmp_path / "a.docx", "docx") == {}


def test_searches_filter_by_what_files_say_and_metadata_of_the_source_comes_first(
    each_store: Store, opened: Open, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "mail.eml").write_text(MAIL)
    (folder / "neap.pdf").write_bytes(pdf_of(b"Bob Miller"))
    library = opened(each_store, "store")
    library.ingest(str(folder))

    def keys(**metadata: str) -> list[str]:
        return [found.key for found in library.search("tide", rag.Where(metadata=metadata))]

    assert keys(author="Ann Sailor") == ["mail.eml"]
    assert keys(author="Bob Miller") == ["neap.pdf"]
    library.ingest(str(folder), ScanOptions(metadata={"client": "acme"}))
    assert keys(author="Ann Sailor", client="acme") == ["mail.eml"], "metadata of a source leaves that of files"
    library.ingest(str(folder), ScanOptions(metadata={"author": "the harbour office"}))
    assert len(keys(author="the harbour office")) == 2
    library.ingest(str(folder), ScanOptions(metadata={}))
    assert keys(author="Bob Miller") == ["neap.pdf"]
