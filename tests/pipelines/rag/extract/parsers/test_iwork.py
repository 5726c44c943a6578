"""Files of Apple's Pages, Numbers and Keynote: their preview, or advice."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pypdfium2", reason="document search needs the extra rag")

from holdfast.core.errors import Reject
from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.parsers import pages_of
from tests.support.sample_files import pdf, write_zip


def test_the_preview_is_read(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.pages", {"Index.zip": b"", "QuickLook/Preview.pdf": pdf(["Ebb", "Flow"])})
    assert detect_file_type(path) == "iwork"
    assert [page.text.strip() for page in pages_of(path)] == ["Ebb", "Flow"]


def test_a_file_without_a_preview_is_rejected_with_advice(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "a.key", {"Index/Document.iwa": b"x", "preview.jpg": b"x"})
    with pytest.raises(Reject, match="export it as PDF"):
        list(pages_of(path))
