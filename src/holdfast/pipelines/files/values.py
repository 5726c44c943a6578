"""Values of record files: columns, what a block of records brings, and records that were set aside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from msgspec import Struct

from holdfast.core.errors import HoldfastError, Reject

Kind = Literal["text", "integer", "real", "boolean", "date", "timestamp", "timestamptz", "json", "bytes"]
"""The type of a column. A `timestamp` has no time zone, a `timestamptz` has one."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Format = Literal["csv", "jsonl", "parquet"]
Compression = Literal["", "gzip", "zstd", "bzip2", "xz"]

MAX_RAW = 64 * 1024
"""Bytes of a record that are kept when it is set aside. The file has the rest."""


class FilesError(HoldfastError):
    """A load cannot begin: a type, a table or an option does not fit. The message says what to do."""


class FileRefused(Reject):
    """A file can never be loaded as it is. Its document becomes a dead letter."""


class Refusal(ValueError):
    """A record that cannot be loaded. Its text is the reason."""


class FileChanged(FileRefused):
    """A file is not the version that was submitted. A new `load` takes the new version."""


class TooManySetAside(FileRefused):
    """More records of a file were set aside than allowed."""


class Column(Struct, frozen=True):
    """A column of the target.

    Attributes:
        name: Its name, in the file and in the target.
        kind: The type of its values.
    """

    name: str
    kind: Kind = "text"


class SetAside(Struct, frozen=True):
    """A record that could not be loaded.

    Attributes:
        line: The number of its first line, from 1. For Parquet: the number of the row.
        offset: Where it starts in the uncompressed file, in bytes. For Parquet: the number of the row group.
        reason: Why, as a sentence.
        raw: The record as the file has it, at most 64 KiB.
        number: Its number in the table `file_set_aside`. 0: it is not stored yet.
        url: The file.
    """

    line: int
    offset: int
    reason: str
    raw: bytes
    number: int = 0
    url: str = ""


class RecordBlock:
    """Records that are committed together.

    `rows` are tuples in the order of the columns. `table` has them as a pyarrow table instead, for PostgreSQL.
    """

    __slots__ = ("aside", "failed", "filtered", "is_last", "milliseconds", "rows", "table", "total")

    def __init__(
        self,
        rows: Sequence[tuple[Any, ...]] = (),
        *,
        total: int = 0,
        filtered: int = 0,
        aside: Sequence[SetAside] = (),
        table: Any = None,
    ) -> None:
        self.rows = rows
        self.table = table
        self.total = total
        self.filtered = filtered
        self.aside = aside
        self.milliseconds = 0.0
        self.is_last = False

    @property
    def count(self) -> int:
        """How many rows it has."""
        return len(self.rows) if self.table is None else int(self.table.num_rows)


class FileOptions(Struct, frozen=True, kw_only=True):
    """How files are read.

    Attributes:
        encoding: The encoding of texts. UTF-16 is recognised by its byte order mark.
        delimiter: The delimiter of CSV files. Empty: it is recognised.
        types: Types of columns, instead of the inferred ones.
        max_record: Bytes of the longest record.
    """

    encoding: str = "utf-8"
    delimiter: str = ""
    types: Mapping[str, Kind] = {}
    max_record: int = 8 << 20


class FilePosition(Struct, frozen=True):
    """Where a load is in its file: the cursor of its step.

    Attributes:
        offset: Bytes of the uncompressed file before the next record. For Parquet: the row group.
        line: Lines before the next record. For Parquet: rows of the row group before the next one.
        total: Records before the next one.
        aside: How many of them were set aside.
        check: A hash of the bytes before the offset, for compressed files.
    """

    offset: int = 0
    line: int = 0
    total: int = 0
    aside: int = 0
    check: str = ""
