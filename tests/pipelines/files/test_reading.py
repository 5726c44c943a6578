"""What the files of the shared record data become, row for row and bad line for bad line."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.pipelines.files.reading import read_blocks, target_columns
from holdfast.pipelines.files.text_blocks import Pace
from holdfast.pipelines.files.values import Column, FileOptions, FilePosition, FileRefused, FilesError, SetAside

ROOT = Path(__file__).resolve().parents[3]
RECORDS = Path(os.environ.get("HOLDFAST_DATA", ROOT.parent / "shared" / "data")) / "records"
OWN = RECORDS / "own"
TRUTH: dict[str, Any] = json.loads((OWN / "truth.json").read_text()) if OWN.is_dir() else {}
needs_records = pytest.mark.skipif(not TRUTH, reason="HOLDFAST_DATA names no folder with record files")
OF_ENCODING = {"cp1252.csv": "cp1252", "semicolon_decimal_comma_cp1252.csv": "cp1252"}


def read(
    path: Path, columns: list[Column] | None = None, *, every: int = 700, as_tables: bool = False, encoding: str = ""
) -> tuple[list[tuple[Any, ...]], list[SetAside]]:
    """Read a file, and start again from each cursor: so every block is read by a stream that was resumed."""
    options = FileOptions(encoding=encoding or OF_ENCODING.get(path.name, "utf-8"))
    columns = columns or target_columns(path, options)
    at, rows, aside = FilePosition(), list[tuple[Any, ...]](), list[SetAside]()
    while True:
        blocks = read_blocks(path, columns, options=options, at=at, pace=Pace(every), as_tables=as_tables)
        found = next(blocks, None)
        if found is None:
            return rows, aside
        at, block = found
        assert block.total <= every
        rows += block.rows if block.table is None else [tuple(row.values()) for row in block.table.to_pylist()]
        aside += block.aside


def texts(path: Path) -> list[Column]:
    return [
        Column(column.name)
        for column in target_columns(path, FileOptions(encoding=OF_ENCODING.get(path.name, "utf-8")))
    ]


@needs_records
@pytest.mark.parametrize(
    "name", [name for name, truth in TRUTH.items() if truth.get("rows") is not None and not name.endswith("parquet")]
)
def test_a_file_has_the_rows_of_its_truth_also_if_each_block_is_resumed(name: str) -> None:
    truth = TRUTH[name]
    if name == "empty.csv":
        assert list(read_blocks(OWN / name, [], options=FileOptions(), at=FilePosition(), pace=Pace())) == []
        return
    if name.endswith(".zst"):
        pytest.importorskip("pyarrow")
    rows, aside = read(OWN / name)
    empty = sum("empty" in why for why in truth.get("bad_lines", {}).values())
    assert len(rows) + len(aside) + empty == truth["rows"]


@needs_records
@pytest.mark.parametrize("name", [name for name, truth in TRUTH.items() if "cells_sha256" in truth])
def test_the_cells_of_a_file_are_those_of_its_truth(name: str) -> None:
    if name.endswith(".zst"):
        pytest.importorskip("pyarrow")
    rows, aside = read(OWN / name, texts(OWN / name))
    plain, _ = read(OWN / "base.csv", texts(OWN / "base.csv"), every=10_000)
    with (OWN / "base.csv").open(newline="", encoding="utf-8") as file:
        _, *cells = csv.reader(file)
    assert rows == plain == [tuple(record) for record in cells]
    assert aside == []
    assert TRUTH[name]["cells_sha256"] == TRUTH["base.csv"]["cells_sha256"]


@needs_records
def test_bad_lines_of_a_csv_file_are_set_aside_by_line() -> None:
    rows, aside = read(OWN / "dirty.csv")
    assert [(one.line, one.reason.split(",")[0]) for one in aside] == [
        (11, "it has 2 fields"),
        (51, "it has 8 fields"),
        (301, "it has 1 field"),
        (501, "it repeats the header"),
        (601, "it has a NUL character"),
    ]
    lines = (OWN / "dirty.csv").read_bytes().split(b"\n")
    assert all(one.raw.rstrip(b"\n") == lines[one.line - 1] for one in aside)
    blank = sum(not line for line in lines)
    assert len(rows) + len(aside) + blank + 1 == len(lines)


@needs_records
def test_a_quote_that_is_never_closed_costs_one_line() -> None:
    rows, aside = read(OWN / "wrong_counts_open_quote.csv")
    assert [one.line for one in aside] == [11, 51, 101]
    assert len(rows) == 997


@needs_records
def test_lines_that_are_not_utf8_are_set_aside() -> None:
    rows, aside = read(OWN / "mixed_encoding.csv")
    assert (len(rows), len(aside)) == (197, 3)
    assert "is not UTF-8" in aside[0].reason


@needs_records
def test_bad_lines_of_a_json_lines_file_are_set_aside_by_line() -> None:
    columns = target_columns(OWN / "base.jsonl", FileOptions())
    _, aside = read(OWN / "dirty.jsonl", columns)
    reasons = {one.line: one.reason for one in aside}
    bad = {
        int(line)
        for line, why in TRUTH["dirty.jsonl"]["bad_lines"].items()
        if "valid" not in why and "empty" not in why
    }
    assert bad - {30, 35} <= reasons.keys()
    assert not {10, 50} & reasons.keys()
    assert reasons[20] == "it is null, not an object"
    assert "nested" in reasons[60]


@needs_records
@pytest.mark.parametrize("name", ["truncated.csv.gz", "garbage_tail.csv.gz", "truncated.parquet", "bitflip.parquet"])
def test_a_file_that_is_cut_or_damaged_is_refused(name: str) -> None:
    pytest.importorskip("pyarrow")
    columns = (
        texts(OWN / "base.csv") if "csv" in name else target_columns(OWN / "rowgroups_snappy.parquet", FileOptions())
    )
    with pytest.raises(FileRefused, match=r"cut or damaged|is damaged"):
        read(OWN / name, columns)


@needs_records
@pytest.mark.parametrize("name", ["rowgroups_snappy.parquet", "rowgroups_zstd.parquet", "zero_rows.parquet"])
def test_the_rows_of_a_parquet_file_are_read_from_any_row_group(name: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows, _ = read(OWN / name)
    whole = parquet.read_table(OWN / name)
    assert len(rows) == TRUTH[name]["rows"]
    assert [row[0] for row in rows] == whole.column(0).to_pylist()


@needs_records
@pytest.mark.parametrize("path", sorted((RECORDS / "csv-spectrum" / "csvs").glob("*.csv")), ids=lambda path: path.stem)
def test_the_rows_of_csv_spectrum_are_those_of_its_json(path: Path) -> None:
    truth = json.loads((RECORDS / "csv-spectrum" / "json" / f"{path.stem}.json").read_text())
    columns = texts(path)
    rows, aside = read(path, columns)
    made = [dict(zip((column.name for column in columns), row, strict=True)) for row in rows]
    assert aside == []
    expected = truth if isinstance(truth, list) else made  # one has GeoJSON
    assert json.dumps(made) == json.dumps(expected).replace(r"\r\n", r"\n")  # the CSV file has no CR inside quotes


@needs_records
@pytest.mark.parametrize("folder", ["duckdb-csv", "frictionless", "duckdb-json", "arrow-csv"])
def test_every_file_ends_in_rows_or_in_a_sentence(folder: str) -> None:
    """Both ways of reading, as a whole and record by record, give the same rows; and each line is accounted for."""
    pytest.importorskip("pyarrow")
    count = 0
    for path in sorted((RECORDS / folder).rglob("*")):
        if not path.is_file() or path.suffix not in (".csv", ".tsv", ".gz", ".zst", ".ndjson", ".jsonl"):
            continue
        if path.stat().st_size > 1_000_000:
            continue
        count += 1
        try:
            columns = target_columns(path, FileOptions())
            whole = read(path, columns, every=50_000)
            small = read(path, columns, every=23) if path.stat().st_size < 10_000 else whole
        except (FileRefused, FilesError):
            continue
        assert small == whole, path
    assert count


@needs_records
@pytest.mark.parametrize(
    "path",
    [path for path in sorted(RECORDS.glob("parquet-testing/**/*.parquet")) if "large_string_map" not in path.name],
    ids=lambda path: path.stem,
)  # that one has a text of 2 GiB
def test_every_parquet_file_ends_in_rows_or_in_a_sentence(path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    try:
        rows, _ = read(path, every=10_000)
    except (FileRefused, FilesError):
        return
    metadata = parquet.ParquetFile(path).metadata
    groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert len(rows) == sum(groups)


def test_pyarrow_and_python_read_the_same_rows(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["id", "text", "ratio"])
    for number in range(2000):
        texts_of = ["plain", 'a "b" c', "two\nlines", "", "x,y", "'", "ü€"]
        writer.writerow([number, texts_of[number % 7], "" if number % 5 == 0 else repr(number / 7)])
    path = tmp_path / "a.csv"
    path.write_text(out.getvalue(), encoding="utf-8", newline="")
    assert read(path, as_tables=True) == read(path) == read(path, every=10_000, as_tables=True)


@pytest.mark.parametrize("bad", ['x,"open\n', '5" disk,"a\n', "0x1F,hex\n", "1_0,a\n", "nan,a\n", "id,text\n", "\r,\n"])
def test_pyarrow_and_python_agree_about_bad_records(tmp_path: Path, bad: str) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.csv"
    good = "".join(f'{number},"t{number}"\n' for number in range(50))
    path.write_text("id,text\n" + good + bad + good, encoding="utf-8", newline="")
    columns = [Column("id", "integer"), Column("text")]
    for every in (7, 60, 1000):
        assert read(path, columns, every=every, as_tables=True) == read(path, columns, every=1000), every


def test_a_file_in_which_lines_were_replaced_is_not_continued(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"id\n" + b"1\n" * 100))
    options, columns = FileOptions(), [Column("id", "integer")]
    at, _ = next(read_blocks(path, columns, options=options, at=FilePosition(), pace=Pace(10)))
    path.write_bytes(gzip.compress(b"id\n" + b"2\n" * 100))
    with pytest.raises(FileRefused, match="is not the file that was loaded up to byte"):
        next(read_blocks(path, columns, options=options, at=at, pace=Pace(10)))
