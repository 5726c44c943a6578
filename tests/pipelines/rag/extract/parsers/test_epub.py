"""E-books: chapters in reading order."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("selectolax", reason="document search needs the extra rag")

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.parsers import pages_of
from tests.support.more_sample_files import book


def test_each_chapter_is_a_page(tmp_path: Path) -> None:
    path = book(tmp_path / "a", ["Ebb", "Flow"])
    assert detect_file_type(path) == "epub"
    assert [(page.label, page.text) for page in pages_of(path)] == [
        ("Chapter 1", "Chapter 1\n\nEbb"),
        ("Chapter 2", "Chapter 2\n\nFlow"),
    ]


def test_a_protected_book_is_rejected(tmp_path: Path) -> None:
    protection = '<encryption><EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></encryption>'
    with pytest.raises(Reject, match="protected against copying"):
        list(pages_of(book(tmp_path / "a", ["Ebb"], {"META-INF/encryption.xml": protection})))
