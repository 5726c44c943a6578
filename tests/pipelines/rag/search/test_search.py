"""How the hits of indexes become results, and which processes may search."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.pipelines.rag import CollectionSettings, Library
from holdfast.pipelines.rag.index import Hit, Where
from holdfast.pipelines.rag.search.search import DEPTH, By


def test_a_text_like_the_best_result_comes_before_others_without_the_word(tmp_path: Path) -> None:
    for name, text in {"c": "a crane lifts steel", "b": "a fluke digs in", "a": "an anchor with a fluke"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    with holdfast.open(f"sqlite:///{tmp_path}/x.db") as store:
        library = Library(store, settings=CollectionSettings(embedder="hash:64"))
        library.ingest(str(tmp_path / "*.txt"))
        assert [result.key for result in library.search("anchor")] == ["a.txt", "b.txt", "c.txt"]
        assert {result.key: result.by_words for result in library.search("anchor")} == {
            "a.txt": 1,
            "b.txt": None,
            "c.txt": None,
        }


def test_an_unpaired_surrogate_in_a_question_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("an anchor")
    with holdfast.open(f"sqlite:///{tmp_path}/x.db") as store:
        library = Library(store)
        library.ingest(str(tmp_path / "*.txt"))
        assert [result.key for result in library.search("anchor \udcff")] == ["a.txt"]


@pytest.fixture
def whales(tmp_path: Path) -> Iterator[Library]:
    """A book that fills every list, and five notes that are ranked after it."""
    folder = tmp_path / "whales"
    folder.mkdir()
    (folder / "book.txt").write_text("\f".join(f"whale song number {n}" for n in range(400)))
    for n in range(5):
        (folder / f"note{n}.txt").write_text(f"Note {n} of a long voyage, on which a whale was seen far off.")
    with holdfast.open(f"sqlite:///{tmp_path}/whales.db") as store:
        library = Library(store, settings=CollectionSettings(embedder="hash:64"))
        library.ingest(str(folder))
        yield library


@pytest.fixture
def tides(tmp_path: Path) -> Iterator[Library]:
    folder = tmp_path / "tides"
    folder.mkdir()
    (folder / "spring.txt").write_text("High water\n\nThe spring tide comes at new and at full moon, and so does rain.")
    (folder / "neap.md").write_text("# Low water\n\nThe neap tide comes a week after the other one, in spring too.")
    with holdfast.open(f"sqlite:///{tmp_path}/tides.db") as store:
        library = Library(store, settings=CollectionSettings(embedder="hash:64"))
        library.ingest(str(folder))
        yield library


@pytest.mark.parametrize("by", [None, "words", "meaning"])
@pytest.mark.parametrize(
    ("question", "found"),
    [
        ('"spring tide"', {"spring.txt"}),
        ('tide "week after"', {"neap.md"}),
        ('"tide spring"', set()),
        ("tide -neap", {"spring.txt"}),
        ('tide -"spring tide"', {"neap.md"}),
        ("tide title:low", {"neap.md"}),
        ("tide path:spring", {"spring.txt"}),
        ("tide type:markdown", {"neap.md"}),
        ("tide type:markdown type:text", {"spring.txt", "neap.md"}),
        ('"spring tide" type:markdown', set()),
    ],
)
def test_the_syntax_of_a_question_holds_for_words_and_for_meaning(
    tides: Library, question: str, found: set[str], by: By | None
) -> None:
    assert {result.key for result in tides.search(question, by=by)} == found


def test_a_copied_passage_comes_first_also_with_a_word_changed(tides: Library) -> None:
    (best, *_) = tides.search("comes a week before the other one in spring")
    assert best.key == "neap.md"
    assert best.score <= 1


@pytest.mark.parametrize("by", [None, "words", "meaning"])
def test_documents_are_found_behind_one_that_fills_the_lists(whales: Library, by: By | None) -> None:
    found = whales.search("whale song", limit=6, each=1, by=by)
    assert {result.key for result in found} == {"book.txt", *(f"note{n}.txt" for n in range(5))}
    assert found[0].key == "book.txt"


@pytest.mark.parametrize("by", [None, "words", "meaning"])
def test_a_search_returns_as_many_results_as_wanted_if_there_are_so_many(whales: Library, by: By | None) -> None:
    assert len(whales.search("whale song", limit=390, by=by)) == 390
    assert len(whales.search("whale song", limit=1000, by=by)) == 405


@pytest.mark.parametrize("by", ["words", "meaning"])
def test_the_best_result_of_a_single_list_has_the_highest_score(whales: Library, by: By) -> None:
    assert whales.search("whale song", limit=1, by=by)[0].score == 1.0


def test_a_usual_question_searches_once(whales: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    depths: list[int] = []
    search_words = whales.index.search_words

    def watched(question: str, where: Where, *, limit: int) -> list[Hit]:
        depths.append(limit)
        return search_words(question, where, limit=limit)

    monkeypatch.setattr(whales.index, "search_words", watched)
    whales.search("whale song")
    assert depths == [DEPTH]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_searches_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("An anchor holds the boat in sand.")
    with holdfast.open(f"sqlite:///{tmp_path}/x.db") as store:
        library = Library(store, settings=CollectionSettings(embedder="hash:64"))
        library.ingest(str(tmp_path / "a.txt"))
        assert library.search("anchor")
        child = os.fork()
        if child == 0:
            os._exit(0 if library.search("anchor") else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
