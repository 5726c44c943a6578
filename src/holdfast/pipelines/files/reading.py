"""Read a file of any format, from a cursor on, as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.pipelines.files.byte_stream import compression_of, open_stream
from holdfast.pipelines.files.columns import infer_columns, match_columns, number_or_text, unique_names
from holdfast.pipelines.files.converters import TextConverter, TransformConverter
from holdfast.pipelines.files.csv_format import Converter, CsvFormat, CsvHead, read_head
from holdfast.pipelines.files.jsonl_format import JsonlFormat, names_of, sample_records
from holdfast.pipelines.files.text_blocks import NO_LIMIT, Pace, text_blocks
from holdfast.pipelines.files.transform import Transform, as_records
from holdfast.pipelines.files.values import Column, FileOptions, FilePosition, FilesError, Format, RecordBlock, Refusal

SAMPLE_RECORDS = 10_000
_SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".tab": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jsonlines": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def format_of(path: Path, name: str = "") -> Format:
    """Return the format of a file: its name decides, otherwise its first bytes.

    Args:
        path: The file.
        name: Its name, if the path is that of a copy.
    """
    for suffix in reversed(Path(name or path.name).suffixes):
        if (known := _SUFFIXES.get(suffix.lower())) is not None:
            return known
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return "parquet"
    with open_stream(path) as stream:
        start = stream.read(4096).lstrip()
    return "jsonl" if start.startswith(b"{") else "csv"


def file_type(path: Path, name: str = "") -> str:
    """Return the type of a file for people: `csv`, or `csv.gzip`."""
    compression = compression_of(path)
    return ".".join(part for part in (format_of(path, name), compression) if part)


def infer_target(path: Path, options: FileOptions, transform: Transform | None = None) -> list[Column]:
    """Return the columns that a target for files like this one needs. They are inferred from its first records.

    Raises:
        FilesError: Nothing can be inferred, because the file has no records.
        FileRefused: The file cannot be read.
    """
    if transform is not None and transform.columns is not None:
        return transform.columns
    names, records = _sample(path, options)
    kind_of_text = number_or_text if format_of(path) == "csv" else None
    if transform is None:
        return infer_columns(names, records, options.types, kind_of_text=kind_of_text)
    made = [result for record in records for result in _tried(transform, dict(zip(names, record, strict=False)))]
    if not made:
        raise FilesError(
            f"{transform.name} returned no record for the first ones of {path}, so the columns of the target are not "
            "known: annotate what it returns with a class, such as a dataclass, or create the table yourself"
        )
    fields = names_of([dict(result) for result in made])
    values = [[result.get(name) for name in fields] for result in made]
    return infer_columns(fields, values, options.types, kind_of_text=kind_of_text)


def _tried(transform: Transform, record: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    if transform.record is not None:
        return []
    try:
        return list(as_records(transform.function(dict(record))))
    except Exception:  # noqa: BLE001 - user code: only records that work say something about columns
        return []


def _sample(path: Path, options: FileOptions) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    match format_of(path):
        case "parquet":
            raise AssertionError("the columns of a Parquet file are in its schema")
        case "jsonl":
            found = sample_records(path, options, SAMPLE_RECORDS)
            names = names_of(found)
            if not names:
                raise FilesError(f"{path} has no records from which the columns of the target could be inferred")
            return names, [[record.get(name) for name in names] for record in found]
        case "csv":
            head = read_head(path, options, records=SAMPLE_RECORDS)
            if head is None:
                raise FilesError(f"{path} is empty, so the columns of the target cannot be inferred from it")
            width, header = len(head.names), list(head.header)
            return head.names, [one for one in head.sample if len(one) == width and one != header]


def target_columns(path: Path, options: FileOptions, transform: Transform | None = None) -> list[Column]:
    """Return the columns of a new target, for files like this one."""
    if (transform is None or transform.columns is None) and format_of(path) == "parquet":
        from holdfast.pipelines.files.parquet_blocks import parquet_columns

        if transform is not None:
            raise FilesError(f"annotate what {transform.name} returns with a class, such as a dataclass")
        return [Column(column.name, options.types.get(column.name, column.kind)) for column in parquet_columns(path)]
    return infer_target(path, options, transform)


def read_blocks(
    path: Path,
    columns: Sequence[Column],
    *,
    options: FileOptions,
    at: FilePosition,
    pace: Pace,
    transform: Transform | None = None,
    as_tables: bool = False,
    name: str = "",
) -> Iterator[tuple[FilePosition, RecordBlock]]:
    """Yield the blocks of a file, each with the progress after it.

    Args:
        path: The file.
        columns: The columns of the target.
        options: How files are read.
        at: Where to start.
        pace: How many records a block has.
        transform: A function of the user that is called with each record.
        as_tables: Whether blocks may have a table of pyarrow instead of rows.
        name: The name of the file, if the path is that of a copy.

    Raises:
        FileRefused: The file can never be read as it is.
        OSError: The file cannot be read now.
    """
    form = format_of(path, name)
    if form == "parquet":
        from holdfast.pipelines.files.parquet_blocks import parquet_blocks

        yield from parquet_blocks(path, at, columns, pace, transform=transform, as_table=as_tables)
        return
    if not path.stat().st_size:
        return
    text_format: CsvFormat | JsonlFormat
    start = FilePosition()
    if form == "jsonl":
        with open_stream(path, encoding=options.encoding) as stream:
            text_format = JsonlFormat(columns, transform, encoding=stream.encoding)
    else:
        made = _csv_format(path, columns, options, transform, as_tables=as_tables)
        if made is None:
            return
        text_format = made
        start = FilePosition(made.head.offset, made.head.lines)
    with open_stream(path, encoding=options.encoding) as stream:
        if not at.offset:
            stream.skip_head(start.offset)
            at = start
        else:
            stream.skip(at.offset, at.check)
        yield from text_blocks(stream, at, text_format, pace, max_record=options.max_record)


def _csv_format(
    path: Path,
    columns: Sequence[Column],
    options: FileOptions,
    transform: Transform | None,
    *,
    as_tables: bool,
) -> CsvFormat | None:
    head = read_head(path, options)
    if head is None:
        return None
    with open_stream(path, encoding=options.encoding) as stream:
        encoding = stream.encoding
    converter = _converter(head, columns, transform, str(path))
    fast = None
    if as_tables and transform is None:
        from holdfast.pipelines.files.arrow_csv import arrow_parser

        fast = arrow_parser(head, columns, match_columns(head.names, columns, str(path)), encoding)
    return CsvFormat(head, converter, encoding=encoding, fast=fast)


def _converter(head: CsvHead, columns: Sequence[Column], transform: Transform | None, where: str) -> Converter:
    if transform is not None:
        return TransformConverter(transform, columns, head.names)
    return TextConverter(columns, match_columns(head.names, columns, where))


class RecordForm(Struct, frozen=True):
    """How single records of a file are read.

    Attributes:
        names: The fields of its header, if it is a CSV file. None: it has JSON Lines.
        delimiter: Its delimiter.
    """

    names: Sequence[str] | None
    delimiter: str = ","


def read_record(
    raw: bytes, form: RecordForm, columns: Sequence[Column], options: FileOptions, transform: Transform | None = None
) -> Sequence[tuple[Any, ...]]:
    """Return the rows of one record that was mended.

    Args:
        raw: The record.
        form: How it is read.
        columns: The columns of the target.
        options: How files are read.
        transform: A function of the user.

    Raises:
        Refusal: It is still no good record.
    """
    records: CsvFormat | JsonlFormat
    if form.names is None:
        records = JsonlFormat(columns, transform)
    else:
        head = CsvHead(form.delimiter, list(form.names), unique_names(form.names), 0, 0, ())
        records = CsvFormat(head, _converter(head, columns, transform, "the record"), encoding=options.encoding)
    parsed = records.parse_records(raw, FilePosition(1), final=True, limit=NO_LIMIT)
    if parsed.aside:
        raise Refusal(parsed.aside[0].reason)
    return parsed.rows


def record_form(path: Path, options: FileOptions, name: str = "") -> RecordForm:
    """Return how single records of a file are read."""
    if format_of(path, name) != "csv":
        return RecordForm(None)
    head = read_head(path, options)
    return RecordForm(None) if head is None else RecordForm(list(head.header), head.delimiter)
