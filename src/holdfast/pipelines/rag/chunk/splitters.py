"""Split a text into chunks that are small enough: by characters, by tokens, or by the structure of Markdown.

Splitters yield spans, not strings: `text[start:end]` is the chunk, so each search result has its position in the page.
The recursive splitter splits where LangChain's does. It searches boundaries instead of joining pieces.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import asdict, force_setattr

Span = tuple[int, int]
SEPARATORS = ("\n\n", "\n", ". ", " ", "")
WORD = re.compile(r"\w+|[^\w\s]")


class Tokenizer(Protocol):
    """Find the tokens of a text."""

    def spans(self, text: str) -> list[Span]:
        """Return start and end of each token, in order."""


class WordTokenizer:
    """A tokenizer without a model: words and single punctuation marks."""

    def spans(self, text: str) -> list[Span]:
        """Return start and end of each word or mark."""
        return [match.span() for match in WORD.finditer(text)]


DEFAULTS = {"recursive": (1000, 200), "markdown": (1000, 200), "tokens": (450, 90)}
"""Default size and overlap. The default model reads 510 tokens, of which the title may take 50."""
NOT_GIVEN = -(2**31)


class Splitting(Struct, frozen=True):
    """How the texts of a collection are split into chunks.

    Args:
        how: `recursive` splits at paragraphs, lines, sentences or words; `markdown` at headings and blocks; `tokens`
            after a number of tokens of the default model.
        size: The largest chunk, in characters; in tokens if `how` is `tokens`. Default: 1000 characters or 450 tokens.
        overlap: How much a chunk may repeat of the one before. Default: 200 characters or 90 tokens; a fifth of `size`
            if `size` is not larger than that.

    Raises:
        ValueError: `how` is unknown, `size` is less than 1, or `overlap` is not less than `size`.

    Example:
        >>> [text[start:end] for start, end in Splitting("recursive", size=600, overlap=100).split(text)]
    """

    how: Literal["recursive", "tokens", "markdown"] = "recursive"
    size: int = NOT_GIVEN
    overlap: int = NOT_GIVEN

    def __post_init__(self) -> None:
        if self.how not in DEFAULTS:
            raise ValueError(f"texts can be split by recursive, tokens or markdown, not by {self.how!r}")
        size, overlap = DEFAULTS[self.how]
        if self.size == NOT_GIVEN:
            force_setattr(self, "size", size)
        if self.overlap == NOT_GIVEN:
            force_setattr(self, "overlap", overlap if overlap < self.size else self.size // 5)
        _require(self.size, self.overlap)

    def with_changes(self, **changes: Any) -> Splitting:
        """Return a copy with other values. A change between characters and tokens resets the sizes to their defaults.

        Args:
            **changes: New values of `how`, `size` and `overlap`.

        Returns:
            The copy.
        """
        in_tokens = changes.get("how", self.how) == "tokens"
        kept = asdict(self) if in_tokens == (self.how == "tokens") else {}
        if self.overlap >= changes.get("size", self.size):
            kept.pop("overlap", None)
        return Splitting(**kept | changes)

    def split(self, text: str) -> Iterator[Span]:
        """Split a text into chunks.

        Args:
            text: The text.

        Returns:
            Start and end of each chunk, in order.
        """
        match self.how:
            case "recursive":
                return split_recursive(text, self.size, self.overlap)
            case "markdown":
                return split_by_markdown(text, self.size, self.overlap)
            case "tokens":
                from holdfast.pipelines.rag.embed.granite import granite_tokenizer

                return split_by_tokens(text, self.size, self.overlap, granite_tokenizer())


def split_recursive(
    text: str, size: int = 1000, overlap: int = 200, separators: Sequence[str] = SEPARATORS
) -> Iterator[Span]:
    """Split at the first separator that the text has. Split a piece that is still too long at the next separator.

    If no separator is left, split between any two characters, even if the separators do not end with "".

    Args:
        text: The text.
        size: Characters of a chunk, at most.
        overlap: Characters that a chunk may repeat of the one before.
        separators: Separators, in the order in which they are tried.

    Returns:
        Start and end of each chunk.
    """
    _require(size, overlap)
    if len(text) < size:
        return _trimmed(text, iter([(0, len(text))]))
    return _trimmed(text, _Recursive(text, size, overlap).pieces(0, len(text), tuple(separators)))


def split_by_tokens(text: str, size: int, overlap: int, tokenizer: Tokenizer) -> Iterator[Span]:
    """Split after `size` tokens; before a word instead of inside it, if the chunk stays longer than half of `size`.

    A character is never divided: if one character has more tokens than `size`, its chunk is too large.

    Args:
        text: The text.
        size: Tokens of a chunk, at most.
        overlap: Tokens that a chunk may repeat of the one before.
        tokenizer: Finds the tokens.

    Returns:
        Start and end of each chunk.
    """
    _require(size, overlap)
    return _trimmed(text, _windows(text, size, overlap, tokenizer.spans(text)))


def split_by_markdown(text: str, size: int = 1000, overlap: int = 200) -> Iterator[Span]:
    """Split at headings, then between blocks. A code block or a table stays whole if it fits.

    No chunk continues past a heading of level 1 to 3, unless the section before it is tiny.

    Args:
        text: The text.
        size: Characters of a chunk, at most.
        overlap: Characters that a chunk may repeat of the one before.

    Returns:
        Start and end of each chunk.
    """
    from holdfast.pipelines.rag.chunk.markdown import spans_of

    _require(size, overlap)
    return _trimmed(text, spans_of(text, size, overlap))


class _Recursive:
    """The recursive split of one text."""

    def __init__(self, text: str, size: int, overlap: int) -> None:
        self._text, self._size, self._overlap = text, size, overlap

    def pieces(self, low: int, high: int, separators: Sequence[str]) -> Iterator[Span]:
        for number, separator in enumerate(separators):
            if separator and self._text.find(separator, low, high) >= 0:
                return self._merged(self._bounds(low, high, separator), separators[number + 1 :])
        return self._characters(low, high)

    def _bounds(self, low: int, high: int, separator: str) -> list[int]:
        """Return where pieces begin, each with its separator in front, and the end of the last."""
        found = [match.start() for match in _literal(separator).finditer(self._text, low, high)]
        return [*([] if found[0] == low else [low]), *found, high]

    def _merged(self, bounds: list[int], separators: Sequence[str]) -> Iterator[Span]:
        """Put adjacent pieces together while they fit. The next chunk begins with as many as may overlap."""
        first, last = 0, len(bounds) - 1
        while first < last:
            if bounds[first + 1] - bounds[first] >= self._size:  # too long alone: nothing overlaps with it
                yield from self.pieces(bounds[first], bounds[first + 1], separators)
                first += 1
                continue
            end = bisect_right(bounds, bounds[first] + self._size, first) - 1
            yield bounds[first], bounds[end]
            if end == last:
                return
            if bounds[end + 1] - bounds[end] >= self._size:
                first = end
            else:
                first = bisect_left(bounds, max(bounds[end] - self._overlap, bounds[end + 1] - self._size), first, end)

    def _characters(self, low: int, high: int) -> Iterator[Span]:
        while high - low > self._size:
            yield low, low + self._size
            low += self._size - self._overlap
        yield low, high


@cache
def _literal(separator: str) -> re.Pattern[str]:
    return re.compile(re.escape(separator))


def _trimmed(text: str, spans: Iterator[Span]) -> Iterator[Span]:
    """Remove white space around chunks, and chunks that are then part of the one before."""
    last_end = 0
    for start, end in spans:
        piece = text[start:end]
        kept = piece.lstrip()
        first = end - len(kept)
        last = first + len(kept.rstrip())
        if first < last and last > last_end:
            yield first, last
            last_end = last


def _windows(text: str, size: int, overlap: int, spans: Sequence[Span]) -> Iterator[Span]:
    begin, count = 0, len(spans)
    while begin < count:
        end = min(begin + size, count)
        if end < count:
            end = _word_start(text, spans, begin + size // 2 + 1, end) or _character_start(spans, begin + 1, end)
        yield spans[begin][0], spans[end - 1][1]
        if end == count:
            return
        starts = range(max(end - overlap, begin + 1), end + 1)
        begin = next(token for token in starts if _begins_character(spans, token))


def _word_start(text: str, spans: Sequence[Span], least: int, most: int) -> int | None:
    """Return the last token from `least` to `most` that begins a word, or None."""
    for token in range(most, least - 1, -1):
        start = spans[token][0]
        if _begins_character(spans, token) and (text[start : start + 1].isspace() or text[start - 1].isspace()):
            return token
    return None


def _character_start(spans: Sequence[Span], least: int, most: int) -> int:
    """Return the last token from `least` to `most` that begins a character, or the first after them, or the end."""
    choices = chain(range(most, least - 1, -1), range(most + 1, len(spans)))
    return next((token for token in choices if _begins_character(spans, token)), len(spans))


def _begins_character(spans: Sequence[Span], token: int) -> bool:
    """Return True if a token does not begin inside the one before. Several tokens can be one character."""
    return token == len(spans) or spans[token][0] >= spans[token - 1][1]


def _require(size: int, overlap: int) -> None:
    if size < 1 or not 0 <= overlap < size:
        raise ValueError(
            f"the size of a chunk must be at least 1, and the overlap 0 or more and less than the size; not {size} and "
            f"{overlap}"
        )
