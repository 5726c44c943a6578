"""The part of a chunk that a person is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.pipelines.rag.index.tokenizer import tokens_of
from holdfast.pipelines.rag.search.snippets import SNIPPET_LENGTH, _best_start, snippet_of

words = st.sampled_from(["boat", "anchor", "sand", "Sand", "the", "of", "x" * (SNIPPET_LENGTH + 60)])


@given(st.lists(words, max_size=60))
def test_a_snippet_begins_where_most_of_the_words_are(chosen: list[str]) -> None:
    text = " ".join(chosen)
    spans = [span for term, *span in tokens_of(text) if term not in ("the", "of")]

    def has(begin: int) -> int:
        return len({text[a:b].lower() for a, b in spans if begin <= a and b <= begin + SNIPPET_LENGTH})

    assert _best_start(text, spans) == max((begin for begin, _ in spans), key=has, default=0)


@given(st.lists(words, max_size=60))
def test_marks_are_words_of_the_question(chosen: list[str]) -> None:
    snippet, marks = snippet_of(" ".join(chosen), "boat sand")
    assert {snippet[a:b].lower() for a, b in marks} <= {"boat", "sand"}


def test_an_ellipsis_shows_where_text_was_cut_off() -> None:
    text = " ".join(["water"] * 200 + ["anchor"] + ["water"] * 200)
    snippet, ((start, end),) = snippet_of(text, "anchor")
    assert snippet.startswith("… water")
    assert snippet.endswith("water …")
    assert snippet[start:end] == "anchor"
    assert snippet_of("an anchor holds", "anchor") == ("an anchor holds", ((3, 9),))
