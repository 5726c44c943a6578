"""CSV, JSON and XML by their structure: each record is a paragraph, and each value has its name."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("selectolax", reason="document search needs the extra rag")

from holdfast.pipelines.rag.extract.file_type import detect_file_type
from holdfast.pipelines.rag.extract.parsers import pages_of
from holdfast.pipelines.rag.extract.parsers.cleaning import PAGE_SIZE


def read(path: Path, content: str, kind: str) -> str:
    path.write_text(content)
    assert detect_file_type(path) == kind
    (page,) = pages_of(path)
    return page.text


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_each_value_of_a_row_has_the_name_of_its_column(tmp_path: Path, delimiter: str) -> None:
    rows = [["Berth", "Fee"], ["North", '"1 250"'], ["South", ""]]
    text = read(tmp_path / "a.csv", "\n".join(delimiter.join(row) for row in rows), "csv")
    assert text == "Berth\tFee\n\nBerth: North\nFee: 1 250\n\nBerth: South"


def test_rows_without_names_keep_their_cells(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", '1,"a ""b"", c"\n2,d\n', "csv") == '1\ta "b", c\n\n2\td'


def test_a_large_table_has_several_pages_that_end_with_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Number,Text\n" + "".join(f"{n},{'ebb ' * 20}\n" for n in range(5000)))
    pages = list(pages_of(path))
    assert len(pages) > 4
    assert all(len(page.text) <= PAGE_SIZE for page in pages)
    assert all(page.text.startswith("Number") for page in pages)
    assert list(pages_of(path, start=2)) == pages[2:]


def test_a_json_record_is_a_paragraph_with_the_names_of_its_values(tmp_path: Path) -> None:
    content = '[{"berth": {"name": "North", "fees": [1, 2.5]}, "open": true, "x": null}, {"berth": "South"}]'
    text = read(tmp_path / "a.json", content, "json")
    assert text == "berth.name: North\nberth.fees: 1, 2.5\nopen: true\n\nberth: South"


def test_each_line_can_be_a_json_record(tmp_path: Path) -> None:
    assert read(tmp_path / "a.jsonl", '{"a": "ebb"}\n\n{"a": "flow"}\n', "json") == "a: ebb\n\na: flow"


def test_what_is_no_json_is_read_as_text(tmp_path: Path) -> None:
    assert read(tmp_path / "a.json", '{"a": ebb}', "json") == '{"a": ebb}'
    assert read(tmp_path / "b.json", "[" * 100_000, "json") == "[" * 100_000


def test_an_xml_element_with_text_is_a_line_with_its_name(tmp_path: Path) -> None:
    content = """<?xml version="1.0"?><!DOCTYPE h SYSTEM "h.dtd"><h xmlns="u">
        <berth id="7"><name>North <b>quay</b></name>
        <fee>5</fee></berth><berth><name>South</name></berth></h>"""
    text = read(tmp_path / "a", content, "xml")
    assert text == "berth: id=7\nname: North quay\nfee: 5\n\nname: South"


def test_xml_with_entities_or_errors_is_read_as_text(tmp_path: Path) -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "ebb">]><a>&b;&b;</a>'
    assert read(tmp_path / "a.xml", bomb, "xml") == bomb
    assert read(tmp_path / "b.xml", "<a><b>ebb</a>", "xml") == "<a><b>ebb</a>"
