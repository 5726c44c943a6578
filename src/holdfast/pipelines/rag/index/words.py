"""Questions in words: which of them are worth looking for, and which are looked for first.

Ranking every chunk that has any of the words takes long where a word is common. So the rarest words choose the chunks,
and all words rank them: a chunk that has only the common ones would hardly be among the best.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

ENOUGH = 1500
"""How many chunks are ranked, if the rarest words choose so few."""
WEIGHED = 40_000
"""In how many chunks the words that rank may stand, together. How rare a word is costs a look at every chunk that has
it, and the more have it the less it tells."""
MANY = 64
"""How many words of a question are looked for: of a whole page, the rarest."""
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
    words: Sequence[str],
    stems: Mapping[str, Sequence[str]],
    count: Callable[[Sequence[str]], Mapping[str, int]],
    *,
    enough: int = 1,
) -> list[str]:
    """Gives the expressions that find these words: first one in which the rarest choose, then one of all that rank.

    Those that choose stand in `enough` chunks, if all do. There is only the one of all when the rest would choose few
    more, and none when no chunk has any of the words.
    """
    counts = count([stem for word in words for stem in stems[word]])
    often = {word: min((counts.get(stem, 0) for stem in stems[word]), default=0) for word in words}
    there = sorted((word for word in words if often[word]), key=lambda word: often[word])[:MANY]
    choosing = within(ENOUGH, there, often, at_least=enough)
    ranking = within(WEIGHED, there, often, at_least=max(enough, sum(often[word] for word in choosing)))
    if len(choosing) == len(ranking):
        return [_any(ranking)] if ranking else []
    return [f"({_any(choosing)}) AND ({_any(ranking)})", _any(ranking)]


def within(most: int, rarest: Sequence[str], often: Mapping[str, int], *, at_least: int) -> list[str]:
    """Gives the first of some words that stand in so many chunks together: more only to come to `at_least`."""
    given: list[str] = []
    together = 0
    for word in rarest:
        if together >= at_least and together + often[word] > most:
            break
        together += often[word]
        given.append(word)
    return given


def _any(words: Sequence[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)
