"""Parquet: blocks of rows, row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.distribution import install_command
from holdfast.pipelines.files.columns import match_columns
from holdfast.pipelines.files.converters import transformed
from holdfast.pipelines.files.text_blocks import Pace
from holdfast.pipelines.files.transform import Transform
from holdfast.pipelines.files.values import (
    MAX_RAW,
    Column,
    FilePosition,
    FileRefused,
    Kind,
    RecordBlock,
    Refusal,
    SetAside,
)


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise FileRefused(f"Parquet files need pyarrow, which is not installed: {install_command('files')}") from error
    return pa


def parquet_columns(path: Path) -> list[Column]:
    """Return the columns of a file.

    Raises:
        FileRefused: It is no Parquet file, or pyarrow is not installed.
    """
    pa = _pyarrow()
    with _open(pa, path) as file:
        return [Column(field.name, _kind_of(pa, field.type)) for field in file.schema_arrow]


def parquet_blocks(
    path: Path,
    at: FilePosition,
    columns: Sequence[Column],
    pace: Pace,
    *,
    transform: Transform | None = None,
    as_table: bool = False,
) -> Iterator[tuple[FilePosition, RecordBlock]]:
    """Yield blocks of rows, each with the progress after it.

    Args:
        path: The file.
        at: Where to start.
        columns: The columns of the target.
        pace: How many rows a block has.
        transform: A function of the user that is called with each record.
        as_table: Whether blocks have a table of pyarrow instead of rows.

    Raises:
        FileRefused: The file is damaged, or its columns do not fit the target.
    """
    pa = _pyarrow()
    with _open(pa, path) as file:
        names = list(file.schema_arrow.names)
        places = None if transform is not None else match_columns(names, columns, str(path))
        for group in range(at.offset, file.num_row_groups):
            first = at.line if group == at.offset else 0
            table = _read(pa, path, file, group)
            while first < table.num_rows:
                part = table.slice(first, pace.records)
                first += part.num_rows
                is_end = first >= table.num_rows
                if transform is not None:
                    block = _transformed(part, transform, columns, group, first - part.num_rows)
                else:
                    assert places is not None
                    block = _block(pa, path, part, columns, places, as_table=as_table)
                at = FilePosition(
                    group + 1 if is_end else group,
                    0 if is_end else first,
                    at.total + part.num_rows,
                    at.aside + len(block.aside),
                )
                yield at, block


def _open(pa: Any, path: Path) -> Any:
    try:
        file = pa.parquet.ParquetFile(path, page_checksum_verification=True)
        _ = file.schema_arrow  # a type that pyarrow does not know is an error here
    except (pa.ArrowException, ValueError, OSError) as error:
        _reraise_of_system(error)
        raise FileRefused(
            f"{path} is no complete Parquet file ({error}): it is cut or damaged. Get it again"
        ) from error
    return file


def _read(pa: Any, path: Path, file: Any, group: int) -> Any:
    try:
        return file.read_row_group(group, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        _reraise_of_system(error)
        raise FileRefused(f"row group {group} of {path} cannot be read ({error}): the file is damaged") from error


def _block(
    pa: Any, path: Path, part: Any, columns: Sequence[Column], places: Sequence[int | None], *, as_table: bool
) -> RecordBlock:
    arrays = []
    for column, place in zip(columns, places, strict=True):
        if place is None:
            arrays.append(pa.nulls(part.num_rows, pa.string()))
            continue
        arrays.append(_cast(pa, path, part.column(place), column))
    if as_table:
        table = pa.table(arrays, names=[column.name for column in columns])
        return RecordBlock(table=table, total=part.num_rows)
    return RecordBlock(_rows(path, arrays), total=part.num_rows)


def _rows(path: Path, arrays: Sequence[Any]) -> list[tuple[Any, ...]]:
    return list(zip(*(_values(path, array) for array in arrays), strict=True))


def _values(path: Path, array: Any) -> list[Any]:
    """Return the values of a column. Raise FileRefused if Python has no such value, as a date after the year 9999."""
    try:
        found: list[Any] = array.to_pylist()
    except (ValueError, OverflowError) as error:
        raise FileRefused(f"a value of {path} cannot be read: {error}") from error
    return found


def _reraise_of_system(error: BaseException) -> None:
    """Raise an error of the system again: nothing is known about the file then."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def _cast(pa: Any, path: Path, array: Any, column: Column) -> Any:
    kind, have = column.kind, array.type
    if kind == "json" or pa.types.is_nested(have):
        texts = [None if value is None else _json(value) for value in _values(path, array)]
        return pa.array(texts, pa.string())
    wanted = {
        "text": pa.string(),
        "integer": pa.int64(),
        "real": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.string(),
        "timestamp": pa.string(),
        "timestamptz": pa.string(),
        "bytes": pa.binary(),
    }[kind]
    if have == wanted:
        return array
    try:
        if kind == "text" and pa.types.is_binary(have):
            return array.cast(pa.string())
        return array.cast(wanted)
    except (pa.ArrowException, ValueError) as error:
        raise FileRefused(
            f"the column {column.name!r} of {path} is {have}, which does not fit the target, where it is {kind}: "
            f"{error}"
        ) from error


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _transformed(part: Any, transform: Transform, columns: Sequence[Column], group: int, first: int) -> RecordBlock:
    rows: list[tuple[Any, ...]] = []
    aside: list[SetAside] = []
    filtered = 0
    for number, record in enumerate(part.to_pylist(), first):
        try:
            made = transformed(transform, record, columns)
            rows += made
            filtered += not made
        except Refusal as refusal:
            aside.append(SetAside(number + 1, group, str(refusal), _json(record).encode()[:MAX_RAW]))
    return RecordBlock(rows, total=part.num_rows, filtered=filtered, aside=aside)


def _kind_of(pa: Any, type_: Any) -> Kind:
    types = pa.types
    if types.is_timestamp(type_):
        return "timestamp" if type_.tz is None else "timestamptz"
    checks: tuple[tuple[Any, Kind], ...] = (
        (types.is_boolean, "boolean"),
        (types.is_integer, "integer"),
        (types.is_floating, "real"),
        (types.is_date, "date"),
        (types.is_binary, "bytes"),
        (types.is_large_binary, "bytes"),
        (types.is_fixed_size_binary, "bytes"),
        (types.is_nested, "json"),
    )
    return next((kind for check, kind in checks if check(type_)), "text")
