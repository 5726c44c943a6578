"""What is there after a run: kept items, items set aside, and every row of the user's own tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.codec import Kept
from holdfast.core.moves import Tx
from holdfast.stores.protocol import Store

EVERY = 2**31 - 1


class Document(Struct, frozen=True):
    """What is kept of one document. Items are by step and position."""

    state: str
    step: str
    reason: str
    items: dict[str, str]
    asides: dict[str, str]


class Table(Struct, frozen=True):
    """One table of the user: its columns, and its rows as text."""

    columns: list[str]
    rows: list[list[str]]


class Snapshot(Struct, frozen=True):
    """All that is compared."""

    documents: dict[str, Document]
    tables: dict[str, Table]


def take(store: Store, pipeline: str, *, ignore: Collection[str]) -> Snapshot:
    """Reads everything, but for what is to be ignored: `table`, `table.column`, `step` or `step.field`."""
    documents = {
        standing.key: Document(
            standing.state,
            standing.checkpoint.step or "",
            standing.reason if standing.state == "dead" else "",
            dict(_items(store, standing.id, ignore)),
            {f"{step} {aside.position}": aside.error.kind for step, aside in store.asides(standing.id)},
        )
        for standing in store.standings(pipeline, limit=EVERY)
    }
    with store.transaction() as tx:
        tables = {name: _table(tx, name, ignore) for name in _names(tx) if name not in ignore}
    return Snapshot(documents, tables)


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

# Numbers that the database gives out tell only in which order rows came, and a kill changes that order.
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


def _table(tx: Tx, name: str, ignore: Collection[str]) -> Table:
    numbered = _SQLITE_NUMBERED if tx.dialect == "sqlite" else _POSTGRES_NUMBERED
    unseen = {row[0] for row in tx.execute(numbered.format(table=name.replace("'", "''"))).fetchall()}
    unseen |= {one.removeprefix(f"{name}.") for one in ignore}
    quoted = name if tx.dialect == "postgresql" else '"' + name.replace('"', '""') + '"'
    cursor = tx.execute(f"select * from {quoted}")  # noqa: S608 - the name is the database's own word for its table
    columns = [column[0] for column in cursor.description]
    seen = [place for place, column in enumerate(columns) if column not in unseen]
    rows = [[_shown(row[place]) for place in seen] for row in cursor.fetchall()]
    return Table([columns[place] for place in seen], sorted(rows))


def _shown(value: Any) -> str:
    if isinstance(value, memoryview):
        value = bytes(value)
    return repr(value) if isinstance(value, (str, bytes, int, float, type(None))) else str(value)
