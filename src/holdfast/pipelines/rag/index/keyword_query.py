"""Choose the words of a question that a keyword search looks for, and those that select the chunks to rank.

It takes long to rank every chunk that has any word of the question if one of the words is common. So the rarest words
select chunks, and all words rank them: a chunk that has only the common words would hardly be among the best.

The expressions are those of SQLite's full-text search. PostgreSQL has queries of its own, in
postgres/keyword_query.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

MAX_SELECTED = 1500
"""Chunks that are ranked, at most, if the rarest words select so few."""
MAX_RANKED_OCCURRENCES = 40_000
"""Sum of the chunks that have each word that ranks, at most. To compute how rare a word is, every chunk that has it is
read; and the more chunks have it, the less it says."""
MAX_WORDS = 64
"""Words of a question that are used, at most: the rarest ones."""
WORD = re.compile(r"\w+")
STOP_WORDS = frozenset(Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").split())
"""English words that are in nearly every text."""


def query_words(question: str) -> list[str]:
    """Return the words of a question in lower case, without stop words; all words if there are no others."""
    words = list(dict.fromkeys(word.lower() for word in WORD.findall(question)))
    return [word for word in words if word not in STOP_WORDS] or words


def match_expressions(
    words: Sequence[str],
    stems: Mapping[str, Sequence[str]],
    count: Callable[[Sequence[str]], Mapping[str, int]],
    *,
    enough: int = 1,
) -> list[str]:
    """Return the FTS5 expressions to try in turn: first the rarest words select, then all words.

    Args:
        words: The words of the question.
        stems: The stems of each word.
        count: Returns the number of chunks that have each stem.
        enough: Words are added until they select at least this number of chunks, if there are that many.

    Returns:
        Two expressions; one if all words together select few more chunks; none if no chunk has any of the words.
    """
    stem_counts = count([stem for word in words for stem in stems[word]])
    counts = {word: min((stem_counts.get(stem, 0) for stem in stems[word]), default=0) for word in words}
    rarest = sorted((word for word in words if counts[word]), key=lambda word: counts[word])[:MAX_WORDS]
    selecting = words_within(MAX_SELECTED, rarest, counts, at_least=enough)
    selected = sum(counts[word] for word in selecting)
    ranking = words_within(MAX_RANKED_OCCURRENCES, rarest, counts, at_least=max(enough, selected))
    if len(selecting) == len(ranking):
        return [_any_of(ranking)] if ranking else []
    return [f"({_any_of(selecting)}) AND ({_any_of(ranking)})", _any_of(ranking)]


def words_within(most: int, rarest: Sequence[str], counts: Mapping[str, int], *, at_least: int) -> list[str]:
    """Return the first words whose counts add up to at most `most`; more words only until the sum is `at_least`."""
    chosen: list[str] = []
    total = 0
    for word in rarest:
        if total >= at_least and total + counts[word] > most:
            break
        total += counts[word]
        chosen.append(word)
    return chosen


def _any_of(words: Sequence[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)
