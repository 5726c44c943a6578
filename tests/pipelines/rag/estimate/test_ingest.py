"""Estimates of what other settings make again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.status import read_counters
from holdfast.pipelines.rag.estimate.ingest import estimate_rework
from holdfast.stores.protocol import Store

pytest.importorskip("numpy", reason="document search needs the extra rag")

Open = Callable[..., rag.Library]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    for place in range(3):
        (folder / f"{place}.txt").write_text(f"The tide of day {place} comes twice. " * 60)
    return folder


def test_another_embedder_embeds_all_chunks_and_reads_no_page(each_store: Store, opened: Open, folder: Path) -> None:
    opened(each_store, "store").ingest(str(folder))
    library = opened(each_store, "store", embedder="hash:16")
    (estimate,) = estimate_rework(library, source=str(folder), but=())
    assert (estimate.step, estimate.documents, estimate.pages) == ("embed", 3, 0)
    assert estimate.chunks == read_counters(each_store, "documents").chunks_created
    assert estimate.tokens > 0


def test_a_vector_that_is_known_is_not_counted(each_store: Store, opened: Open, folder: Path) -> None:
    opened(each_store, "store").ingest(str(folder))
    opened(each_store, "store", embedder="hash:16").ingest(str(folder))
    library = opened(each_store, "store", embedder="hash:64")
    (estimate,) = estimate_rework(library, source=str(folder), but=())
    assert (estimate.documents, estimate.chunks, estimate.tokens) == (3, 0, 0)


def test_other_chunks_are_guessed_from_the_lengths_of_pages(each_store: Store, opened: Open, folder: Path) -> None:
    opened(each_store, "store").ingest(str(folder))
    settings = rag.CollectionSettings(embedder="hash:64", splitting=rag.Splitting(size=100, overlap=10))
    library = rag.Library(each_store, settings=settings)
    (estimate,) = estimate_rework(library, source=str(folder), but=["0.txt"])
    assert (estimate.step, estimate.documents, estimate.pages) == ("chunk", 2, 0)
    before = read_counters(each_store, "documents").chunks_created
    assert before < estimate.chunks < 100
    library.close()
