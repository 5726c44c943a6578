"""Custom embedders: their vectors are checked, and normalised to length one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="document search needs the extra rag")

import numpy as np

from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.settings import CustomEmbedderRequired
from holdfast.pipelines.rag.embed.hashing import HashEmbedder
from holdfast.pipelines.rag.embed.protocol import InvalidVectors, unit_rows
from holdfast.stores.protocol import Store
from tests.support.custom_embedder import CustomEmbedder

TEXTS = {"anchors.txt": "An anchor holds the boat in sand.", "tides.txt": "The tide comes twice a day."}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    return str(tmp_path / "*.txt")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda rows: rows[:, :5], r"own-8 returned an array of shape \(1, 5\) for 1 texts; \(1, 8\) was expected"),
        (lambda rows: rows[:0], r"own-8 returned an array of shape \(0, 8\)"),
        (lambda rows: rows[0], r"own-8 returned an array of shape \(8,\)"),
        (lambda rows: None, r"own-8 returned an array of shape \(\)"),
        (lambda rows: rows * np.nan, "own-8 returned numbers that are not finite"),
        (lambda rows: rows + np.inf, "own-8 returned numbers that are not finite"),
        (lambda rows: [[1.0], [1.0, 2.0]], "own-8 returned values that are not numbers"),
        (lambda rows: [["a"] * 8], "own-8 returned values that are not numbers"),
    ],
)
def test_invalid_vectors_make_a_dead_letter(store: Store, folder: str, make: Callable[[Any], Any], said: str) -> None:
    library = rag.Library(store, embedder=CustomEmbedder(make))
    report = library.ingest(folder)
    assert (report.done, report.dead) == (0, 2)
    for dead in store.documents_by_id(store.select("documents", state="dead")):
        assert re.search(said, dead.reason)
        assert dead.attempts == 1


@pytest.mark.parametrize("factor", [1e-30, 0.01, 1.0, 1000.0, 1e30])
def test_vectors_of_any_length_are_compared_by_their_direction(store: Store, folder: str, factor: float) -> None:
    library = rag.Library(store, embedder=CustomEmbedder(lambda rows: rows.astype(np.float64) * factor))
    assert library.ingest(folder).done == 2
    (kept,) = store_vectors(store, "anchors.txt")
    assert np.linalg.norm(kept.astype(np.float32)) == pytest.approx(1, abs=2e-3)
    assert library.search("an anchor holds the boat", by="meaning")[0].key == "anchors.txt"


def test_a_text_whose_vector_is_zero_is_found_by_its_words(store: Store, folder: str) -> None:
    library = rag.Library(store, embedder=CustomEmbedder(lambda rows: rows * 0))
    assert library.ingest(folder).done == 2
    assert [one.key for one in library.search("anchor")] == ["anchors.txt"]
    assert library.search("anchor", by="meaning") == []


def test_a_question_without_a_vector_is_an_error(store: Store, folder: str) -> None:
    rag.Library(store, embedder=CustomEmbedder()).ingest(folder)
    with pytest.raises(InvalidVectors, match="own-8 returned numbers that are not finite"):
        rag.Library(store, embedder=CustomEmbedder(lambda rows: rows * np.nan)).search("anchor")


def test_vectors_of_length_one_are_not_changed() -> None:
    rows = HashEmbedder(8).embed(["an anchor", "a tide", "the sand"])
    assert (unit_rows(rows, CustomEmbedder(), count=3) == rows).all()


def test_a_collection_names_the_embedder_that_it_was_made_with(store: Store, folder: str) -> None:
    rag.Library(store, embedder=CustomEmbedder()).ingest(folder)
    assert rag.Library(store).collection.settings.embedder == "own:own-8"
    assert rag.Library(store, embedder=CustomEmbedder()).search("anchor", by="meaning")[0].key == "anchors.txt"


def test_without_the_embedder_a_search_by_meaning_is_an_error_and_by_words_works(store: Store, folder: str) -> None:
    rag.Library(store, embedder=CustomEmbedder()).ingest(folder)
    without = rag.Library(store)
    with pytest.raises(CustomEmbedderRequired, match="'documents' was made with the custom embedder 'own-8'"):
        without.search("anchor")
    with pytest.raises(CustomEmbedderRequired, match="'documents' was made with the custom embedder 'own-8'"):
        without.search("anchor", by="meaning")
    with pytest.raises(CustomEmbedderRequired, match="own-8"):
        without.ingest(folder)
    assert [one.key for one in without.search("anchor", by="words")] == ["anchors.txt"]


def test_a_collection_of_an_earlier_release_gets_the_new_name_and_embeds_nothing_again(
    store: Store, folder: str
) -> None:
    rag.Library(store, embedder=CustomEmbedder()).ingest(folder)
    with store.transaction() as tx:
        tx.execute("update rag_collection set settings = '{}', searched = null")
    library = rag.Library(store, embedder=CustomEmbedder())
    assert library.search("anchor", by="meaning")[0].key == "anchors.txt"
    assert library.collection.searched is None
    assert library.ingest(folder).done == 0
    assert rag.Library(store).collection.settings.embedder == "own:own-8"


def test_a_custom_embedder_is_searched_once_all_its_vectors_are_made(store: Store, folder: str) -> None:
    rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64")).ingest(folder)
    library = rag.Library(store, embedder=CustomEmbedder())
    assert rag.Library(store).search("anchor", by="meaning")[0].key == "anchors.txt", "searched as before meanwhile"
    library.ingest(folder)
    assert library.search("anchor", by="meaning")[0].key == "anchors.txt"
    assert library.collection.searched is None


def test_an_embedder_that_the_settings_can_name_is_not_custom(store: Store) -> None:
    settings = rag.CollectionSettings(embedder="hash:64")
    assert rag.Library(store, settings=settings, embedder=HashEmbedder(64)).collection.settings == settings


def store_vectors(store: Store, key: str) -> list[Any]:
    """The stored vectors of a document."""
    asked = """
    select v.vector from rag_vector v join rag_chunk c on c.hash = v.hash join rag_document d on d.id = c.document_id
     where d.key = ?
    """
    with store.reading() as tx:
        return [np.frombuffer(row[0], "<f2") for row in tx.execute(asked, (key,)).fetchall()]
