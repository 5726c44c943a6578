"""Terms: words are stemmed and folded, text without spaces becomes pairs of characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipelines.rag.index.tokenizer import MAX_TERM, pairs_of, terms_of, tokens_of, variants_of


@pytest.mark.parametrize(
    ("text", "language", "terms"),
    [
        ("The herons were nesting", "en", ["the", "heron", "were", "nest"]),
        ("crème a_b don't", "en", ["creme", "a", "b", "don", "t"]),
        ("Die Häuser der Straße", "de", ["die", "haus", "der", "strass"]),
        ("las naciones", "es", ["las", "nacion"]),
        ("волны и волна", "ru", ["волн", "и", "волн"]),
        ("東京都の水道", "ja", ["東京", "京都", "都の", "の水", "水道", "道"]),
        ("한국어", "ko", ["한국", "국어", "어"]),
        ("ﾃﾞｰﾀ", "ja", ["デー", "ータ", "タ"]),
        ("iPhone 15を買う", "ja", ["iphone", "15", "を買", "買う", "う"]),
        ("ภาษา", "th", ["ภา", "าษ", "ษา", "า"]),
        ("Øresund Łódź", "", ["oresund", "lodz"]),
        ("e\u0301te\u0301", "fr", ["ete"]),
        ("🦩 _ \ud800 \0", "en", []),
        ("x" * 500, "en", ["x" * MAX_TERM]),
    ],
)
def test_terms(text: str, language: str, terms: list[str]) -> None:
    assert terms_of(text, language) == terms


def test_tokens_have_their_positions() -> None:
    text = "Die Häuser: 東京 x"
    assert [(term, text[start:end]) for term, start, end in tokens_of(text, "de")] == [
        ("die", "Die"),
        ("haus", "Häuser"),
        ("東京", "東京"),
        ("京", "京"),
        ("x", "x"),
    ]


def test_a_question_for_pairs_has_no_single_character_at_its_end() -> None:
    assert pairs_of("東京都") == ["東京", "京都"]
    assert pairs_of("水") == ["水"]


@pytest.mark.parametrize(
    ("typed", "written", "language"),
    [
        ("informacion", "información", "es"),
        ("información", "informaciones", "es"),
        ("mangee", "mangée", "fr"),
        ("Uber", "über", "de"),
        ("creme", "crème", "fr"),
    ],
)
def test_a_word_without_accents_finds_the_word_with_them(typed: str, written: str, language: str) -> None:
    assert set(terms_of(written, language)) & set(variants_of(typed, [language]))


@given(st.text(max_size=80), st.sampled_from(["", "en", "de", "ja", "ar", "hi", "xx"]))
def test_terms_have_only_letters_digits_and_marks(text: str, language: str) -> None:
    for term, start, end in tokens_of(text, language):
        assert 0 < len(term) <= MAX_TERM
        assert 0 <= start < end <= len(text)
        assert not set(term) & set(" '\"\\*:|&!()<>-_\0")
        assert not term.isascii() or term.isalnum()
