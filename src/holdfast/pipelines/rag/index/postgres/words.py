"""Questions in words, in PostgreSQL: the rarest words choose the chunks, all words rank them by how rare they are.

How often the commonest words occur is in the database's own statistics, which cost nothing to keep. Others are counted,
and no further than ENOUGH: a word that is in none of the statistics is seldom in many chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from holdfast.pipelines.rag.index.postgres.schema import SQL
from holdfast.pipelines.rag.index.words import ENOUGH, MANY, within, words_of
from holdfast.stores.postgres.connection import Db


def expressions(db: Db, question: str, *, enough: int) -> list[dict[str, Any]]:
    """Gives what by_words.sql asks for: first with the rarest words choosing, then with all of them."""
    lexemes = _lexemes(db, words_of(question))
    size = max(db.execute(SQL["size"]).fetchall()[0][0], 1)
    often = _occurrences(db, lexemes, size)
    there = sorted((word for word in lexemes if often.get(word)), key=lambda word: often[word])[:MANY]
    if not there:
        return []
    ranking = {"words": [_quoted(word) for word in there], "weights": [_weight(often[word], size) for word in there]}
    choosing = within(ENOUGH, there, often, at_least=enough)
    ways = [choosing] if len(choosing) == len(there) else [choosing, there]
    return [ranking | {"choosing": " | ".join(map(_quoted, words))} for words in ways]


def _lexemes(db: Db, words: Sequence[str]) -> list[str]:
    short = [word for word in words if len(word) < 2000]  # longer ones are in no index
    return list(dict.fromkeys(row[1] for row in db.execute(SQL["lexemes"], {"words": short}).fetchall()))


def _occurrences(db: Db, lexemes: Sequence[str], size: int) -> dict[str, int]:
    shares: Mapping[str, float] = dict(db.execute(SQL["statistics"], {"lexemes": list(lexemes)}).fetchall())
    often = {word: max(round(share * size), 1) for word, share in shares.items()}
    others = {_quoted(word): word for word in lexemes if word not in often}
    counted = db.execute(SQL["occurrences"], {"lexemes": [*others], "most": ENOUGH + 1}).fetchall()
    return often | {others[word]: count for word, count in counted}


def _weight(often: int, size: int) -> float:
    return log(1 + (max(size - often, 0) + 0.5) / (often + 0.5))


def _quoted(word: str) -> str:
    """Gives a word as a tsquery of its own."""
    doubled = word.replace("\\", "\\\\").replace("'", "''")
    return f"'{doubled}'"
