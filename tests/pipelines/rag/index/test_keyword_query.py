"""Keyword queries: the rarest words select chunks, all words rank them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.pipelines.rag.index.keyword_query import (
    MAX_RANKED_OCCURRENCES,
    MAX_SELECTED,
    MAX_WORDS,
    match_expressions,
    query_words,
)
from holdfast.pipelines.rag.index.sqlite.stemming import Stemmer


def asked(counts: Mapping[str, int], *, enough: int = 1) -> list[str]:
    """Return the expressions for words with these counts."""
    return match_expressions([*counts], {word: [word] for word in counts}, lambda _: counts, enough=enough)


def test_stop_words_are_not_searched() -> None:
    assert query_words("What is the Heron of the heron?") == ["heron"]


def test_a_question_of_stop_words_only_is_searched() -> None:
    assert query_words("to be or not to be") == ["to", "be", "or", "not"]


def test_all_words_select_if_they_are_rare() -> None:
    assert asked({"heron": 10, "stork": 5}) == ['"stork" OR "heron"']


def test_the_rarest_words_select_and_all_rank() -> None:
    narrow, wide = asked({"common": 30_000, "heron": 10, "stork": 5})
    assert narrow == '("stork" OR "heron") AND ("stork" OR "heron" OR "common")'
    assert wide == '"stork" OR "heron" OR "common"'


def test_the_rarest_word_selects_even_if_it_is_common() -> None:
    assert asked({"common": 30_000, "often": 9_000})[0] == '("often") AND ("often" OR "common")'


def test_a_very_common_word_does_not_rank_with_rarer_ones() -> None:
    assert asked({"everywhere": MAX_RANKED_OCCURRENCES, "heron": 10}) == ['"heron"']
    assert asked({"everywhere": MAX_RANKED_OCCURRENCES + 1}) == ['"everywhere"']


def test_words_are_added_until_they_select_enough_chunks() -> None:
    assert asked({"heron": 10, "common": MAX_SELECTED}, enough=10)[0].startswith('("heron") AND')
    assert asked({"heron": 10, "common": MAX_SELECTED}, enough=11) == ['"heron" OR "common"']


def test_a_word_that_no_chunk_has_is_left_out() -> None:
    assert asked({"heron": 1, "unheard": 0}) == ['"heron"']
    assert asked({"unheard": 0}) == asked({}) == []


def test_a_long_question_is_searched_by_its_rarest_words() -> None:
    (expression,) = asked({f"w{n}": n // 4 + 1 for n in range(70)})
    assert expression.count(" OR ") == MAX_WORDS - 1
    assert '"w0"' in expression
    assert '"w69"' not in expression


def test_a_word_with_several_stems_counts_as_its_rarest_stem() -> None:
    def count(stems: Sequence[str]) -> dict[str, int]:
        return {"snake": 9, "case": 1}

    assert match_expressions(["snake_case", "other"], {"snake_case": ["snake", "case"], "other": []}, count) == [
        '"snake_case"'
    ]


def test_stems_are_those_of_the_full_text_index() -> None:
    stemmer = Stemmer("porter unicode61 remove_diacritics 2")
    assert stemmer.stems(["herons", "nesting", "crème", "a_b", "_"]) == {
        "herons": ["heron"],
        "nesting": ["nest"],
        "crème": ["creme"],
        "a_b": ["a", "b"],
        "_": [],
    }
    assert stemmer.stems([]) == {}
