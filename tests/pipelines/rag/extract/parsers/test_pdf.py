"""PDF: the text of pages, form fields and comments."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from holdfast.pipelines.rag.extract.parsers import page_count, pages_of
from tests.support import sample_files
from tests.support.sample_files import pdf_file, stream


def test_each_page_gives_its_text_and_number(tmp_path: Path) -> None:
    made = sample_files.write_file(tmp_path / "a", sample_files.pdf(["ebb", "slack", "flow"]))
    assert [(page.number, page.text, page.how) for page in pages_of(made)] == [
        (1, "ebb", "text"),
        (2, "slack", "text"),
        (3, "flow", "text"),
    ]
    assert page_count(made) == 3


def test_line_ends_are_newlines(tmp_path: Path) -> None:
    content = sample_files.pdf(["ebb) Tj 0 -20 Td (flow"])
    assert [page.text for page in pages_of(sample_files.write_file(tmp_path / "a", content))] == ["ebb\nflow"]


def test_filled_fields_and_comments_are_kept_and_links_are_not(tmp_path: Path) -> None:
    box = b"/Type /Annot /Rect [9 9 99 99]"
    made = pdf_file(
        [
            b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [5 0 R] >> >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 4 0 R /Annots [5 0 R 6 0 R 7 0 R 8 0 R] >>",
            stream(b""),
            b"<< %s /Subtype /Widget /FT /Tx /T (name) /V (Ada Lovelace) >>" % box,
            b"<< %s /Subtype /Text /Contents (mind the tide) >>" % box,
            b"<< %s /Subtype /Link /Contents (a link) >>" % box,
            b"<< %s /Subtype /Widget /FT /Btn /T (box) /V /Off >>" % box,
        ]
    )
    [page] = pages_of(sample_files.write_file(tmp_path / "a", made))
    assert page.text.split("\n") == ["", "Ada Lovelace", "mind the tide"]


def test_an_empty_page_is_a_page_without_text(tmp_path: Path) -> None:
    [page] = pages_of(sample_files.write_file(tmp_path / "a", sample_files.pdf([""])))
    assert (page.number, page.text) == (1, "")


@pytest.mark.skipif(find_spec("tesserocr") is None, reason="no wheel of tesserocr for this Python")
def test_letters_that_are_drawn_as_outlines_are_read_by_ocr(tmp_path: Path) -> None:
    picture = sample_files.picture("Spring tides", (1000, 300)).convert("L").resize((500, 150))
    dark = [[value < 128 for value in picture.crop((0, y, 500, y + 1)).tobytes()] for y in range(150)]
    drawn = " ".join(f"{x} {600 - y} 1 1 re" for y, row in enumerate(dark) for x, is_dark in enumerate(row) if is_dark)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R >>",
        sample_files.stream(f"{drawn} f".encode()),
    ]
    (page,) = pages_of(sample_files.write_file(tmp_path / "a.pdf", sample_files.pdf_file(objects)))
    assert (page.how, page.text.split()) == ("ocr", ["Spring", "tides"])


def test_the_chosen_entries_of_a_list_are_read(tmp_path: Path) -> None:
    field = b"<< /Type /Annot /Subtype /Widget /FT /Ch /Ff 2097152 /T (quay) /Rect [0 0 99 99] /P 3 0 R "
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [4 0 R] >> >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Annots [4 0 R] >>",
        field + b"/Opt [(North) (East) (South)] /V [(North) (South)] /I [0 2] >>",
    ]
    (page,) = pages_of(sample_files.write_file(tmp_path / "a.pdf", pdf_file(objects)))
    assert page.text.strip() == "North, South"
