"""RTF: the text, with its accents, without font tables."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("selectolax", reason="document search needs the extra rag")

from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.parsers import pages_of
from tests.support.more_sample_files import RTF
from tests.support.sample_files import write_file


def test_the_text_is_read_without_formatting(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a", RTF)
    assert detect_file_type(path) == "rtf"
    assert [page.text for page in pages_of(path)] == ["On tides\nEbb and \u00e9bauche \u20ac"]
