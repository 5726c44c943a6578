"""Keyword queries in PostgreSQL: the rarest words select chunks, all words rank them by how rare they are.

The counts of the most common words are in the database's own statistics, which cost nothing to keep. Other words are
counted, up to MAX_SELECTED: a word that is not in the statistics is seldom in many chunks. Statistics are cached for a
while, and lexemes for good: to read them took as long as to find a few chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from time import monotonic
from typing import Any

from msgspec import Struct

from holdfast.pipelines.rag.index.keyword_query import MAX_SELECTED, MAX_WORDS, query_words, words_within
from holdfast.pipelines.rag.index.postgres.schema import SQL
from holdfast.stores.postgres.connection import Db

STATISTICS_LIFETIME = 60.0
"""Seconds for which the database's statistics are cached. The database renews them after many more changes."""
MAX_CACHED_WORDS = 100_000
"""Words whose lexemes are cached, at most."""
MAX_WORD_LENGTH = 2000
"""Characters. PostgreSQL does not index longer words."""


class WordStatistics(Struct, frozen=True):
    """Statistics of the words in all chunks.

    Args:
        chunks: The approximate number of chunks.
        shares: The share of chunks that have a word, for the most common words.
        read_at: When they were read, by the monotonic clock.
    """

    chunks: int
    shares: Mapping[str, float]
    read_at: float


class Vocabulary:
    """A cache of lexemes and word statistics. Threads may share one: what two of them add at once is the same."""

    def __init__(self) -> None:
        self._lexemes: dict[str, tuple[str, ...]] = {}
        self._statistics: WordStatistics | None = None

    def lexemes(self, db: Db, words: Sequence[str]) -> list[str]:
        """Return the lexemes under which full-text search stores words."""
        indexed = [word for word in words if len(word) < MAX_WORD_LENGTH]
        known = {word: self._lexemes[word] for word in indexed if word in self._lexemes}
        if unknown := [word for word in indexed if word not in known]:
            found: dict[str, tuple[str, ...]] = dict.fromkeys(unknown, ())
            for position, lexeme in db.execute(SQL["lexemes"], {"words": unknown}).fetchall():
                found[unknown[position - 1]] += (lexeme,)
            if len(self._lexemes) > MAX_CACHED_WORDS:
                self._lexemes = {}
            self._lexemes |= found
            known |= found
        return list(dict.fromkeys(lexeme for word in indexed for lexeme in known[word]))

    def statistics(self, db: Db) -> WordStatistics:
        """Return the database's statistics. If there are none yet, the chunks are counted and nothing is cached."""
        cached = self._statistics
        if cached is not None and monotonic() - cached.read_at < STATISTICS_LIFETIME:
            return cached
        shares: dict[str, float] = dict(db.execute(SQL["word_statistics"]).fetchall())
        chunks = max(db.execute(SQL["estimate_chunk_count"]).fetchall()[0][0], 1)
        read = WordStatistics(chunks, shares, monotonic())
        self._statistics = read if shares else None
        return read


def search_params(db: Db, question: str, vocabulary: Vocabulary, *, enough: int) -> list[dict[str, Any]]:
    """Return parameters of search_words.sql to try in turn: first the rarest words select, then all words."""
    lexemes = vocabulary.lexemes(db, query_words(question))
    statistics = vocabulary.statistics(db)
    counts = _count_words(db, lexemes, statistics)
    rarest = sorted((word for word in lexemes if counts.get(word)), key=lambda word: counts[word])[:MAX_WORDS]
    if not rarest:
        return []
    weights = [_weight(counts[word], statistics.chunks) for word in rarest]
    ranking = {"words": [_quoted(word) for word in rarest], "weights": weights}
    selecting = words_within(MAX_SELECTED, rarest, counts, at_least=enough)
    selections = [selecting] if len(selecting) == len(rarest) else [selecting, rarest]
    return [ranking | {"selecting": " | ".join(map(_quoted, words))} for words in selections]


def _count_words(db: Db, lexemes: Sequence[str], statistics: WordStatistics) -> dict[str, int]:
    shares = statistics.shares
    estimates = {word: max(round(shares[word] * statistics.chunks), 1) for word in lexemes if word in shares}
    others = {_quoted(word): word for word in lexemes if word not in estimates}
    if not others:
        return estimates
    counted = db.execute(SQL["count_words"], {"lexemes": [*others], "most": MAX_SELECTED + 1}).fetchall()
    return estimates | {others[word]: count for word, count in counted}


def _weight(count: int, chunks: int) -> float:
    return log(1 + (max(chunks - count, 0) + 0.5) / (count + 0.5))


def _quoted(word: str) -> str:
    """Return a word as a tsquery of its own."""
    doubled = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"
