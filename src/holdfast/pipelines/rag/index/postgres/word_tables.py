"""The words in PostgreSQL: their version, and how they are made again when the tokenizer changes."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index.postgres.keyword_query import word_vector
from holdfast.pipelines.rag.index.postgres.schema import SQL
from holdfast.pipelines.rag.index.words_rebuild import TextOfChunk


class PostgresWordTables:
    """The column of words, for a rebuild."""

    def prepare(self, tx: Tx) -> None:
        pass  # the first tokenizer had the same columns

    def texts(self, tx: Tx, document: int) -> Sequence[TextOfChunk]:
        rows: Sequence[TextOfChunk] = tx.execute(SQL["texts_of_document"], {"document": document}).fetchall()
        return rows

    def replace(self, tx: Tx, chunks: Sequence[tuple[int, str, str]], language: str) -> None:
        words = [word_vector(text, title, language) for _, text, title in chunks]
        tx.execute(SQL["replace_words"], {"ids": [chunk for chunk, _, _ in chunks], "words": words})
