"""XLSX: numbers as people see them, text boxes and comments."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.pipelines.rag.extract.parsers import pages_of
from holdfast.pipelines.rag.extract.parsers.xlsx import format_number
from tests.support import sample_files


@pytest.mark.parametrize(
    ("value", "code", "shown"),
    [
        ("0.30000000000000004", "", "0.3"),
        ("1250", "", "1250"),
        ("1E-3", "", "1E-3"),
        ("1250.5", "#,##0.00", "1,250.50"),
        ("0.125", "0.0%", "12.5%"),
        ("7", "0", "7"),
        ("1250", "[$€-407]#,##0.00;-[$€-407]#,##0.00", "€1,250.00"),
        ("1250", '#,##0.00" EUR"', "1,250.00 EUR"),
        ("1250", '#,##0.00\\ "€"', "1,250.00 €"),
        ("12345678901234567890", "0", "1.23456789012346e+19"),
        ("2.5", "# ?/?", "2.5"),
        ("words", "0.00", "words"),
        ("nan", "0.00", "nan"),
    ],
)
def test_a_number_is_shown_as_its_cell_shows_it(value: str, code: str, shown: str) -> None:
    assert format_number(value, code) == shown


def test_cells_have_their_format_and_text_boxes_and_comments_follow_the_rows(tmp_path: Path) -> None:
    sheets = sample_files.SHEETS
    parts = {
        "xl/styles.xml": f'<styleSheet xmlns="{sheets}"><numFmts><numFmt numFmtId="170" formatCode="0.000"/></numFmts>'
        '<cellXfs><xf numFmtId="0"/><xf numFmtId="4"/><xf numFmtId="170"/></cellXfs></styleSheet>',
        "xl/worksheets/_rels/sheet0.xml.rels": sample_files.relations(
            ("c", "comments", "../comments1.xml"), ("d", "drawing", "../drawings/drawing1.xml")
        ),
        "xl/comments1.xml": f'<comments xmlns="{sheets}"><comment><text><r><t>Ask the </t></r><r><t>harbour</t></r>'
        "</text></comment></comments>",
        "xl/drawings/drawing1.xml": f'<d xmlns:a="{sample_files.DRAWING}"><a:p><a:r><a:t>Low water</a:t></a:r></a:p>'
        "</d>",
    }
    cells = '<row><c s="1"><v>1250.5</v></c><c s="2"><v>1.5</v></c><c><v>0.30000000000000004</v></c></row>'
    (page,) = pages_of(sample_files.xlsx(tmp_path / "a.xlsx", {"Fees": cells}, parts))
    assert page.text == "1,250.50\t1.500\t0.3\nAsk the harbour\nLow water"
