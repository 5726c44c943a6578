"""Old PowerPoint files: slides in their order, titles, text boxes and notes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("selectolax", reason="document search needs the extra rag")

from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.parsers import pages_of
from tests.support.more_sample_files import slides


def test_a_slide_has_its_title_its_boxes_and_its_notes(tmp_path: Path) -> None:
    path = slides(tmp_path / "a", [("On tides", "Ebb", "Say it slowly"), ("On moorings", "Flow", "")])
    assert detect_file_type(path) == "ppt"
    first, second = pages_of(path)
    assert (first.label, first.text) == ("On tides", "On tides\nEbb\nSay it slowly")
    assert (second.label, second.text, second.last) == ("On moorings", "On moorings\nFlow", True)
