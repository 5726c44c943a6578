"""Embedders of one's own: what they give is checked, and brought to length one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="document search needs the extra rag")

import numpy as np

from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections import OwnEmbedder
from holdfast.pipelines.rag.embedders.hashing import Hashing
from holdfast.pipelines.rag.embedders.units import WrongVectors, unit_rows
from holdfast.stores.protocol import Store
from tests.rag.embedders.own import Own

TEXTS = {"anchors.txt": "An anchor holds the boat in sand.", "tides.txt": "The tide comes twice a day."}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    return str(tmp_path / "*.txt")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda rows: rows[:, :5], r"own-8 gave an array of shape \(1, 5\) for 1 texts; \(1, 8\) was expected"),
        (lambda rows: rows[:0], r"own-8 gave an array of shape \(0, 8\)"),
        (lambda rows: rows[0], r"own-8 gave an array of shape \(8,\)"),
        (lambda rows: None, r"own-8 gave an array of shape \(\)"),
        (lambda rows: rows * np.nan, "own-8 gave numbers that are not finite"),
        (lambda rows: rows + np.inf, "own-8 gave numbers that are not finite"),
        (lambda rows: [[1.0], [1.0, 2.0]], "own-8 gave what are not numbers"),
        (lambda rows: [["a"] * 8], "own-8 gave what are not numbers"),
    ],
)
def test_what_are_no_vectors_of_its_dimension_is_the_reason_of_a_dead_letter(
    store: Store, folder: str, make: Callable[[Any], Any], said: str
) -> None:
    library = rag.Library(store, embedder=Own(make))
    report = library.ingest(folder)
    assert (report.done, report.dead) == (0, 2)
    for dead in store.look(store.select("documents", state="dead")):
        assert re.search(said, dead.reason)
        assert dead.attempts == 1


@pytest.mark.parametrize("factor", [1e-30, 0.01, 1.0, 1000.0, 1e30])
def test_vectors_of_any_length_are_compared_by_their_direction(store: Store, folder: str, factor: float) -> None:
    library = rag.Library(store, embedder=Own(lambda rows: rows.astype(np.float64) * factor))
    assert library.ingest(folder).done == 2
    (kept,) = store_vectors(store, "anchors.txt")
    assert np.linalg.norm(kept.astype(np.float32)) == pytest.approx(1, abs=2e-3)
    assert library.search("an anchor holds the boat", by="meaning")[0].key == "anchors.txt"


def test_a_text_of_which_the_model_knows_nothing_is_found_by_its_words(store: Store, folder: str) -> None:
    library = rag.Library(store, embedder=Own(lambda rows: rows * 0))
    assert library.ingest(folder).done == 2
    assert [one.key for one in library.search("anchor")] == ["anchors.txt"]
    assert library.search("anchor", by="meaning") == []


def test_a_question_that_became_no_vector_is_told(store: Store, folder: str) -> None:
    rag.Library(store, embedder=Own()).ingest(folder)
    with pytest.raises(WrongVectors, match="own-8 gave numbers that are not finite"):
        rag.Library(store, embedder=Own(lambda rows: rows * np.nan)).search("anchor")


def test_rows_of_length_one_are_left_as_they_are() -> None:
    rows = Hashing(8).embed(["an anchor", "a tide", "the sand"])
    assert (unit_rows(rows, Own(), count=3) == rows).all()


def test_a_collection_names_the_embedder_that_it_was_made_with(store: Store, folder: str) -> None:
    rag.Library(store, embedder=Own()).ingest(folder)
    assert rag.Library(store).collection.settings.embedder == "own:own-8"
    assert rag.Library(store, embedder=Own()).search("anchor", by="meaning")[0].key == "anchors.txt"


def test_who_does_not_have_the_embedder_is_told_and_finds_by_words(store: Store, folder: str) -> None:
    rag.Library(store, embedder=Own()).ingest(folder)
    without = rag.Library(store)
    with pytest.raises(OwnEmbedder, match="'documents' was made with the embedder 'own-8'"):
        without.search("anchor")
    with pytest.raises(OwnEmbedder, match="'documents' was made with the embedder 'own-8'"):
        without.search("anchor", by="meaning")
    with pytest.raises(OwnEmbedder, match="own-8"):
        without.ingest(folder)
    assert [one.key for one in without.search("anchor", by="words")] == ["anchors.txt"]


def test_a_collection_of_an_earlier_release_is_named_anew_and_embeds_nothing_again(store: Store, folder: str) -> None:
    rag.Library(store, embedder=Own()).ingest(folder)
    with store.transaction() as tx:
        tx.execute("update rag_collection set settings = '{}', searched = null")
    library = rag.Library(store, embedder=Own())
    assert library.search("anchor", by="meaning")[0].key == "anchors.txt"
    assert library.collection.searched is None
    assert library.ingest(folder).done == 0
    assert rag.Library(store).collection.settings.embedder == "own:own-8"


def test_an_embedder_of_ones_own_takes_over_when_all_its_vectors_are_made(store: Store, folder: str) -> None:
    rag.Library(store, settings=rag.Settings(embedder="hash:64")).ingest(folder)
    library = rag.Library(store, embedder=Own())
    assert rag.Library(store).search("anchor", by="meaning")[0].key == "anchors.txt", "searched as before meanwhile"
    library.ingest(folder)
    assert library.search("anchor", by="meaning")[0].key == "anchors.txt"
    assert library.collection.searched is None


def test_an_embedder_that_the_settings_name_too_is_not_ones_own(store: Store) -> None:
    settings = rag.Settings(embedder="hash:64")
    assert rag.Library(store, settings=settings, embedder=Hashing(64)).collection.settings == settings


def store_vectors(store: Store, key: str) -> list[Any]:
    """The vectors that are kept of a document."""
    asked = """
    select v.vector from rag_vector v join rag_chunk c on c.hash = v.hash join rag_document d on d.id = c.document_id
     where d.key = ?
    """
    with store.reading() as tx:
        return [np.frombuffer(row[0], "<f2") for row in tx.execute(asked, (key,)).fetchall()]
