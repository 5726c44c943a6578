"""The state after a run, and how it differs from that of an undisturbed run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.codec import Kept, encode_json
from holdfast.core.moves import Tx
from holdfast.stores.protocol import Store
from holdfast.testing.crash.report import Difference

NO_LIMIT = 2**31 - 1


class DocumentSnapshot(Struct, frozen=True):
    """What is kept of one document. Items are by step and position. `error` is the class of its last error.

    `chained_to` is the pipeline of a document that an effect submitted there; empty for the documents under test.
    """

    state: str
    step: str
    reason: str
    items: dict[str, str]
    asides: dict[str, str]
    error: str = ""
    chained_to: str = ""


class TableSnapshot(Struct, frozen=True):
    """One table of the user: its columns, and its rows as text."""

    columns: list[str]
    rows: list[list[str]]


class Snapshot(Struct, frozen=True):
    """Everything that is compared. `chained` has the documents of other pipelines, which effects submitted."""

    documents: dict[str, DocumentSnapshot]
    tables: dict[str, TableSnapshot]
    chained: dict[str, DocumentSnapshot] = {}


def take_snapshot(store: Store, pipeline: str, *, ignore: Collection[str]) -> Snapshot:
    """Read everything, without what is ignored: `table`, `table.column`, `step` or `step.field`."""
    documents = {
        status.key: DocumentSnapshot(
            status.state,
            status.checkpoint.step or "",
            status.reason if status.state == "dead" else "",
            dict(_items(store, status.id, ignore)),
            {f"{step} {item.position}": item.error.kind for step, item in store.failed_items(status.id)},
            status.error,
        )
        for status in store.documents(pipeline, limit=NO_LIMIT)
    }
    chained: dict[str, DocumentSnapshot] = {}
    for other in sorted({*store.pipelines()} - {pipeline, *ignore}):
        chained |= _chained(store, other)
    with store.transaction() as tx:
        tables = {name: _table(tx, name, ignore) for name in _names(tx) if name not in ignore}
    return Snapshot(documents, tables, chained)


def _chained(store: Store, pipeline: str) -> dict[str, DocumentSnapshot]:
    """Return the documents that effects submitted to another pipeline. Its own workers process them, not this test."""
    return {
        f"{status.key} of {pipeline}/{status.batch}": DocumentSnapshot(
            status.state,
            status.checkpoint.step or "",
            f"generation {status.checkpoint.generation}, payload {encode_json(status.payload)}",
            {},
            {},
            chained_to=pipeline,
        )
        for status in store.documents(pipeline, limit=NO_LIMIT)
    }


def _items(store: Store, document_id: int, ignore: Collection[str]) -> Iterator[tuple[str, str]]:
    for step, position, value in store.items(document_id):
        if step not in ignore:
            fields = [name.partition(".")[2] for name in ignore if name.startswith(f"{step}.")]
            yield f"{step} {position}", _masked(value, fields)


def _masked(value: Kept, fields: Collection[str]) -> str:
    if isinstance(value, bytes):
        return repr(value)
    decoded = msgspec.json.decode(value)
    if not fields or not isinstance(decoded, dict):
        return value
    return msgspec.json.encode({name: inner for name, inner in decoded.items() if name not in fields}).decode()


# the user's tables

_SQLITE_TABLES = """
select name
  from pragma_table_list
 where schema = 'main'
   and type in ('table', 'virtual')
   and substr(name, 1, 3) <> 'hf_'
   and substr(name, 1, 7) <> 'sqlite_'
 order by name
"""

_POSTGRES_TABLES = """
select case when schemaname = 'public' then '' else quote_ident(schemaname) || '.' end || quote_ident(tablename)
  from pg_tables
 where schemaname not in ('pg_catalog', 'information_schema')
   and left(tablename, 3) <> 'hf_'
 order by 1
"""

# A generated number only says in which order rows were inserted, and a kill changes that order. So it is not compared.
_SQLITE_NUMBERED = """
select name
  from pragma_table_info('{table}')
 where pk = 1
   and lower(type) = 'integer'
   and (select count(*) from pragma_table_info('{table}') where pk) = 1
"""

_POSTGRES_NUMBERED = """
select attname
  from pg_attribute
  left join pg_attrdef on adrelid = attrelid and adnum = attnum
 where attrelid = '{table}'::regclass
   and attnum > 0
   and not attisdropped
   and (attidentity <> '' or left(pg_get_expr(adbin, adrelid), 8) = 'nextval(')
"""


def _names(tx: Tx) -> list[str]:
    sql = _SQLITE_TABLES if tx.dialect == "sqlite" else _POSTGRES_TABLES
    return [row[0] for row in tx.execute(sql).fetchall()]


def _table(tx: Tx, name: str, ignore: Collection[str]) -> TableSnapshot:
    numbered = _SQLITE_NUMBERED if tx.dialect == "sqlite" else _POSTGRES_NUMBERED
    unseen = {row[0] for row in tx.execute(numbered.format(table=name.replace("'", "''"))).fetchall()}
    unseen |= {ignored.removeprefix(f"{name}.") for ignored in ignore}
    quoted = name if tx.dialect == "postgresql" else '"' + name.replace('"', '""') + '"'
    cursor = tx.execute(f"select * from {quoted}")  # noqa: S608 - the name is the database's own word for its table
    columns = [column[0] for column in cursor.description]
    seen = [place for place, column in enumerate(columns) if column not in unseen]
    rows = [[_shown(row[place]) for place in seen] for row in cursor.fetchall()]
    return TableSnapshot([columns[place] for place in seen], sorted(rows))


def _shown(value: Any) -> str:
    if isinstance(value, memoryview):
        value = bytes(value)
    return repr(value) if isinstance(value, (str, bytes, int, float, type(None))) else str(value)


MAX_VALUE_LENGTH = 160
"""Longest value that is shown in full, in characters."""

EMPTY = TableSnapshot([], [])


def compare_snapshots(expected: Snapshot, found: Snapshot) -> list[Difference]:
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
