"""Make rows of records: typed as the columns of the target, or what a transform returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from holdfast.core.error_categories import is_recoverable
from holdfast.pipelines.files.columns import WORDS, convert_column, convert_text
from holdfast.pipelines.files.transform import Transform
from holdfast.pipelines.files.values import Column, Refusal

Row = tuple[Any, ...]


class TextConverter:
    """Converts records of texts to the types of the columns, a column at a time."""

    is_one_to_one = True

    def __init__(self, columns: Sequence[Column], places: Sequence[int | None]) -> None:
        self._columns = columns
        self._places = places
        self._needs_no_conversion = all(
            place == number and column.kind == "text"
            for number, (place, column) in enumerate(zip(places, columns, strict=True))
        )

    def convert_all(self, records: Sequence[Sequence[str]]) -> Sequence[Row]:
        """Return the rows of many records. Raise ValueError if one cannot be converted."""
        if self._needs_no_conversion and len(records[0]) == len(self._columns):
            return [tuple(record) for record in records]
        fields = list(zip(*records, strict=True))
        columns = [
            repeat(None, len(records)) if place is None else convert_column(column.kind, fields[place])
            for column, place in zip(self._columns, self._places, strict=True)
        ]
        return list(zip(*columns, strict=True))

    def convert(self, record: Sequence[str]) -> Sequence[Row]:
        """Return the row of one record. Raise Refusal if it cannot be converted."""
        row = []
        for column, place in zip(self._columns, self._places, strict=True):
            try:
                row.append(None if place is None else convert_text(column.kind, record[place]))
            except ValueError:
                value = record[place or 0]
                shown = value if len(value) <= 60 else f"{value[:60]}..."
                raise Refusal(f"its {column.name!r} is {shown!r}, which is not {WORDS[column.kind]}") from None
        return [tuple(row)]


class TransformConverter:
    """Calls a transform with each record."""

    is_one_to_one = False

    def __init__(self, transform: Transform, columns: Sequence[Column], names: Sequence[str]) -> None:
        self._transform = transform
        self._columns = columns
        self._names = names

    def convert_all(self, records: Sequence[Sequence[str]]) -> Sequence[Row]:  # noqa: ARG002 - as in Converter
        """Refuse: records are passed to a transform one by one, so that a bad one is known."""
        raise ValueError("a transform gets one record at a time")

    def convert(self, record: Sequence[str]) -> Sequence[Row]:
        """Return the rows that the transform makes of a record. Raise Refusal if it cannot."""
        return transformed(self._transform, dict(zip(self._names, record, strict=True)), self._columns)


def transformed(transform: Transform, record: Mapping[str, Any], columns: Sequence[Column]) -> Sequence[Row]:
    """Return the rows that a transform makes of a record.

    Raises:
        Refusal: The transform raised an error, or its result does not fit the columns.
        Exception: What it raised, if it can go away by itself: then the file is tried again.
    """
    try:
        return transform.rows(record, columns)
    except Refusal:
        raise
    except Exception as error:  # user code: any error sets the record aside, unless it can go away by itself
        if is_recoverable(error):
            raise
        raise Refusal(f"the transform raised {type(error).__name__}: {error}") from error
