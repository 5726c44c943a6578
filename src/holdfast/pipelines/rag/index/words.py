"""Questions in words: which of them are worth looking for, and which are looked for first.

Ranking every chunk that has any of the words takes long where a word is common. So the rarest words choose the chunks,
and all words rank them: a chunk that has only the common ones would hardly be among the best.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

ENOUGH = 3000
"""How many chunks are ranked, if the rarest words choose so few."""
WORD = re.compile(r"\w+")
STOP = frozenset(
    [
        "a",
        "about",
        "above",
        "after",
        "again",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "because",
        "been",
        "before",
        "being",
        "below",
        "between",
        "both",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "doing",
        "down",
        "during",
        "each",
        "few",
        "for",
        "from",
        "further",
        "had",
        "has",
        "have",
        "having",
        "he",
        "her",
        "here",
        "hers",
        "him",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "itself",
        "just",
        "me",
        "more",
        "most",
        "must",
        "my",
        "no",
        "nor",
        "not",
        "now",
        "of",
        "off",
        "on",
        "once",
        "only",
        "or",
        "other",
        "our",
        "out",
        "over",
        "own",
        "same",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "through",
        "to",
        "too",
        "under",
        "until",
        "up",
        "upon",
        "us",
        "very",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)


def words_of(question: str) -> list[str]:
    """Gives the words worth looking for: those that are not in every text, or all where there are no others."""
    words = list(dict.fromkeys(word.lower() for word in WORD.findall(question)))
    return [word for word in words if word not in STOP] or words


def match(
    words: Sequence[str], stems: Mapping[str, Sequence[str]], count: Callable[[Sequence[str]], Mapping[str, int]]
) -> str | None:
    """Gives the expression that finds these words; None when no chunk has any of them."""
    counts = count([stem for word in words for stem in stems[word]])
    often = {word: min((counts.get(stem, 0) for stem in stems[word]), default=0) for word in words}
    there = sorted((word for word in words if often[word]), key=lambda word: often[word])
    if not there:
        return None
    choosing = [there[0]]
    chosen = often[there[0]]
    for word in there[1:]:
        chosen += often[word]
        if chosen > ENOUGH:
            break
        choosing.append(word)
    if len(choosing) == len(there):
        return _any(there)
    return f"({_any(choosing)}) AND ({_any(there)})"


def _any(words: Sequence[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)
