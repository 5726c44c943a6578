"""Questions in words, in PostgreSQL: the rarest words choose the chunks, all words rank them by how rare they are.

How often the commonest words occur is in the database's own statistics, which cost nothing to keep. Others are counted,
and no further than ENOUGH: a word that is in none of the statistics is seldom in many chunks. What is asked of the
statistics is remembered for a while, and the form of a word for good: asking took as long as finding a few chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from time import monotonic
from typing import Any

from msgspec import Struct

from holdfast.pipelines.rag.index.postgres.schema import SQL
from holdfast.pipelines.rag.index.words import ENOUGH, MANY, within, words_of
from holdfast.stores.postgres.connection import Db

FRESH = 60.0
"""For how many seconds the database's statistics are believed. It renews them itself, after many more changes."""
MOST = 100_000
"""So many words are remembered."""


class Statistics(Struct, frozen=True):
    """About how many chunks there are, and in which share of them the commonest words stand."""

    size: int
    shares: Mapping[str, float]
    read_at: float


class Vocabulary:
    """What is known of words. Threads may share one: what two of them learn at once is the same."""

    def __init__(self) -> None:
        self._lexemes: dict[str, tuple[str, ...]] = {}
        self._statistics: Statistics | None = None

    def lexemes(self, db: Db, words: Sequence[str]) -> list[str]:
        """Gives the forms under which full text keeps words."""
        short = [word for word in words if len(word) < 2000]  # longer ones are in no index
        known = {word: self._lexemes[word] for word in short if word in self._lexemes}
        if new := [word for word in short if word not in known]:
            found: dict[str, tuple[str, ...]] = dict.fromkeys(new, ())
            for place, lexeme in db.execute(SQL["lexemes"], {"words": new}).fetchall():
                found[new[place - 1]] += (lexeme,)
            if len(self._lexemes) > MOST:
                self._lexemes = {}
            self._lexemes |= found
            known |= found
        return list(dict.fromkeys(lexeme for word in short for lexeme in known[word]))

    def statistics(self, db: Db) -> Statistics:
        """Gives the database's statistics; without any, the chunks are counted, and that is not remembered."""
        known = self._statistics
        if known is not None and monotonic() - known.read_at < FRESH:
            return known
        shares: dict[str, float] = dict(db.execute(SQL["statistics"]).fetchall())
        size = max(db.execute(SQL["size"]).fetchall()[0][0], 1)
        read = Statistics(size, shares, monotonic())
        self._statistics = read if shares else None
        return read


def expressions(db: Db, question: str, vocabulary: Vocabulary, *, enough: int) -> list[dict[str, Any]]:
    """Gives what by_words.sql asks for: first with the rarest words choosing, then with all of them."""
    lexemes = vocabulary.lexemes(db, words_of(question))
    statistics = vocabulary.statistics(db)
    size = statistics.size
    often = _occurrences(db, lexemes, statistics)
    there = sorted((word for word in lexemes if often.get(word)), key=lambda word: often[word])[:MANY]
    if not there:
        return []
    ranking = {"words": [_quoted(word) for word in there], "weights": [_weight(often[word], size) for word in there]}
    choosing = within(ENOUGH, there, often, at_least=enough)
    ways = [choosing] if len(choosing) == len(there) else [choosing, there]
    return [ranking | {"choosing": " | ".join(map(_quoted, words))} for words in ways]


def _occurrences(db: Db, lexemes: Sequence[str], known: Statistics) -> dict[str, int]:
    often = {word: max(round(known.shares[word] * known.size), 1) for word in lexemes if word in known.shares}
    others = {_quoted(word): word for word in lexemes if word not in often}
    if not others:
        return often
    counted = db.execute(SQL["occurrences"], {"lexemes": [*others], "most": ENOUGH + 1}).fetchall()
    return often | {others[word]: count for word, count in counted}


def _weight(often: int, size: int) -> float:
    return log(1 + (max(size - often, 0) + 0.5) / (often + 0.5))


def _quoted(word: str) -> str:
    """Gives a word as a tsquery of its own."""
    doubled = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"
