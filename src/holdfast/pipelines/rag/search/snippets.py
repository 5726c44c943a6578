"""Choose the part of a chunk that a person is shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from holdfast.pipelines.rag.index.keyword_query import WORD

SNIPPET_LENGTH = 240
"""Characters of a snippet, at most."""

ELLIPSIS = "…"

Span = tuple[int, int]


def snippet_of(text: str, words: Sequence[str]) -> tuple[str, tuple[Span, ...]]:
    """Return the part of a text that has most of the words, on one line, and where the words are in it.

    Where text was cut off, there is an ellipsis.
    """
    text = " ".join(text.split())
    prefixes = _prefixes(words)
    spans = [match.span() for match in WORD.finditer(text) if match.group().lower().startswith(prefixes)]
    start = _word_start(text, max(_best_start(text, spans) - SNIPPET_LENGTH // 6, 0))
    end = min(start + SNIPPET_LENGTH, len(text))
    end = max(_word_start(text, end), start) if end < len(text) else end
    end = end if end > start else start + SNIPPET_LENGTH  # one word that is longer than a snippet
    before, after = f"{ELLIPSIS} " if start else "", f" {ELLIPSIS}" if end < len(text) else ""
    shift = len(before) - start
    marks = tuple((a + shift, b + shift) for a, b in spans if start <= a and b <= end)
    return f"{before}{text[start:end].rstrip()}{after}", marks


def _best_start(text: str, spans: Sequence[Span]) -> int:
    """Return the start of the word from which on a snippet has most different words."""
    inside: deque[str] = deque()
    following = iter(spans)
    upcoming = next(following, None)
    most, best = 0, spans[0][0] if spans else 0
    for span in spans:
        while upcoming is not None and upcoming[1] <= span[0] + SNIPPET_LENGTH:
            inside.append(text[slice(*upcoming)].lower())
            upcoming = next(following, None)
        if upcoming == span:  # a word that is longer than a snippet
            upcoming = next(following, None)
            continue
        if len(set(inside)) > most:
            most, best = len(set(inside)), span[0]
        inside.popleft()
    return best


def _prefixes(words: Sequence[str]) -> tuple[str, ...]:
    """Return how words begin that full-text search treats as equal to these: they differ at their ends."""
    return tuple({word[: max(len(word) - 2, 4)] for word in words})


def _word_start(text: str, position: int) -> int:
    while 0 < position < len(text) and not text[position - 1].isspace():
        position -= 1
    return position
