"""Questions in words: the rarest choose, all rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.pipelines.rag.index.sqlite.stems import Stems
from holdfast.pipelines.rag.index.words import ENOUGH, MANY, WEIGHED, match, words_of


def asked(counts: Mapping[str, int], *, enough: int = 1) -> list[str]:
    """Gives the expressions for words that occur so often."""
    return match([*counts], {word: [word] for word in counts}, lambda _: counts, enough=enough)


def test_words_that_are_in_every_text_are_not_looked_for() -> None:
    assert words_of("What is the Heron of the heron?") == ["heron"]


def test_a_question_of_nothing_else_is_looked_for_as_it_is() -> None:
    assert words_of("to be or not to be") == ["to", "be", "or", "not"]


def test_all_words_choose_where_they_are_rare() -> None:
    assert asked({"heron": 10, "stork": 5}) == ['"stork" OR "heron"']


def test_the_rarest_words_choose_and_all_rank() -> None:
    narrow, wide = asked({"common": 30_000, "heron": 10, "stork": 5})
    assert narrow == '("stork" OR "heron") AND ("stork" OR "heron" OR "common")'
    assert wide == '"stork" OR "heron" OR "common"'


def test_the_rarest_word_chooses_however_common_it_is() -> None:
    assert asked({"common": 30_000, "often": 9_000})[0] == '("often") AND ("often" OR "common")'


def test_a_word_that_is_nearly_everywhere_does_not_rank_beside_rarer_ones() -> None:
    assert asked({"everywhere": WEIGHED, "heron": 10}) == ['"heron"']
    assert asked({"everywhere": WEIGHED + 1}) == ['"everywhere"']


def test_words_choose_until_they_are_in_enough_chunks() -> None:
    assert asked({"heron": 10, "common": ENOUGH}, enough=10)[0].startswith('("heron") AND')
    assert asked({"heron": 10, "common": ENOUGH}, enough=11) == ['"heron" OR "common"']


def test_a_word_that_no_chunk_has_is_left_out() -> None:
    assert asked({"heron": 1, "unheard": 0}) == ['"heron"']
    assert asked({"unheard": 0}) == asked({}) == []


def test_of_a_whole_page_the_rarest_words_are_looked_for() -> None:
    (expression,) = asked({f"w{n}": n // 4 + 1 for n in range(70)})
    assert expression.count(" OR ") == MANY - 1
    assert '"w0"' in expression
    assert '"w69"' not in expression


def test_a_word_that_is_several_to_the_tokenizer_counts_as_its_rarest() -> None:
    def count(stems: Sequence[str]) -> dict[str, int]:
        return {"snake": 9, "case": 1}

    assert match(["snake_case", "other"], {"snake_case": ["snake", "case"], "other": []}, count) == ['"snake_case"']


def test_stems_are_those_under_which_full_text_keeps_words() -> None:
    stems = Stems("porter unicode61 remove_diacritics 2")
    assert stems.of(["herons", "nesting", "crème", "a_b", "_"]) == {
        "herons": ["heron"],
        "nesting": ["nest"],
        "crème": ["creme"],
        "a_b": ["a", "b"],
        "_": [],
    }
    assert stems.of([]) == {}
