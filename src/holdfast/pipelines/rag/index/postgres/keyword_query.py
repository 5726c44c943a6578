"""Keyword queries in PostgreSQL: the rarest words select chunks, all words rank them by how rare they are.

The counts of the most common words are in the database's own statistics, which cost nothing to keep. Other words are
counted, up to MAX_SELECTED: a word that is not in the statistics is seldom in many chunks. Statistics are cached for a
while: to read them took as long as to find a few chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import log
from time import monotonic
from typing import Any

from msgspec import Struct

from holdfast.pipelines.rag.index.keyword_query import (
    MAX_RUN_COUNT,
    MAX_SELECTED,
    PREFIX,
    KeywordQuery,
    Phrase,
    Phrases,
    Word,
    rarest_words,
    selecting_runs,
    words_within,
)
from holdfast.pipelines.rag.index.postgres.schema import SQL
from holdfast.pipelines.rag.index.tokenizer import terms_of
from holdfast.stores.postgres.connection import Db

STATISTICS_LIFETIME = 60.0
"""Seconds for which the database's statistics are cached. The database renews them after many more changes."""
MAX_COUNTED = max(MAX_SELECTED, MAX_RUN_COUNT) + 1
"""Chunks that have a word are counted up to this number."""
MAX_POSITION = 16_000
"""Terms of a chunk that have positions in a tsvector. Later ones are left out; only texts that were not split have so
many."""
TITLE_GAP = 10
"""Positions between text and title: no phrase is in both."""


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
    """A cache of word statistics. Threads may share one: what two of them add at once is the same."""

    def __init__(self) -> None:
        self._statistics: WordStatistics | None = None

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


def word_vector(text: str, title: str, language: str) -> str:
    """Return the terms of a chunk as a tsvector. Words of the title count less."""
    terms = terms_of(text, language)[:MAX_POSITION]
    of_text = [f"'{term}':{place}A" for place, term in enumerate(terms, 1)]
    first = min(len(terms) + TITLE_GAP, MAX_POSITION)
    of_title = [f"'{term}':{place}B" for place, term in enumerate(terms_of(title, language), first)]
    return " ".join((*of_text, *of_title))


def search_params(db: Db, query: KeywordQuery, vocabulary: Vocabulary, *, enough: int) -> list[dict[str, Any]]:
    """Return parameters of search_words.sql to try in turn: first the rarest words select, then all words.

    If the question has phrases, these select. Excluded words are left out of each selection.
    """
    statistics = vocabulary.statistics(db)
    rarest, counts = rarest_words(query.words, lambda terms: _count_terms(db, terms, statistics))
    if not rarest:
        return []
    ranking = {
        "words": [_any_of([word]) for word in rarest],
        "weights": [_weight(counts[word], statistics.chunks) for word in rarest],
    }
    excluded = "".join(f" & !({any_phrase(phrases)})" for phrases in query.excluded)
    if query.phrases:
        required = " & ".join(f"({any_phrase(phrases)})" for phrases in query.phrases)
        return [ranking | {"selecting": required + excluded}]
    selecting = words_within(MAX_SELECTED, rarest, counts, at_least=enough)
    selections = [selecting] if len(selecting) == len(rarest) else [selecting, rarest]
    return [ranking | {"selecting": f"({_any_of(words)}){excluded}"} for words in selections]


def run_params(db: Db, query: KeywordQuery, vocabulary: Vocabulary) -> dict[str, Any] | None:
    """Return parameters of search_runs.sql; None if no run selects chunks."""
    statistics = vocabulary.statistics(db)
    runs = selecting_runs(query, lambda terms: _count_terms(db, terms, statistics))
    return {"selecting": any_phrase(runs), "runs": [any_phrase(run.phrases) for run in query.runs]} if runs else None


def any_phrase(phrases: Iterable[Phrase]) -> str:
    """Return the tsquery for chunks that have any of these phrases."""
    return " | ".join(f"({' <-> '.join(map(_quoted, phrase))})" for phrase in phrases)


def allowed_expression(phrases: Sequence[Phrases], excluded: Sequence[Phrases]) -> str:
    """Return the tsquery for chunks that have all of some phrases, and none of others."""
    parts = (*(f"({any_phrase(one)})" for one in phrases), *(f"!({any_phrase(one)})" for one in excluded))
    return " & ".join(parts)


def _count_terms(db: Db, terms: Sequence[str], statistics: WordStatistics) -> Mapping[str, int]:
    """Count the chunks that have a term: by the statistics if it is common, otherwise up to MAX_COUNTED."""
    shares = statistics.shares
    estimates = {term: max(round(shares[term] * statistics.chunks), 1) for term in terms if term in shares}
    others = {_quoted(term): term for term in terms if term not in estimates and not term.endswith(PREFIX)}
    if not others:
        return estimates
    counted = db.execute(SQL["count_words"], {"lexemes": [*others], "most": MAX_COUNTED}).fetchall()
    return estimates | {others[term]: count for term, count in counted}


def _weight(count: int, chunks: int) -> float:
    return log(1 + (max(chunks - count, 0) + 0.5) / (count + 0.5))


def _any_of(words: Iterable[Word]) -> str:
    return " | ".join(_quoted(term) for word in words for term in word)


def _quoted(term: str) -> str:
    """Return a term as a tsquery of its own. Terms have no quotes and no backslashes."""
    return f"'{term.removesuffix(PREFIX)}':*" if term.endswith(PREFIX) else f"'{term}'"
