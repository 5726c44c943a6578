"""Search, apart from what indexes find: what people are shown of it, and who may ask."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.pipelines.rag import Library, Settings
from holdfast.pipelines.rag.index.words import WORD
from holdfast.pipelines.rag.search import SNIPPET, _richest, snippet_of

words = st.sampled_from(["boat", "anchor", "sand", "Sand", "the", "of", "x" * (SNIPPET + 60)])


@given(st.lists(words, max_size=60))
def test_a_snippet_begins_where_most_of_the_words_stand(said: list[str]) -> None:
    text = " ".join(said)
    places = [match.span() for match in WORD.finditer(text) if match.group() not in ("the", "of")]

    def has(begin: int) -> int:
        return len({text[a:b].lower() for a, b in places if begin <= a and b <= begin + SNIPPET})

    assert _richest(text, places) == max((begin for begin, _ in places), key=has, default=0)


@given(st.lists(words, max_size=60))
def test_marks_are_words_that_were_asked_for(said: list[str]) -> None:
    snippet, marks = snippet_of(" ".join(said), ["boat", "sand"])
    assert {snippet[a:b].lower() for a, b in marks} <= {"boat", "sand"}


def test_a_text_like_the_best_answer_comes_before_others_that_do_not_say_what_was_asked(tmp_path: Path) -> None:
    for name, text in {"c": "a crane lifts steel", "b": "a fluke digs in", "a": "an anchor with a fluke"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    with holdfast.open(f"sqlite:///{tmp_path}/x.db") as store:
        library = Library(store, settings=Settings(embedder="hash:64"))
        library.ingest(str(tmp_path / "*.txt"))
        assert [one.key for one in library.search("anchor")] == ["a.txt", "b.txt", "c.txt"]
        assert {one.key: one.by_words for one in library.search("anchor")} == {"a.txt": 1, "b.txt": None, "c.txt": None}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_searches_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("An anchor holds the boat in sand.")
    with holdfast.open(f"sqlite:///{tmp_path}/x.db") as store:
        library = Library(store, settings=Settings(embedder="hash:64"))
        library.ingest(str(tmp_path / "a.txt"))
        assert library.search("anchor")
        child = os.fork()
        if child == 0:
            os._exit(0 if library.search("anchor") else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
