"""Old and binary Excel files: sheets, and numbers as people see them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

pytest.importorskip("selectolax", reason="document search needs the extra rag")

pytest.importorskip("python_calamine", reason="document search needs the extra rag")

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.parsers import pages_of
from tests.support.more_sample_files import binary_workbook, old_workbook


def test_each_sheet_of_an_old_workbook_is_a_page(tmp_path: Path) -> None:
    path = old_workbook(tmp_path / "a", {"Fees": [["Berth", 0.1 + 0.2], ["Crane", 1250.0]], "Notes": [["Ebb"]]})
    assert detect_file_type(path) == "xls"
    assert [(page.label, page.text) for page in pages_of(path)] == [
        ("Fees", "Berth\t0.3\nCrane\t1250"),
        ("Notes", "Ebb"),
    ]


def test_a_binary_workbook_is_read(tmp_path: Path) -> None:
    path = binary_workbook(tmp_path / "a", "Fees", [["Berth", "Quay"], ["Crane", "Pier"]])
    assert detect_file_type(path) == "xlsb"
    assert [(page.label, page.text) for page in pages_of(path)] == [("Fees", "Berth\tQuay\nCrane\tPier")]


def test_a_sheet_with_cells_far_apart_is_rejected_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = old_workbook(tmp_path / "a", {"Fees": [["Berth"]]})
    cell = struct.pack("<HHHHHHB", 0x204, 14, 0, 0, 0, 5, 0) + b"Berth"
    content = path.read_bytes()
    assert cell in content
    path.write_bytes(content.replace(cell, struct.pack("<HHHHHHB", 0x204, 14, 65_535, 255, 0, 5, 0) + b"Berth"))
    with pytest.raises(Reject, match="at most 10,000,000 are allowed"):
        list(pages_of(path))
