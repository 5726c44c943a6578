"""Tables in the database of the store: the target, its staged rows, statistics of files, and records set aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from holdfast.core.document import Document
from holdfast.core.model import Claim
from holdfast.core.moves import Tx
from holdfast.core.row_tables import DOCUMENT_ID
from holdfast.pipelines.files.values import Column, FilesError, Kind, RecordBlock, SetAside
from holdfast.stores.file_checkpoints import create_view
from holdfast.stores.protocol import Store

PIPELINES = ("files", "file_checkpoints")
"""The pipelines whose documents are record files."""
LOADS = "file_loads"
SET_ASIDE = "file_set_aside"
STAGED = "_staged"

_POSTGRES: dict[Kind, str] = {
    "text": "text",
    "integer": "bigint",
    "real": "double precision",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "json": "jsonb",
    "bytes": "bytea",
}
_SQLITE: dict[Kind, str] = {kind: "blob" if kind == "bytes" else kind for kind in _POSTGRES}
_KINDS: dict[str, Kind] = {
    "bigint": "integer",
    "integer": "integer",
    "int": "integer",
    "smallint": "integer",
    "double precision": "real",
    "real": "real",
    "float": "real",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp without time zone": "timestamp",
    "timestamptz": "timestamptz",
    "timestamp with time zone": "timestamptz",
    "json": "json",
    "jsonb": "json",
    "bytea": "bytes",
    "blob": "bytes",
}
"""By the names that both databases give to types. All others are texts for us, and the database converts them."""


class TargetTable:
    """A table of the store's database. Rows of a file have the id of its document in `document_id`.

    The first version of a file is written to the table, commit by commit. A later version is staged in a second table
    and replaces the rows of the earlier one in one transaction.
    """

    def __init__(self, name: str, columns: Sequence[Column] = ()) -> None:
        _refuse_bad_name(name)
        self.name = name
        self.columns = list(columns)

    @property
    def staged(self) -> str:
        """The name of the table of staged rows."""
        return self.name + STAGED

    def read_columns(self, store: Store) -> list[Column]:
        """Return the columns of the table; none if there is no such table.

        Raises:
            FilesError: The table has no column `document_id`.
        """
        with store.reading() as tx:
            columns = _columns_of(tx, self.name)
        if columns and DOCUMENT_ID not in [column.name for column in columns]:
            raise FilesError(
                f"the table {self.name} has no column {DOCUMENT_ID}, which says which file a row is from. Add it: "
                f"alter table {self.name} add column {DOCUMENT_ID} bigint"
            )
        return [column for column in columns if column.name != DOCUMENT_ID]

    def create(self, store: Store) -> None:
        """Create what does not exist yet: the table, the table of staged rows, and their indexes."""
        with store.transaction() as tx:
            _lock(tx)
            types = _SQLITE if tx.dialect == "sqlite" else _POSTGRES
            fields = ", ".join(f"{quoted(column.name)} {types[column.kind]}" for column in self.columns)
            for table in (self.name, self.staged):
                tx.execute(
                    f"create table if not exists {quoted(table)} ({DOCUMENT_ID} {types['integer']} not null, {fields})"
                )
                index = f"{table.rpartition('.')[2]}_{DOCUMENT_ID}"
                # rows of a file are beside each other: BRIN finds them, and costs a load almost nothing
                method = "" if tx.dialect == "sqlite" else "using brin "
                tx.execute(f"create index if not exists {quoted(index)} on {quoted(table)} {method}({DOCUMENT_ID})")

    def write(self, tx: Tx, doc: Document, block: RecordBlock, *, staged: bool) -> None:
        """Write the rows of a block."""
        if not block.count:
            return
        table = self.staged if staged else self.name
        if tx.dialect == "sqlite":
            self._insert(tx, table, doc.id, block.rows)
        elif block.table is not None:
            self._copy_table(tx, table, doc.id, block.table)
        else:
            self._copy_rows(tx, table, doc.id, block.rows)

    def write_rows(self, tx: Tx, document_id: int, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows to the table itself: records that were mended."""
        if tx.dialect == "sqlite":
            self._insert(tx, self.name, document_id, rows)
        else:
            self._copy_rows(tx, self.name, document_id, rows)

    def publish(self, tx: Tx, doc: Document) -> None:
        """Replace the rows of a file by its staged ones."""
        names = self._names()
        tx.execute(f"delete from {quoted(self.name)} where {DOCUMENT_ID} = ?", (doc.id,))  # noqa: S608
        tx.execute(
            f"insert into {quoted(self.name)} ({names}) select {names} from {quoted(self.staged)} "  # noqa: S608
            f"where {DOCUMENT_ID} = ?",
            (doc.id,),
        )
        self.delete(tx, doc, staged=True)

    def delete(self, tx: Tx, doc: Document, *, staged: bool) -> None:
        """Delete the rows of a file, or its staged ones."""
        table = self.staged if staged else self.name
        tx.execute(f"delete from {quoted(table)} where {DOCUMENT_ID} = ?", (doc.id,))  # noqa: S608

    def _insert(self, tx: Tx, table: str, document_id: int, rows: Iterable[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * len(self.columns))
        tx.executemany(
            f"insert into {quoted(table)} ({self._names()}) values ({document_id:d}, {marks})",  # noqa: S608
            rows,
        )

    def _copy_rows(self, tx: Tx, table: str, document_id: int, rows: Iterable[tuple[Any, ...]]) -> None:
        with (
            tx.connection.cursor() as cursor,
            cursor.copy(f"copy {quoted(table)} ({self._names()}) from stdin") as copy,
        ):
            for row in rows:
                copy.write_row((document_id, *row))

    def _copy_table(self, tx: Tx, table: str, document_id: int, rows: Any) -> None:
        import pyarrow as pa
        from pyarrow import csv

        rows = rows.add_column(0, DOCUMENT_ID, pa.repeat(document_id, rows.num_rows))
        text = pa.BufferOutputStream()
        csv.write_csv(rows, text, csv.WriteOptions(include_header=False))
        with (
            tx.connection.cursor() as cursor,
            cursor.copy(f"copy {quoted(table)} ({self._names()}) from stdin (format csv)") as copy,
        ):
            copy.write(memoryview(text.getvalue()))

    def _names(self) -> str:
        return ", ".join((DOCUMENT_ID, *(quoted(column.name) for column in self.columns)))


def _refuse_bad_name(name: str) -> None:
    parts = name.split(".")
    if not 1 <= len(parts) <= 2 or not all(parts) or "\0" in name or "%" in name or "?" in name or ":" in name:
        raise FilesError(f"{name!r} cannot be the name of a table; write it as events, or archive.events")
    if parts[-1].lower().startswith("hf_"):
        raise FilesError(f"{name!r} is a table of holdfast; use a table of your own")


def quoted(name: str) -> str:
    """Return a name of a table, perhaps with its schema, or of a column, in quotes."""
    return ".".join('"' + part.replace('"', '""').replace("?", "??") + '"' for part in name.split("."))


def _columns_of(tx: Tx, table: str) -> list[Column]:
    if tx.dialect == "sqlite":
        found = tx.execute("select name, type from pragma_table_info(?)", (table.rpartition(".")[2],)).fetchall()
    else:
        schema, _, name = table.rpartition(".")
        found = tx.execute(
            "select column_name, data_type from information_schema.columns "
            "where table_name = ? and table_schema = coalesce(nullif(?, ''), current_schema()) "
            "order by ordinal_position",
            (name, schema),
        ).fetchall()
    return [Column(name, _KINDS.get(kind.lower(), "text")) for name, kind in found]


def create_statistics(store: Store) -> None:
    """Create the tables of statistics and of records set aside, if they do not exist yet."""
    with store.transaction() as tx:
        _lock(tx)
        is_sqlite = tx.dialect == "sqlite"
        number = "integer primary key autoincrement" if is_sqlite else "bigint generated always as identity primary key"
        time, data = ("text", "blob") if is_sqlite else ("timestamptz", "bytea")
        counts = ", ".join(f"{name} bigint not null default 0" for name in COUNTS)
        tx.execute(
            f"create table if not exists {LOADS} (document_id bigint primary key, generation bigint not null, "
            f"file_type text not null, file_timestamp {time}, target text not null, {counts}, "
            f"published bigint, started_at {time} not null, completed_at {time})"
        )
        tx.execute(
            f"create table if not exists {SET_ASIDE} (number {number}, document_id bigint not null, "
            f"generation bigint not null, line bigint not null, byte_offset bigint not null, reason text not null, "
            f"raw {data} not null, loaded_at {time})"
        )
        tx.execute(f"create index if not exists {SET_ASIDE}_document_id on {SET_ASIDE} (document_id)")
        create_view(tx, PIPELINES)


def _lock(tx: Tx) -> None:
    """Let one process at a time create tables. PostgreSQL fails if two create the same one."""
    if tx.dialect == "postgresql":
        tx.execute("select pg_advisory_xact_lock(hashtext('holdfast.files'))")


COUNTS = ("records_total", "records_filtered", "records_persisted", "records_failed", "processing_time_ms")
_KEEP = ", ".join(
    f"{name} = excluded.{name} + case when {LOADS}.generation = excluded.generation then {LOADS}.{name} else 0 end"
    for name in COUNTS
)
_COUNT_UP = (
    f"insert into {LOADS} "  # noqa: S608 - names of our own
    f"(document_id, generation, file_type, file_timestamp, target, {', '.join(COUNTS)}, "
    "started_at, completed_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (document_id) do update set "
    f"{_KEEP}, file_type = excluded.file_type, file_timestamp = excluded.file_timestamp, "
    f"started_at = case when {LOADS}.generation = excluded.generation then {LOADS}.started_at "
    "else excluded.started_at end, "
    "generation = excluded.generation, completed_at = excluded.completed_at"
)


def count_up(
    tx: Tx,
    doc: Document,
    block: RecordBlock,
    *,
    file_type: str,
    file_timestamp: str | None,
    target: str,
    now: str,
) -> None:
    """Add what a block brings to the statistics of its file."""
    counts = (block.total, block.filtered, block.count, len(block.aside), round(block.milliseconds))
    done = now if block.is_last else None
    tx.execute(_COUNT_UP, (doc.id, doc.generation, file_type, file_timestamp, target, *counts, now, done))


def count_file(
    tx: Tx, claim: Claim, persisted: int, block: RecordBlock, *, file_type: str, file_timestamp: str | None
) -> None:
    """Write the statistics of a file that was processed by a program of its own."""
    counts = (block.total, block.filtered, persisted, 0, round(block.milliseconds))
    place = (claim.document_id, claim.checkpoint.generation)
    tx.execute(_COUNT_UP, (*place, file_type, file_timestamp, "", *counts, _now(), _now()))


def published_generation(tx: Tx, document_id: int) -> int | None:
    """Return the generation whose rows readers see; None if no generation was loaded to its end."""
    row = tx.execute(f"select published from {LOADS} where document_id = ?", (document_id,)).fetchone()  # noqa: S608
    return None if row is None else row[0]


def loaded_generation(tx: Tx, document_id: int) -> int | None:
    """Return the generation that was loaded last."""
    row = tx.execute(f"select generation from {LOADS} where document_id = ?", (document_id,)).fetchone()  # noqa: S608
    return None if row is None else row[0]


def set_published(tx: Tx, document_id: int, generation: int | None) -> None:
    """Record which generation readers see."""
    tx.execute(f"update {LOADS} set published = ? where document_id = ?", (generation, document_id))  # noqa: S608


def keep_aside(tx: Tx, doc: Document, records: Sequence[SetAside]) -> None:
    """Store records that were set aside."""
    if records:
        tx.executemany(
            f"insert into {SET_ASIDE} (document_id, generation, line, byte_offset, reason, raw) "  # noqa: S608
            "values (?, ?, ?, ?, ?, ?)",
            [
                (doc.id, doc.generation, one.line, one.offset, one.reason.replace("\0", "\\0"), one.raw)
                for one in records
            ],
        )


def forget_aside(tx: Tx, doc: Document) -> None:
    """Delete the records of earlier versions that were set aside."""
    tx.execute(f"delete from {SET_ASIDE} where document_id = ?", (doc.id,))  # noqa: S608


def read_statistics(store: Store) -> dict[int, tuple[Any, ...]]:
    """Return the file type and the counts of each document; nothing if there was no load yet."""
    with store.reading() as tx:
        if not _columns_of(tx, LOADS):
            return {}
        found = tx.execute(
            f"select document_id, file_type, {', '.join(COUNTS)} from {LOADS}"  # noqa: S608
        )
        return {row[0]: tuple(row[1:]) for row in found.fetchall()}


def read_aside(store: Store, document_id: int) -> list[tuple[Any, ...]]:
    """Return the records of a document that are still set aside."""
    with store.reading() as tx:
        if not _columns_of(tx, SET_ASIDE):
            return []
        return [
            tuple(row)
            for row in tx.execute(
                f"select line, byte_offset, reason, raw, number from {SET_ASIDE} "  # noqa: S608
                "where document_id = ? and loaded_at is null order by number",
                (document_id,),
            ).fetchall()
        ]


def load_mended(tx: Tx, table: TargetTable, number: int, rows: Sequence[tuple[Any, ...]]) -> int:
    """Write the rows of a record that was set aside, once. Return 1, or 0 if its file has another version now."""
    found = tx.execute(
        f"update {SET_ASIDE} set loaded_at = ? where number = ? and loaded_at is null "  # noqa: S608
        f"and generation = (select l.generation from {LOADS} l where l.document_id = {SET_ASIDE}.document_id "
        "and l.published = l.generation) returning document_id",
        (_now(), number),
    ).fetchone()
    if found is None:
        return 0
    (document_id,) = found
    table.write_rows(tx, document_id, rows)
    tx.execute(
        f"update {LOADS} set records_failed = records_failed - 1, records_persisted = records_persisted + ?, "  # noqa: S608
        "records_filtered = records_filtered + ? where document_id = ?",
        (len(rows), int(not rows), document_id),
    )
    return 1


def _now() -> str:
    return datetime.now(UTC).isoformat()
