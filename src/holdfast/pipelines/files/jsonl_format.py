"""JSON Lines: one JSON object on each line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from holdfast.pipelines.files.byte_stream import open_stream
from holdfast.pipelines.files.columns import LARGEST, SMALLEST, convert_column
from holdfast.pipelines.files.converters import transformed
from holdfast.pipelines.files.csv_format import BOM, SAMPLE
from holdfast.pipelines.files.text_blocks import Parsed, set_aside
from holdfast.pipelines.files.transform import Transform, value_of
from holdfast.pipelines.files.values import Column, FileOptions, FilePosition, Kind, Refusal, SetAside

_TYPES: dict[Kind, Any] = {
    "text": str | None,
    "integer": Annotated[int, msgspec.Meta(ge=SMALLEST, le=LARGEST)] | None,
    "real": float | None,
    "boolean": bool | None,
    "date": str | None,
    "timestamp": str | None,
    "timestamptz": str | None,
    "json": msgspec.Raw | None,
    "bytes": str | None,
}
_SPECIAL: frozenset[Kind] = frozenset(("date", "timestamp", "timestamptz", "json", "bytes"))
_NUL = b"\\u0000"


def sample_records(path: Path, options: FileOptions, records: int) -> list[dict[str, Any]]:
    """Return the first records that are objects."""
    with open_stream(path, encoding=options.encoding) as stream:
        start = b""
        while len(start) < SAMPLE and (part := stream.read(SAMPLE)):
            start += part
        encoding = stream.encoding
    found: list[dict[str, Any]] = []
    for line in start.removeprefix(BOM).splitlines()[: records + 1]:
        try:
            record = msgspec.json.decode(line.decode(encoding))
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            found.append(record)
    return found[:records]


def names_of(records: Sequence[dict[str, Any]]) -> list[str]:
    """Return the names of all fields, in the order in which they come."""
    return list(dict.fromkeys(name for record in records for name in record))


class JsonlFormat:
    """The records of a JSON Lines file, as a format of texts."""

    def __init__(
        self, columns: Sequence[Column], transform: Transform | None = None, *, encoding: str = "utf-8"
    ) -> None:
        self._columns = columns
        self._names = {column.name for column in columns}
        self._transform = transform
        self._encoding = encoding
        self._decoder = None if transform is not None else _decoder(columns)
        self._special = [place for place, column in enumerate(columns) if column.kind in _SPECIAL]

    def cut(self, buffer: bytes, limit: int) -> int:
        """Return the end of the last line before the limit."""
        return buffer.rfind(b"\n", 0, limit) + 1

    def parse(self, part: bytes) -> Parsed | None:
        if self._decoder is None or _NUL in part:
            return None
        try:
            is_utf8 = self._encoding == "utf-8"
            text = part.removeprefix(BOM) if is_utf8 else part.decode(self._encoding).encode()
            rows = list(map(msgspec.structs.astuple, self._decoder.decode_lines(text)))
            if self._special and rows:
                rows = self._converted(rows)
        except (ValueError, RecursionError):
            return None
        lines = part.count(b"\n") + (not part.endswith(b"\n"))
        return Parsed(rows, len(rows), 0, len(part), lines)

    def _converted(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        fields: list[Sequence[Any]] = list(zip(*rows, strict=True))
        for place in self._special:
            kind = self._columns[place].kind
            if kind == "json":
                fields[place] = [_json_text(value) for value in fields[place]]
            else:
                if "" in fields[place]:
                    raise ValueError("a text is empty")
                fields[place] = convert_column(kind, [value or "" for value in fields[place]])
        return list(zip(*fields, strict=True))

    def parse_records(
        self,
        part: bytes,
        at: FilePosition,
        *,
        final: bool,  # noqa: ARG002 - a line is a record
        limit: int,
    ) -> Parsed:
        rows: list[tuple[Any, ...]] = []
        aside: list[SetAside] = []
        total = filtered = offset = lines = 0
        for number, line in enumerate(_lines(part)):
            if total == limit:
                break
            text = line.removeprefix(BOM) if at.offset + offset == 0 else line
            if text.strip():
                total += 1
                try:
                    made = self._rows(text)
                    rows += made
                    filtered += not made
                except Refusal as refusal:
                    aside.append(set_aside(at, number, offset, str(refusal), line))
            offset += len(line)
            lines += 1
        return Parsed(rows, total, filtered, offset, lines, aside)

    def _rows(self, line: bytes) -> Sequence[tuple[Any, ...]]:
        try:
            record = msgspec.json.decode(line.decode(self._encoding))
        except UnicodeDecodeError as error:
            raise Refusal(
                f"byte {line[error.start]:#04x} at place {error.start} of the line is not {self._encoding.upper()}"
            ) from error
        except RecursionError as error:
            raise Refusal("its values are nested too deep") from error
        except ValueError as error:
            raise Refusal(f"it is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise Refusal(f"it is {_article(record)}, not an object")
        if self._transform is not None:
            return transformed(self._transform, record, self._columns)
        if unknown := [name for name in record if name not in self._names]:
            raise Refusal(f"it has {', '.join(map(repr, unknown))}, which the target does not have")
        row = tuple(value_of(column, record.get(column.name)) for column in self._columns)
        for value in row:
            _refuse_text(value)
        return [row]


def _lines(part: bytes) -> list[bytes]:
    """Return the lines of a part. Only LF ends a line."""
    return [line + b"\n" for line in part.split(b"\n")][: part.count(b"\n")] + (
        [part.rpartition(b"\n")[2]] if not part.endswith(b"\n") else []
    )


def _refuse_text(value: Any) -> None:
    if not isinstance(value, str):
        return
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Refusal("it has half of a surrogate pair, which is no character") from error


def _decoder(columns: Sequence[Column]) -> msgspec.json.Decoder[Any]:
    fields = [(f"f{place}", _TYPES[column.kind], None) for place, column in enumerate(columns)]
    names = {f"f{place}": column.name for place, column in enumerate(columns)}
    record = msgspec.defstruct("Record", fields, rename=names, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(record)


def _json_text(value: Any) -> str | None:
    text = None if value is None else bytes(value).decode()
    return None if text == "null" else text


def _article(value: Any) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "a list"
        case str():
            return "a text"
        case bool():
            return "true or false"
        case _:
            return "a number"
