"""Splitters: where to cut a text so that each piece is small enough, as spans into it.

Spans, not strings: `text[start:end]` is the piece, so an answer can always be traced to its place. The recursive
splitter makes the cuts that langchain's makes, by searching boundaries instead of joining pieces.
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
    """Says where tokens stand in a text, in order."""

    def spans(self, text: str) -> list[Span]:
        """Gives the start and the end of each token."""


class Words:
    """A tokenizer without a model: words, and single signs."""

    def spans(self, text: str) -> list[Span]:
        """Gives the start and the end of each word or sign."""
        return [match.span() for match in WORD.finditer(text)]


USUAL = {"recursive": (1000, 200), "markdown": (1000, 200), "tokens": (450, 90)}
"""Size and overlap, where none are said. The default model reads 510 tokens, of which the title may take 50."""
UNSAID = -(2**31)


class Splitting(Struct, frozen=True):
    """How a collection's texts are split. Sizes are characters, or tokens of the default model when `how` is tokens.

    Where no sizes are said, they are those of `USUAL`; of chunks that are smaller than the usual overlap, a fifth is.
    """

    how: Literal["recursive", "tokens", "markdown"] = "recursive"
    size: int = UNSAID
    overlap: int = UNSAID

    def __post_init__(self) -> None:
        if self.how not in USUAL:
            raise ValueError(f"texts are split by recursive, tokens or markdown, not by {self.how!r}")
        size, overlap = USUAL[self.how]
        if self.size == UNSAID:
            force_setattr(self, "size", size)
        if self.overlap == UNSAID:
            force_setattr(self, "overlap", overlap if overlap < self.size else self.size // 5)
        _require(self.size, self.overlap)

    def otherwise(self, **said: Any) -> Splitting:
        """Gives it with what is said changed. Sizes in characters say nothing of sizes in tokens: they begin anew."""
        in_tokens = said.get("how", self.how) == "tokens"
        stays = asdict(self) if in_tokens == (self.how == "tokens") else {}
        if self.overlap >= said.get("size", self.size):
            stays.pop("overlap", None)
        return Splitting(**stays | said)

    def split(self, text: str) -> Iterator[Span]:
        """Gives the span of each chunk, in order."""
        match self.how:
            case "recursive":
                return recursive(text, self.size, self.overlap)
            case "markdown":
                return by_markdown(text, self.size, self.overlap)
            case "tokens":
                from holdfast.pipelines.rag.embedders.granite import granite_tokens

                return by_tokens(text, self.size, self.overlap, granite_tokens())


def recursive(
    text: str, size: int = 1000, overlap: int = 200, separators: Sequence[str] = SEPARATORS
) -> Iterator[Span]:
    """Cuts at the first separator that the text has; a piece that is still too long, at the next one.

    The last resort is between any two characters, also when the separators do not end with "".
    """
    _require(size, overlap)
    if len(text) < size:
        return _trimmed(text, iter([(0, len(text))]))
    return _trimmed(text, _Recursive(text, size, overlap).pieces(0, len(text), tuple(separators)))


def by_tokens(text: str, size: int, overlap: int, tokenizer: Tokenizer) -> Iterator[Span]:
    """Cuts after so many tokens; before a word rather than inside one, if that costs less than half of a chunk.

    A character is never cut, so one that is more tokens than `size` is a chunk that is too large.
    """
    _require(size, overlap)
    return _trimmed(text, _windows(text, size, overlap, tokenizer.spans(text)))


def by_markdown(text: str, size: int = 1000, overlap: int = 200) -> Iterator[Span]:
    """Cuts at headings, then between blocks; a code fence or a table is kept whole when it fits.

    No chunk goes over a heading of level 1 to 3, unless what stands before it is tiny.
    """
    from holdfast.pipelines.rag.sections import spans_of

    _require(size, overlap)
    return _trimmed(text, spans_of(text, size, overlap))


class _Recursive:
    """One text on its way through the separators."""

    def __init__(self, text: str, size: int, overlap: int) -> None:
        self._text, self._size, self._overlap = text, size, overlap

    def pieces(self, low: int, high: int, separators: Sequence[str]) -> Iterator[Span]:
        for number, separator in enumerate(separators):
            if separator and self._text.find(separator, low, high) >= 0:
                return self._merged(self._bounds(low, high, separator), separators[number + 1 :])
        return self._characters(low, high)

    def _bounds(self, low: int, high: int, separator: str) -> list[int]:
        """Where pieces begin, each with its separator in front, and the end of the last."""
        found = [match.start() for match in _literal(separator).finditer(self._text, low, high)]
        return [*([] if found[0] == low else [low]), *found, high]

    def _merged(self, bounds: list[int], separators: Sequence[str]) -> Iterator[Span]:
        """Puts neighbouring pieces together while they fit, and begins anew with as many as may overlap."""
        first, last = 0, len(bounds) - 1
        while first < last:
            if bounds[first + 1] - bounds[first] >= self._size:  # too long by itself: nothing overlaps with it
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
    """Leaves out the space around pieces, and a piece that then is a part of the one before it."""
    behind = 0
    for start, end in spans:
        piece = text[start:end]
        kept = piece.lstrip()
        first = end - len(kept)
        last = first + len(kept.rstrip())
        if first < last and last > behind:
            yield first, last
            behind = last


def _windows(text: str, size: int, overlap: int, spans: Sequence[Span]) -> Iterator[Span]:
    begin, count = 0, len(spans)
    while begin < count:
        end = min(begin + size, count)
        if end < count:
            end = _word_start(text, spans, begin + size // 2 + 1, end) or _character_start(spans, begin + 1, end)
        yield spans[begin][0], spans[end - 1][1]
        if end == count:
            return
        begin = next(one for one in range(max(end - overlap, begin + 1), end + 1) if _is_apart(spans, one))


def _word_start(text: str, spans: Sequence[Span], least: int, most: int) -> int | None:
    """The last of some tokens that begins a word."""
    for token in range(most, least - 1, -1):
        start = spans[token][0]
        if _is_apart(spans, token) and (text[start : start + 1].isspace() or text[start - 1].isspace()):
            return token
    return None


def _character_start(spans: Sequence[Span], least: int, most: int) -> int:
    """The last of some tokens that begins a character, or the first thereafter; or the end."""
    choices = chain(range(most, least - 1, -1), range(most + 1, len(spans)))
    return next((one for one in choices if _is_apart(spans, one)), len(spans))


def _is_apart(spans: Sequence[Span], token: int) -> bool:
    """Answers whether a token does not begin inside the one before: a character may be several."""
    return token == len(spans) or spans[token][0] >= spans[token - 1][1]


def _require(size: int, overlap: int) -> None:
    if size < 1 or not 0 <= overlap < size:
        raise ValueError(
            f"a chunk has a size of at least 1 and an overlap from 0 to less than that, not {size} and {overlap}"
        )
