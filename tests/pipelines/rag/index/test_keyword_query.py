"""Keyword queries: the rarest words select chunks, all words rank them."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.pipelines.rag.index.keyword_query import (
    MAX_RANKED_OCCURRENCES,
    MAX_RUN_COUNT,
    MAX_SELECTED,
    MAX_WORDS,
    KeywordQuery,
    covered_share,
    has_run,
    keyword_query,
    match_expressions,
    query_words,
    selecting_runs,
)
from holdfast.pipelines.rag.index.question import Question, parse_question


def asked(counts: Mapping[str, int], *, enough: int = 1) -> list[str]:
    """Return the expressions for words with these counts."""
    return match_expressions(KeywordQuery([(word,) for word in counts]), lambda _: counts, enough=enough)


def expression(question: str, *languages: str) -> str:
    """Return the last expression for a question whose words are all in one chunk."""
    query = keyword_query(parse_question(question), languages)
    return match_expressions(query, lambda terms: dict.fromkeys(terms, 1))[-1]


def test_stop_words_are_not_searched() -> None:
    assert query_words("What is the Heron of the heron?") == ["heron"]


def test_a_question_of_stop_words_only_is_searched() -> None:
    assert query_words("to be or not to be") == ["to", "be", "or", "not"]


def test_the_stop_words_are_those_of_the_language_that_most_words_belong_to() -> None:
    assert query_words("wie hoch ist die Flut", ["de"]) == ["hoch", "flut"]
    assert query_words("do herons die in the water", ["de"]) == ["herons", "die", "water"]


def test_all_words_select_if_they_are_rare() -> None:
    assert asked({"heron": 10, "stork": 5}) == ['("stork" OR "heron")']


def test_the_rarest_words_select_and_all_rank() -> None:
    narrow, wide = asked({"common": 30_000, "heron": 10, "stork": 5})
    assert narrow == '(("stork" OR "heron") AND ("stork" OR "heron" OR "common"))'
    assert wide == '("stork" OR "heron" OR "common")'


def test_the_rarest_word_selects_even_if_it_is_common() -> None:
    assert asked({"common": 30_000, "often": 9_000})[0] == '(("often") AND ("often" OR "common"))'


def test_a_very_common_word_does_not_rank_with_rarer_ones() -> None:
    assert asked({"everywhere": MAX_RANKED_OCCURRENCES, "heron": 10}) == ['("heron")']
    assert asked({"everywhere": MAX_RANKED_OCCURRENCES + 1}) == ['("everywhere")']


def test_words_are_added_until_they_select_enough_chunks() -> None:
    assert asked({"heron": 10, "common": MAX_SELECTED}, enough=10)[0].startswith('(("heron") AND')
    assert asked({"heron": 10, "common": MAX_SELECTED}, enough=11) == ['("heron" OR "common")']


def test_a_word_that_no_chunk_has_is_left_out() -> None:
    assert asked({"heron": 1, "unheard": 0}) == ['("heron")']
    assert asked({"unheard": 0}) == asked({}) == []


def test_a_long_question_is_searched_by_its_rarest_words() -> None:
    (found,) = asked({f"w{n}": n // 4 + 1 for n in range(70)})
    assert found.count(" OR ") == MAX_WORDS - 1
    assert '"w0"' in found
    assert '"w69"' not in found


def test_a_word_is_searched_in_each_language_of_the_documents() -> None:
    assert expression("moorings") == '("moor")'
    assert expression("Häuser", "de") == '("hauser" OR "haus")'


def test_a_word_counts_as_often_as_all_its_terms() -> None:
    query = keyword_query(Question(text="Häuser heron"), ["de"])
    counts = {"haus": MAX_SELECTED, "heron": 3}
    assert match_expressions(query, lambda _: counts)[0].startswith('(("heron") AND')


def test_a_phrase_and_an_exclusion_are_expressions_of_their_own() -> None:
    assert (
        expression('"spring tide" -neap')
        == '((("spring tide")) AND ((("spring tide")) OR "spring" OR "tide")) NOT ("neap")'
    )


def test_text_without_spaces_is_searched_by_pairs() -> None:
    assert expression("東京都") == '("東京" OR "京都")'
    assert expression("水") == '("水" *)'
    assert expression('"東京都"').startswith('((("東京 京都"))')


def test_the_share_of_a_passage_with_one_changed_word_is_high() -> None:
    query = keyword_query(Question(text="an anchor of twenty kilos holds a boat"), [])
    runs = query.runs

    def share(text: str) -> float:
        return covered_share(query, [has_run(run, f" {text} ") for run in runs])

    assert share("an anchor of twenti kilo hold a boat in sand") == 1
    assert share("an anchor of thirti kilo hold a boat") == 7 / 8
    assert share("a boat an anchor") == 0.5
    assert share("boat anchor kilo") == 0


def test_runs_of_common_words_select_nothing() -> None:
    query = keyword_query(Question(text="it is the heron"), [])
    counts = {"it": 9_000, "is": 9_000, "the": 9_000, "heron": 5}
    assert selecting_runs(query, lambda _: counts) == [("is", "the", "heron")]
    assert selecting_runs(query, lambda _: counts | {"heron": MAX_RUN_COUNT + 1}) == []
