"""The state after a run: items, items set aside, chained documents, and every row of the user's tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.codec import Kept, encode_json
from holdfast.core.moves import Tx
from holdfast.stores.protocol import Store

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
