"""The stemmers and stop words of languages."""

from __future__ import annotations

from holdfast.pipelines.rag.index.languages import STEMMERS, STOP_WORD_FOLDER, stem, stop_words, without_stop_words


def test_every_stemmer_exists() -> None:
    for language in STEMMERS:
        assert stem("harbour", language)


def test_a_language_without_a_stemmer_keeps_its_words() -> None:
    assert stem("moorings", "xx") == "moorings"


def test_a_text_of_no_known_language_is_stemmed_as_english() -> None:
    assert stem("moorings", "") == "moor"


def test_every_list_of_stop_words_belongs_to_a_stemmed_language() -> None:
    names = {path.stem for path in STOP_WORD_FOLDER.glob("*.txt")}
    assert names <= set(STEMMERS)
    assert all(len(stop_words(name)) > 40 for name in names)


def test_a_question_of_stop_words_keeps_them() -> None:
    assert without_stop_words(["die", "der"], ["de"]) == ["die", "der"]
