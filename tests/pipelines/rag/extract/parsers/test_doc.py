"""Old Word files: pieces of text, fields, page breaks, and what is encrypted."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("selectolax", reason="document search needs the extra rag")

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.parsers import pages_of
from tests.support.more_sample_files import word


def test_the_text_of_all_pieces_is_read(tmp_path: Path) -> None:
    path = word(tmp_path / "a", "On tides\rEbb and flow \u2014 \u20ac 5\r")
    assert detect_file_type(path) == "doc"
    assert [page.text for page in pages_of(path)] == ["On tides\nEbb and flow \u2014 \u20ac 5"]


def test_fields_show_their_result_and_cells_are_apart(tmp_path: Path) -> None:
    path = word(tmp_path / "a", 'a\x07b\x07\x07See \x13 HYPERLINK "x" \x14the page\x15.\r')
    assert [page.text for page in pages_of(path)] == ["a\tb\nSee the page."]


def test_a_page_break_makes_a_page(tmp_path: Path) -> None:
    assert [page.text for page in pages_of(word(tmp_path / "a", "ebb\r\x0cflow\r"))] == ["ebb", "flow"]


def test_an_encrypted_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Reject, match="encrypted; remove the password"):
        list(pages_of(word(tmp_path / "a", "ebb", flags=0x100)))
