"""The tables with words in SQLite: their version, and how they are changed when the tokenizer changes.

The first tokenizer was SQLite's own. Its table of words had other columns, so it is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index.tokenizer import TOKENIZER_VERSION, terms_of
from holdfast.pipelines.rag.index.words_rebuild import TextOfChunk
from holdfast.pipelines.rag.sql_statements import index_statements

SQL = index_statements("sqlite")


def add_missing_columns(tx: Tx) -> None:
    """Add the columns that tables of an earlier release lack."""
    columns = {row[0] for row in tx.execute(SQL["columns_of_documents"]).fetchall()}
    if columns and "language" not in columns:
        tx.execute(SQL["add_column_language"])
        tx.execute(SQL["add_column_title_terms"])


def record_version(tx: Tx) -> None:
    """Record by which rules the words were made, if this is not recorded."""
    if tx.execute(SQL["tokenizer"]).fetchone() is None:
        tx.execute(SQL["record_tokenizer"], {"version": 1 if _has_first_columns(tx) else TOKENIZER_VERSION})


class SqliteWordTables:
    """The table of words, for a rebuild."""

    def prepare(self, tx: Tx) -> None:
        if _has_first_columns(tx):
            for name in ("rename_words", "create_words", "set_automerge", "copy_words", "drop_first_words"):
                tx.execute(SQL[name])

    def texts(self, tx: Tx, document: int) -> Sequence[TextOfChunk]:
        rows: Sequence[TextOfChunk] = tx.execute(SQL["texts_of_document"], {"document": document}).fetchall()
        return rows

    def replace(self, tx: Tx, chunks: Sequence[tuple[int, str, str]], language: str) -> None:
        rows = [
            (*(" ".join(terms_of(part, language)) for part in (text, title)), chunk) for chunk, text, title in chunks
        ]
        tx.executemany(SQL["replace_words"], rows)


def _has_first_columns(tx: Tx) -> bool:
    return "terms" not in {row[0] for row in tx.execute(SQL["columns_of_words"]).fetchall()}
