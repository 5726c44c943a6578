"""Parse CSV with pyarrow, for databases that take tables: about twice as fast as Python where no value is needed.

pyarrow says nothing about where records end. So a record without values is added after the part: if a quote is open
there, it becomes a part of the last field, which is noticed. Whatever is not certain is left to Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.pipelines.files.csv_format import CsvHead
from holdfast.pipelines.files.text_blocks import Parsed
from holdfast.pipelines.files.values import Column, Kind

_UNSAFE: frozenset[Kind] = frozenset(("json", "bytes"))


def arrow_parser(
    head: CsvHead, columns: Sequence[Column], places: Sequence[int | None], encoding: str
) -> ArrowParser | None:
    """Return a parser; None if pyarrow is not installed, or if it reads some values in another way than Python."""
    if (
        len(head.names) < 2
        or encoding.lower().replace("_", "-") not in ("utf-8", "utf8")
        or any(column.kind in _UNSAFE for column in columns)
    ):
        return None
    try:
        import pyarrow as pa
        import pyarrow.compute
        import pyarrow.csv
    except ModuleNotFoundError:
        return None
    return ArrowParser(pa, head, columns, places)


class ArrowParser:
    """Parses parts of a CSV file as tables of the columns of a target."""

    def __init__(self, pa: Any, head: CsvHead, columns: Sequence[Column], places: Sequence[int | None]) -> None:
        self._pa, self._csv = pa, pa.csv
        self._columns = columns
        self._places = places
        self._end = (head.delimiter * (len(head.names) - 1)).encode() + b"\n"
        fields = [f"f{place}" for place in range(len(head.names))]
        kinds = {f"f{place}": column for column, place in zip(columns, places, strict=True) if place is not None}
        types = {
            "integer": pa.int64(),
            "real": pa.float64(),
            "boolean": pa.bool_(),
            "date": pa.date32(),
            "timestamp": pa.timestamp("us"),
            "timestamptz": pa.timestamp("us", "UTC"),
        }
        column_types = {
            name: types.get(kinds[name].kind, pa.string()) if name in kinds else pa.string() for name in fields
        }
        self._read = self._csv.ReadOptions(use_threads=False, column_names=fields, block_size=1 << 30)
        self._convert = self._csv.ConvertOptions(column_types=column_types, null_values=[""], strings_can_be_null=False)
        self._parse = self._csv.ParseOptions(delimiter=head.delimiter, newlines_in_values=True, ignore_empty_lines=True)
        self._header = list(head.header)
        self._has_integers = any(column.kind == "integer" for column in columns)

    def __call__(self, part: bytes) -> Parsed | None:
        """Return the table of a part. None: Python has to look at it."""
        if b"\0" in part or (self._has_integers and (b"0x" in part or b"0X" in part)):
            return None  # pyarrow reads hexadecimal numbers
        if part.count(b"\r") != part.count(b"\r\n"):
            return None
        ended = part if part.endswith(b"\n") else part + b"\n"
        try:
            table = self._csv.read_csv(
                self._pa.BufferReader(ended + self._end),
                read_options=self._read,
                parse_options=self._parse,
                convert_options=self._convert,
            )
        except self._pa.ArrowException:
            return None
        count = table.num_rows - 1
        if count < 0 or any(value.as_py() for value in (column[count] for column in table.columns)):
            return None
        table = table.slice(0, count)
        if self._repeats_header(table) or not self._is_finite(table):
            return None
        arrays = [
            self._pa.nulls(count, self._pa.string()) if place is None else table.column(place) for place in self._places
        ]
        made = self._pa.table(arrays, names=[column.name for column in self._columns])
        return Parsed((), count, 0, len(part), part.count(b"\n") + (ended is not part), table=made)

    def _is_finite(self, table: Any) -> bool:
        pc, types = self._pa.compute, self._pa.types
        return not any(
            pc.all(pc.is_finite(column)).as_py() is False for column in table.columns if types.is_floating(column.type)
        )

    def _repeats_header(self, table: Any) -> bool:
        pc = self._pa.compute
        texts = [(place, column) for place, column in enumerate(table.columns) if self._pa.types.is_string(column.type)]
        if len(texts) != len(table.columns) or not texts:
            return False  # a number cannot be the name of a column
        place, column = texts[0]
        return bool(pc.any(pc.equal(column, self._header[place])).as_py())
