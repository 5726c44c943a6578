"""OpenDocument files: pages, cells as they are shown, slides with notes, and what is encrypted."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("selectolax", reason="document search needs the extra rag")

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.parsers import pages_of
from tests.support.more_sample_files import open_document, sheet


def test_a_text_has_its_paragraphs_its_tables_and_its_pages(tmp_path: Path) -> None:
    body = (
        "<t:h>On tides</t:h><t:tracked-changes><t:p>deleted</t:p></t:tracked-changes>"
        "<t:p>Ebb<t:tab/>and<t:s t:c='2'/>flow</t:p><t:p><t:soft-page-break/>Next page</t:p>"
        + sheet("Table1", [["a", "b"]])
    )
    path = open_document(tmp_path / "a", "text", body)
    assert detect_file_type(path) == "odt"
    assert [page.text for page in pages_of(path)] == ["On tides\nEbb\tand  flow", "Next page\n\na\tb"]


def test_a_sheet_shows_its_cells_and_not_its_empty_columns(tmp_path: Path) -> None:
    path = open_document(
        tmp_path / "a", "spreadsheet", sheet("Fees", [["Berth", "1,250.00 \u20ac"]]) + sheet("Empty", [])
    )
    assert detect_file_type(path) == "ods"
    assert [(page.label, page.text) for page in pages_of(path)] == [
        ("Fees", "Berth\t1,250.00 \u20ac"),
        ("Empty", ""),
    ]


def test_a_slide_has_its_notes(tmp_path: Path) -> None:
    notes = "<p:notes><t:p>Say it slowly</t:p></p:notes>"
    body = f'<d:page d:name="One"><t:p>Ebb</t:p>{notes}</d:page><d:page d:name="Two"><t:p>Flow</t:p></d:page>'
    path = open_document(tmp_path / "a", "presentation", body)
    assert detect_file_type(path) == "odp"
    assert [(page.label, page.text) for page in pages_of(path)] == [("One", "Ebb\nSay it slowly"), ("Two", "Flow")]


def test_an_encrypted_file_is_rejected(tmp_path: Path) -> None:
    manifest = "<manifest><file-entry><encryption-data/></file-entry></manifest>"
    path = open_document(tmp_path / "a", "text", "", {"META-INF/manifest.xml": manifest})
    with pytest.raises(Reject, match="encrypted; remove the password"):
        list(pages_of(path))
