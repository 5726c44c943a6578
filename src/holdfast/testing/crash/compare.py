"""Compare the state after a killed and resumed run with the state after an undisturbed run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from holdfast.testing.crash.report import Difference
from holdfast.testing.crash.snapshot import DocumentSnapshot, Snapshot, TableSnapshot

MAX_VALUE_LENGTH = 160
"""Longest value that is shown in full, in characters."""

EMPTY = TableSnapshot([], [])


def differences(expected: Snapshot, found: Snapshot) -> list[Difference]:
    """Return all differences. Tables come first, because they show the damage."""
    return [
        *_of_tables(expected.tables, found.tables),
        *_of_documents(expected.documents, found.documents),
        *_of_documents(expected.chained, found.chained),
    ]


def _of_tables(expected: Mapping[str, TableSnapshot], found: Mapping[str, TableSnapshot]) -> Iterator[Difference]:
    for name in sorted(expected.keys() | found.keys()):
        yield from _of_table(name, expected.get(name, EMPTY), found.get(name, EMPTY))


def _of_table(name: str, expected: TableSnapshot, found: TableSnapshot) -> Iterator[Difference]:
    place, columns = f"table {name}", expected.columns or found.columns
    wanted, there = Counter(map(tuple, expected.rows)), Counter(map(tuple, found.rows))
    culprits = tuple(f"{name}.{column}" for column in _differing_columns(columns, expected.rows, found.rows))
    for row in sorted(wanted.keys() | there.keys()):
        more = there[row] - wanted[row]
        text = _row(columns, row)
        if more < 0:
            yield Difference(place, "missing", text, _counts(wanted[row], there[row]), culprits)
        elif more and wanted[row]:
            yield Difference(place, "twice", text, _counts(wanted[row], there[row]), culprits)
        elif more:
            yield Difference(place, "extra", text, _counts(0, there[row]) if more > 1 else "", culprits)


def _differing_columns(columns: Sequence[str], *tables: Sequence[Sequence[str]]) -> Iterator[str]:
    for place, column in enumerate(columns):
        expected, found = (Counter(row[place] for row in rows) for rows in tables)
        if expected != found:
            yield column


def _counts(wanted: int, there: int) -> str:
    return "" if (wanted, there) == (1, 0) else f"{there} times, undisturbed {wanted}"


def _row(columns: Sequence[str], row: Sequence[str]) -> str:
    return ", ".join(f"{column}={_short(value)}" for column, value in zip(columns, row, strict=True)) or "a row"


def _of_documents(
    expected: Mapping[str, DocumentSnapshot], found: Mapping[str, DocumentSnapshot]
) -> Iterator[Difference]:
    for key in sorted(expected.keys() | found.keys()):
        place = f"document {key!r}"
        if key not in found:
            yield Difference(place, "missing", "the document itself", culprits=_pipeline(expected[key]))
        elif key not in expected:
            yield Difference(place, "extra", "the document itself", culprits=_pipeline(found[key]))
        else:
            yield from _of_document(place, expected[key], found[key])


def _of_document(place: str, expected: DocumentSnapshot, found: DocumentSnapshot) -> Iterator[Difference]:
    if _status(expected) != _status(found):
        note = f"undisturbed: {_status(expected)}"
        yield Difference(place, "differs", _status(found), note, culprits=_pipeline(found))
    yield from _of_items(place, "item", expected.items, found.items)
    yield from _of_items(place, "set aside", expected.asides, found.asides)


def _pipeline(document: DocumentSnapshot) -> tuple[str, ...]:
    """Return what to ignore so that a document does not count: the pipeline that an effect submitted it to, if any."""
    return (document.chained_to,) if document.chained_to else ()


def _status(document: DocumentSnapshot) -> str:
    at = f" at step {document.step!r}" if document.step else ""
    return f"{document.state}{at}" + (f", {document.reason}" if document.reason else "")


def _of_items(place: str, what: str, expected: Mapping[str, str], found: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted(expected.keys() | found.keys(), key=_in_order):
        step, _, position = name.rpartition(" ")
        item = f"{what} of step {step!r}" if position == "-1" else f"{what} {position} of step {step!r}"
        if name not in found:
            yield Difference(place, "missing", f"{item}: {_short(expected[name])}", culprits=(step,))
        elif name not in expected:
            yield Difference(place, "extra", f"{item}: {_short(found[name])}", culprits=(step,))
        elif expected[name] != found[name]:
            culprits = tuple(_differing_fields(step, expected[name], found[name]))
            note = f"undisturbed: {_short(expected[name])}"
            yield Difference(place, "differs", f"{item}: {_short(found[name])}", note, culprits)


def _in_order(name: str) -> tuple[str, int]:
    step, _, position = name.rpartition(" ")
    return step, int(position)


def _differing_fields(step: str, *values: str) -> Iterator[str]:
    try:
        expected, found = (msgspec.json.decode(value) for value in values)
    except msgspec.DecodeError:  # bytes
        expected = found = None
    if isinstance(expected, dict) and isinstance(found, dict):
        fields = expected.keys() | found.keys()
        yield from (f"{step}.{field}" for field in sorted(fields) if expected.get(field) != found.get(field))
    else:
        yield step


def _short(value: str) -> str:
    return value if len(value) <= MAX_VALUE_LENGTH else f"{value[:MAX_VALUE_LENGTH]}… ({len(value)} characters)"
