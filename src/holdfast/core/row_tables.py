"""Tables whose rows belong to documents: a step writes the rows, and a changed document replaces its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from holdfast.core.document import Document
from holdfast.core.errors import BodyError, DefinitionError
from holdfast.core.moves import Tx

DOCUMENT_ID = "document_id"
"""The column that says which document a row belongs to."""

DEFAULT_SCHEMAS = ("", "main", "public")
"""The schemas in which SQLite and PostgreSQL look for a table without a schema."""

RowsBody = Callable[[Document, Any], Iterable[Mapping[str, Any]]]
"""Returns the rows of one commit: a mapping of columns to values for each."""


class RowTable(Struct, frozen=True):
    """A table of the user, and the function that makes the rows of a step for it."""

    table: str
    body: RowsBody

    @property
    def identity(self) -> str:
        """The name of the table in one form: SQLite takes "Page", "page" and "main.page" for the same table."""
        schema, _, name = self.table.lower().rpartition(".")
        return name if schema in DEFAULT_SCHEMAS else f"{schema}.{name}"

    def write(self, tx: Tx, doc: Document, value: Any) -> None:
        """Insert the rows of one commit. Rows of earlier commits of the same generation stay."""
        rows = list(self.body(doc, value) or ())
        if not rows:
            return
        _refuse_bad_rows(self.table, rows)
        columns = tuple(rows[0])
        sql = _insert(self.table, columns)
        values = [(doc.id, *(row[column] for column in columns)) for row in rows]
        try:
            if len(values) == 1:  # on PostgreSQL two thirds of the time that executemany takes
                tx.execute(sql, values[0])
            else:
                tx.executemany(sql, values)
        except Exception as error:  # re-raised: any error of any database, whose text may not name our column
            error.add_note(
                f"It was writing rows of the table {self.table!r}. It needs the columns "
                f"{', '.join((DOCUMENT_ID, *columns))}: holdfast fills in {DOCUMENT_ID}."
            )
            raise

    def delete(self, tx: Tx, doc: Document) -> None:
        """Delete all rows of a document."""
        tx.execute(_delete(self.table), (doc.id,))


def refuse_bad_table(step: str, table: object) -> None:
    """Raise DefinitionError for a name that cannot be the table of a step's rows."""
    parts = table.split(".") if isinstance(table, str) else []
    if not 1 <= len(parts) <= 2 or not all(parts) or any("\0" in part for part in parts):
        raise DefinitionError(
            f'step {step!r}: rows={table!r} must be the name of a table, such as "page" or "archive.page"'
        )
    if parts[-1].lower().startswith("hf_"):
        raise DefinitionError(f"step {step!r}: {table!r} is a table of holdfast; use a table of your own")


def _refuse_bad_rows(table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise BodyError(
                f"row {place} of table {table!r} is a {type(row).__name__}: return a mapping of columns to values for "
                'each row, such as {"number": 1}'
            )
    columns = rows[0].keys()
    if DOCUMENT_ID in columns:
        raise BodyError(
            f"the rows of table {table!r} have a column {DOCUMENT_ID!r}: leave it out, holdfast fills it in"
        )
    for place, row in enumerate(rows):
        if row.keys() != columns:
            raise BodyError(
                f"row {place} of table {table!r} has the columns {', '.join(row)}, and the first row has "
                f"{', '.join(columns)}: give all rows the same columns"
            )


@lru_cache(1024)
def _insert(table: str, columns: tuple[str, ...]) -> str:
    names = ", ".join(_quoted(column) for column in (DOCUMENT_ID, *columns))
    marks = ", ".join("?" * (1 + len(columns)))
    return f"insert into {_quoted_table(table)} ({names}) values ({marks})"  # noqa: S608 - names are quoted


@lru_cache(1024)
def _delete(table: str) -> str:
    column = _quoted(DOCUMENT_ID)
    return f"delete from {_quoted_table(table)} where {column} = ?"  # noqa: S608 - as above


def _quoted_table(table: str) -> str:
    return ".".join(_quoted(part) for part in table.split("."))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
