"""Office files: the pages of documents, slides and sheets."""

from __future__ import annotations

from pathlib import Path

from holdfast.pipelines.rag.extract.parsers import page_count, pages_of
from tests.support import sample_files
from tests.support.sample_files import PAGE_BREAK, SHEETS, paragraph, row, shape, slide, word_part


def texts(path: Path) -> list[str]:
    return [page.text for page in pages_of(path)]


def test_page_breaks_make_pages_of_a_document(tmp_path: Path) -> None:
    made = sample_files.docx(tmp_path / "a.docx", paragraph("ebb") + PAGE_BREAK + paragraph("flow"))
    assert [(page.number, page.text) for page in pages_of(made)] == [(1, "ebb"), (2, "flow")]


def test_an_explicit_break_and_its_rendered_break_count_once(tmp_path: Path) -> None:
    drawn = "<w:p><w:r><w:lastRenderedPageBreak/><w:t>flow</w:t></w:r></w:p>"
    assert texts(sample_files.docx(tmp_path / "a.docx", paragraph("ebb") + PAGE_BREAK + drawn)) == ["ebb", "flow"]


def test_a_table_is_lines_with_tabs_and_is_not_split(tmp_path: Path) -> None:
    cell = "<w:tc>{}</w:tc>".format
    torn = "<w:p><w:r><w:t>two</w:t><w:lastRenderedPageBreak/></w:r></w:p>"
    rows = f"<w:tr>{cell(paragraph('one'))}{cell(torn + paragraph('three'))}</w:tr>"
    made = sample_files.docx(tmp_path / "a.docx", f"<w:tbl>{rows}</w:tbl>" + paragraph("after"))
    assert texts(made) == ["one\ttwo three", "after"]


def test_notes_comments_boxes_headers_and_footers_are_kept(tmp_path: Path) -> None:
    body = (
        '<w:p><w:r><w:t>tides</w:t><w:footnoteReference w:id="2"/><w:commentReference w:id="0"/></w:r></w:p>'
        f"<w:p><w:r><w:pict><w:txbxContent>{paragraph('boxed')}</w:txbxContent></w:pict><w:t>around</w:t></w:r></w:p>"
    )
    parts = {
        "word/footnotes.xml": word_part("footnotes", f'<w:footnote w:id="2">{paragraph("a note")}</w:footnote>'),
        "word/comments.xml": word_part("comments", f'<w:comment w:id="0">{paragraph("a remark")}</w:comment>'),
        "word/header1.xml": word_part("hdr", paragraph("top")),
        "word/footer1.xml": word_part("ftr", paragraph("bottom")),
    }
    named = [(name, name.rstrip("1"), f"{name}.xml") for name in ("footnotes", "comments", "header1", "footer1")]
    [text] = texts(sample_files.docx(tmp_path / "a.docx", body, parts, named))
    assert text.startswith("top\ntides\naround\nboxed")
    assert {"a note", "a remark", "bottom"} <= set(text.splitlines())


def test_deleted_text_settings_and_fallback_content_are_left_out(tmp_path: Path) -> None:
    compatible = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    body = (
        '<w:p><w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr><w:r><w:t>kept</w:t><w:tab/><w:t>too</w:t></w:r>'
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:instrText>PAGE</w:instrText></w:r>"
        f"<mc:AlternateContent {compatible}><mc:Fallback><w:r><w:t>old</w:t></w:r></mc:Fallback></mc:AlternateContent>"
        "</w:p>"
    )
    assert texts(sample_files.docx(tmp_path / "a.docx", body)) == ["kept\ttoo"]


def test_a_document_without_text_is_one_empty_page(tmp_path: Path) -> None:
    assert texts(sample_files.docx(tmp_path / "a.docx", "")) == [""]


def test_slides_come_in_the_order_they_are_shown_with_titles_and_notes(tmp_path: Path) -> None:
    notes = {
        "ppt/slides/_rels/slide2.xml.rels": sample_files.relations(("n", "notesSlide", "../notesSlides/notes.xml")),
        "ppt/notesSlides/notes.xml": slide(shape("speak slowly"), shape("7", "sldNum"), name="notes"),
    }
    made = sample_files.pptx(
        tmp_path / "a.pptx", [slide(shape("Ebb", "title"), shape("low")), slide(shape("flow"))], notes
    )
    assert [(page.label, page.text) for page in pages_of(made)] == [("Ebb", "Ebb\nlow\n\nspeak slowly"), ("", "flow")]
    assert page_count(made) == 2


def test_sheets_are_pages_and_cells_are_formatted(tmp_path: Path) -> None:
    cells = (
        '<row><c r="A1" t="s"><v>1</v></c><c r="C1"><v>1.5</v></c></row>'
        '<row><c r="A2" s="1"><v>45000</v></c><c r="B2" s="2"><v>45000.5</v></c><c r="C2" t="b"><v>1</v></c></row>'
        '<row><c r="XFD3" t="str"><f>A1</f><v>far</v></c></row>'
    )
    parts = {
        "xl/sharedStrings.xml": f'<sst xmlns="{SHEETS}"><si><t>no</t></si>'
        "<si><r><t>high </t></r><r><t>water</t></r><rPh><t>spoken</t></rPh></si></sst>",
        "xl/styles.xml": f'<styleSheet xmlns="{SHEETS}"><numFmts><numFmt numFmtId="170" formatCode="yyyy-mm-dd hh:mm"/>'
        '</numFmts><cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/>'
        '<xf numFmtId="170"/></cellXfs></styleSheet>',
    }
    made = sample_files.xlsx(tmp_path / "a.xlsx", {"Tides": cells, "Empty": ""}, parts)
    first, second = pages_of(made)
    assert first.text.splitlines()[:2] == ["high water\t\t1.5", "2023-03-15\t2023-03-15 12:00:00\tTRUE"]
    assert first.text.splitlines()[2].strip() == "far"
    assert [(page.label, page.number) for page in (first, second)] == [("Tides", 1), ("Empty", 2)]
    assert page_count(made) == 2


def test_a_very_long_sheet_is_several_pages_that_hold_every_row(tmp_path: Path) -> None:
    rows = [f"row {number} " + "x" * 90 for number in range(2500)]
    pages = list(pages_of(sample_files.xlsx(tmp_path / "a.xlsx", {"Long": "".join(map(row, rows))})))
    assert len(pages) == 3
    assert [line for page in pages for line in page.text.splitlines()] == rows
    assert {page.label for page in pages} == {"Long"}
