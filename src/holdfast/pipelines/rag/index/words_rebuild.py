"""Make the words of an index again, by the rules of the present tokenizer.

The rules by which words were made are recorded in the database. An index with words of other rules would give wrong
answers, so it is refused until it was rebuilt. A rebuild works in small transactions: after a kill, it continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from holdfast.core.errors import HoldfastError
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.index.keyword_query import title_terms
from holdfast.pipelines.rag.index.tokenizer import TOKENIZER_VERSION

DOCUMENTS_AT_ONCE = 20
"""Documents whose words are made again in one transaction."""
SAMPLED_CHUNKS = 5
"""Chunks of a document that show its language."""

DetectLanguage = Callable[[str], str]
"""Returns the code of the language of a text."""
TextOfChunk = tuple[int, str]
"""The id and the text of a chunk."""


class WordsOutdated(HoldfastError):
    """The words of the index were made by other rules. The message says what to do."""


class WordTables(Protocol):
    """The tables with words in one database."""

    def prepare(self, tx: Tx) -> None:
        """Change the tables of an earlier release, before the first words are made."""

    def texts(self, tx: Tx, document: int) -> Sequence[TextOfChunk]:
        """Return the texts of all chunks of a document, in order."""

    def replace(self, tx: Tx, chunks: Sequence[tuple[int, str, str]], language: str) -> None:
        """Make the words of chunks again: id, text and title of each."""


def require_current_words(tx: Tx, statements: Any) -> None:
    """Raise WordsOutdated if the words of an index were made by other rules."""
    version, _ = tx.execute(statements["tokenizer"]).fetchone()
    if version > TOKENIZER_VERSION:
        raise WordsOutdated("a later release of holdfast made the words of this index: install that release")
    if version < TOKENIZER_VERSION:
        raise WordsOutdated(
            "an earlier release of holdfast made the words of this index. Run `holdfast collection rebuild`: it makes "
            "them again from the stored texts, and reads no file"
        )


def rebuild_next(tx: Tx, statements: Any, tables: WordTables, detect: DetectLanguage) -> int:
    """Make the words of the next documents again. Return how many documents; 0 if all words are made."""
    version, rebuilt = tx.execute(statements["tokenizer"]).fetchone()
    if version >= TOKENIZER_VERSION:
        return 0
    if not rebuilt:
        tables.prepare(tx)
    params: dict[str, Any] = {"after": rebuilt, "limit": DOCUMENTS_AT_ONCE}
    documents = tx.execute(statements["documents_after"], params).fetchall()
    for document, title in documents:
        texts = tables.texts(tx, document)
        language = detect("\n".join(text for _, text in islice(texts, SAMPLED_CHUNKS)))
        tables.replace(tx, [*_with_title(texts, title)], language)
        params = {"document": document, "language": language, "title_terms": title_terms(title, language)}
        tx.execute(statements["set_language"], params)
        if language:
            tx.execute(statements["add_language"], {"language": language})
    if documents:
        tx.execute(statements["set_rebuilt"], {"rebuilt": documents[-1][0]})
    else:
        tx.execute(statements["finish_rebuild"], {"version": TOKENIZER_VERSION})
    return len(documents)


def _with_title(texts: Sequence[TextOfChunk], title: str) -> Iterator[tuple[int, str, str]]:
    """Yield chunks with the title of the document, if their text does not have it."""
    for chunk, text in texts:
        yield chunk, text, title if title not in text else ""
