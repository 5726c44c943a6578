"""Choose the part of a chunk that a person is shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from holdfast.pipelines.rag.index.keyword_query import MAX_READ, query_words
from holdfast.pipelines.rag.index.tokenizer import is_paired, pairs_of, tokens_of, variants_of

SNIPPET_LENGTH = 240
"""Characters of a snippet, at most."""

ELLIPSIS = "…"
LONG_WORD = 40
"""Characters of a word that is not cut."""

Span = tuple[int, int]


def snippet_of(text: str, question: str, language: str = "") -> tuple[str, tuple[Span, ...]]:
    """Return the part of a text that has most of the words of a question, on one line, and where the words are in it.

    Where text was cut off, there is an ellipsis.

    Args:
        text: The text.
        question: The question, without syntax.
        language: The code of the language of the text.
    """
    text = " ".join(text.split())
    terms = _terms(question, language)
    spans = [(start, end) for term, start, end in tokens_of(text, language) if term in terms]
    start = _word_start(text, max(_best_start(text, spans) - SNIPPET_LENGTH // 6, 0))
    end = min(start + SNIPPET_LENGTH, len(text))
    end = max(_word_start(text, end), start) if end < len(text) else end
    end = end if end > start else start + SNIPPET_LENGTH  # one word that is longer than a snippet
    before, after = f"{ELLIPSIS} " if start else "", f" {ELLIPSIS}" if end < len(text) else ""
    shift = len(before) - start
    marks = tuple((a + shift, b + shift) for a, b in _merged(spans) if start <= a and b <= end)
    return f"{before}{text[start:end].rstrip()}{after}", marks


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Merge spans that overlap: pairs of characters do."""
    merged: list[Span] = []
    for start, end in spans:
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


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


def _terms(question: str, language: str) -> set[str]:
    """Return the terms of the words that mark a text."""
    words = query_words(question[:MAX_READ], [language])
    return {term for word in words for term in (pairs_of(word) if is_paired(word) else variants_of(word, [language]))}


def _word_start(text: str, position: int) -> int:
    """Return where the word at a position starts. A run without spaces has no start: it is cut at the position."""
    start = position
    while 0 < start < len(text) and not text[start - 1].isspace():
        start -= 1
        if position - start > LONG_WORD:
            return position
    return start
