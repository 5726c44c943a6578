"""Search, apart from what indexes find: what people are shown of it, and who may ask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.pipelines.rag import Library, Settings
from holdfast.pipelines.rag.index import Hit, Where
from holdfast.pipelines.rag.index.words import WORD
from holdfast.pipelines.rag.search import DEPTH, SNIPPET, By, _richest, snippet_of

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


def test_half_a_character_in_a_question_is_one_that_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("an anchor")
    with holdfast.open(f"sqlite:///{tmp_path}/x.db") as store:
        library = Library(store)
        library.ingest(str(tmp_path / "*.txt"))
        assert [one.key for one in library.search("anchor \udcff")] == ["a.txt"]


@pytest.fixture
def whales(tmp_path: Path) -> Iterator[Library]:
    """A book that fills every list, and five notes that stand behind it."""
    folder = tmp_path / "whales"
    folder.mkdir()
    (folder / "book.txt").write_text("\f".join(f"whale song number {n}" for n in range(400)))
    for n in range(5):
        (folder / f"note{n}.txt").write_text(f"Note {n} of a long voyage, on which a whale was seen far off.")
    with holdfast.open(f"sqlite:///{tmp_path}/whales.db") as store:
        library = Library(store, settings=Settings(embedder="hash:64"))
        library.ingest(str(folder))
        yield library


@pytest.mark.parametrize("by", [None, "words", "meaning"])
def test_documents_are_found_behind_one_that_fills_the_lists(whales: Library, by: By | None) -> None:
    found = whales.search("whale song", limit=6, each=1, by=by)
    assert {one.key for one in found} == {"book.txt", *(f"note{n}.txt" for n in range(5))}
    assert found[0].key == "book.txt"


@pytest.mark.parametrize("by", [None, "words", "meaning"])
def test_as_many_answers_are_given_as_were_asked_for_and_are_there(whales: Library, by: By | None) -> None:
    assert len(whales.search("whale song", limit=390, by=by)) == 390
    assert len(whales.search("whale song", limit=1000, by=by)) == 405


@pytest.mark.parametrize("by", ["words", "meaning"])
def test_the_best_answer_of_the_only_list_that_was_asked_for_has_the_highest_score(whales: Library, by: By) -> None:
    assert whales.search("whale song", limit=1, by=by)[0].score == 1.0


def test_the_usual_question_looks_once(whales: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    depths: list[int] = []
    look = whales.index.by_words

    def watched(question: str, where: Where, *, limit: int) -> list[Hit]:
        depths.append(limit)
        return look(question, where, limit=limit)

    monkeypatch.setattr(whales.index, "by_words", watched)
    whales.search("whale song")
    assert depths == [DEPTH]


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
