"""Edit the rows of a document behind holdfast's back, as a person with SQL or a failing disk could, on any store."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any, Protocol

from msgspec.structs import replace

from holdfast.core.codec import decode_json, encode_json
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store


class RowEdits(Protocol):
    """Changes rows of one document. Steps are given by their ids, positions as in the store."""

    def set_column(self, column: str, value: Any) -> None:
        """Set a column of hf_document: step_id, cursor or extents, with JSON as text."""

    def delete_item(self, step_id: int, position: int) -> None:
        """Delete the row of an item."""

    def delete_failed_item(self, step_id: int, position: int) -> None:
        """Delete the row of an item that was set aside."""

    def set_item(self, step_id: int, position: int, value: str) -> None:
        """Replace the stored text of an item."""

    def resume(self) -> None:
        """Let the document continue."""


def edits_of(store: Store, document_id: int) -> RowEdits:
    """Return edits of a document on its store."""
    return _MemoryEdits(store, document_id) if isinstance(store, MemoryStore) else SqlEdits(store, document_id)


class _MemoryEdits:
    def __init__(self, store: MemoryStore, document_id: int) -> None:
        self._tables = store._tables
        self._id = document_id

    def set_column(self, column: str, value: Any) -> None:
        if column == "extents" and value is not None:
            value = {int(step): number for step, number in decode_json(value).items()}
        self._tables.documents[self._id] = replace(self._tables.documents[self._id], **{column: value})

    def delete_item(self, step_id: int, position: int) -> None:
        del self._tables.items[self._id, self._generation, step_id][position]

    def delete_failed_item(self, step_id: int, position: int) -> None:
        del self._tables.asides[self._id, self._generation, step_id][position]

    def set_item(self, step_id: int, position: int, value: str) -> None:
        items = self._tables.items[self._id, self._generation, step_id]
        items[position] = replace(items[position], value=value)

    def resume(self) -> None:
        row = self._tables.documents[self._id]
        self._tables.documents[self._id] = replace(row, state="waiting", due_at=row.submitted_at)

    @property
    def _generation(self) -> int:
        return self._tables.documents[self._id].generation


class SqlEdits:
    """Edits with SQL, over a connection of its own."""

    def __init__(self, store: Store, document_id: int) -> None:
        self._store = store
        self._id = document_id

    def run(self, sql: str, *values: Any) -> int:
        """Run a statement, with `?` for its values. Return the number of rows."""
        if self._store.url.startswith("sqlite"):
            with closing(sqlite3.connect(self._store.url.removeprefix("sqlite:///"))) as db, db:
                return db.execute(sql, values).rowcount
        import psycopg

        with psycopg.connect(self._store.url) as connection:
            return connection.execute(sql.replace("?", "%s"), values).rowcount  # type: ignore[arg-type]

    def set_column(self, column: str, value: Any) -> None:
        assert self.run(f"update hf_document set {column} = ? where id = ?", value, self._id) == 1

    def delete_item(self, step_id: int, position: int) -> None:
        where = "where document_id = ? and step_id = ? and position = ?"
        assert self.run(f"delete from hf_item {where}", self._id, step_id, position) == 1

    def delete_failed_item(self, step_id: int, position: int) -> None:
        where = "where document_id = ? and step_id = ? and position = ?"
        assert self.run(f"delete from hf_aside {where}", self._id, step_id, position) == 1

    def set_item(self, step_id: int, position: int, value: str) -> None:
        where = "where document_id = ? and step_id = ? and position = ?"
        assert self.run(f"update hf_item set value = ? {where}", value, self._id, step_id, position) == 1

    def resume(self) -> None:
        self.run("update hf_document set state = 'waiting', due_at = submitted_at where id = ?", self._id)


def extents_text(**numbers: int) -> str:
    """Return extents as JSON. Keys are `step_1`, `step_2` by their ids."""
    return encode_json({name.removeprefix("step_"): number for name, number in numbers.items()})
