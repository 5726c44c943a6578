"""Tidying up: what nobody needs goes, what somebody has stays, and nothing is embedded twice for it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.core.pipeline import Pipeline
from holdfast.engine.cleanup import cleanup
from holdfast.engine.closing import close
from holdfast.pipelines.rag.index import Entry, Name
from holdfast.pipelines.rag.model import About, Chunk
from holdfast.pipelines.rag.tidying import Tidied, tidy
from holdfast.stores.protocol import Store
from tests.rag.conftest import Open

pytest.importorskip("numpy", reason="document search needs the extra rag")

NOTHING = Tidied(vectors=0, documents=0, swept=0, left=[])


@pytest.fixture
def store(each_store: Store) -> Store:
    return each_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "tides.txt").write_text("The spring tide comes twice a month, at new and at full moon.")
    (folder / "anchors.txt").write_text("An anchor of twenty kilos holds a boat of ten metres in sand.")
    return folder


def test_where_all_is_needed_nothing_goes(opened: Open, store: Store, folder: Path) -> None:
    assert tidy(store) == NOTHING
    library = opened(store, "store")
    library.ingest(str(folder))
    assert tidy(store) == NOTHING
    assert holdfast.verify(library.pipeline, store).fine == 2


def test_vectors_that_no_document_has_go_and_the_others_stay(
    opened: Open, store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.pipelines.rag.tidying.SLICE", 2)
    library = opened(store, "store")
    for number in range(5):
        (folder / f"{number}.txt").write_text(f"Entry {number} of the log, of wind and of waves.")
    library.ingest(str(folder))
    for number in range(5):
        (folder / f"{number}.txt").unlink()
    library.ingest(str(folder))
    assert tidy(store).vectors == 5
    assert tidy(store) == NOTHING
    assert holdfast.verify(library.pipeline, store).fine == 2
    assert library.search("spring tide", by="meaning")[0].key == "tides.txt"


def test_a_vector_that_another_collection_has_stays(opened: Open, store: Store, folder: Path) -> None:
    opened(store, "store", name="one").ingest(str(folder))
    other = opened(store, "store", name="other")
    other.ingest(str(folder))
    opened(store, name="one").delete()
    assert tidy(store) == NOTHING
    assert holdfast.verify(other.pipeline, store).fine == 2


def test_a_file_that_moves_to_another_collection_is_not_embedded_again_as_long_as_nobody_tidies(
    opened: Open, store: Store, folder: Path
) -> None:
    opened(store, "store", name="one").ingest(str(folder))
    opened(store, name="one").delete()
    other = opened(store, "store", name="other")
    other.ingest(str(folder))
    assert tidy(store) == NOTHING


def test_a_vector_whose_chunk_came_meanwhile_stays(opened: Open, store: Store, folder: Path) -> None:
    library = opened(store, "store")
    library.ingest(str(folder))
    (folder / "tides.txt").unlink()
    library.ingest(str(folder))
    ground = library.indexes.ground
    unused = ground.unused(library._model, after=b"", limit=10)
    assert len(unused) == 1
    opened(store, "store", name="other").ingest(str(folder))
    (folder / "again.txt").write_text("The spring tide comes twice a month, at new and at full moon.")
    library.ingest(str(folder))
    with store.transaction() as tx:
        assert ground.shed(tx, library._model, unused) == 0
    assert holdfast.verify(library.pipeline, store).fine == 2


@pytest.mark.parametrize("each_store", ["postgres"], indirect=True)
def test_a_vector_whose_chunk_is_being_committed_stays(opened: Open, store: Store, folder: Path) -> None:
    library = opened(store, "store")
    library.ingest(str(folder))
    (folder / "tides.txt").unlink()
    library.ingest(str(folder))
    ground, model = library.indexes.ground, library._model
    (content,) = ground.unused(model, after=b"", limit=10)
    shed: list[int] = []

    def shed_it() -> None:
        with store.transaction() as tx:
            shed.append(ground.shed(tx, model, [content]))

    other = threading.Thread(target=shed_it)
    with store.transaction() as tx:
        text = "The spring tide comes twice a month, at new and at full moon."
        about = About("text", "")
        entry = Entry(name=Name("documents", "/", "again"), version=1, about=about)
        chunk = Chunk.holding(text, title=text, about=about, last=True)
        ground.add(tx, entry, [chunk])
        tx.execute("update rag_chunk set hash = %s where hash = %s", (content, chunk.hash))
        other.start()
        while other.is_alive() and not tx.execute("select 1 from pg_locks where not granted").fetchone():
            pass  # until it waits for this transaction
    other.join()
    assert shed == [0]


def test_a_deleted_collection_leaves_nothing_of_documents_that_the_store_does_not_know_any_more(
    opened: Open, store: Store, folder: Path
) -> None:
    library = opened(store, "store")
    library.ingest(str(folder))
    _forgotten_by_the_store(store, library.pipeline)
    library.delete()
    assert _count(store, "rag_chunk") == _count(store, "rag_meaning") == 0
    assert tidy(store) == Tidied(vectors=2, documents=0, swept=0, left=[])


def test_chunks_that_an_earlier_deletion_left_go(opened: Open, store: Store, folder: Path) -> None:
    opened(store, "store").ingest(str(folder))
    with store.transaction() as tx:
        tx.execute("delete from rag_document")
    assert tidy(store) == Tidied(vectors=2, documents=2, swept=0, left=[])
    assert _count(store, "rag_chunk") == _count(store, "rag_meaning") == 0


def _forgotten_by_the_store(store: Store, pipeline: Pipeline) -> None:
    """Closes all batches and cleans them up."""
    for batch in store.batches(pipeline.name):
        store.seal(pipeline.name, batch.name, who="test")
        close(pipeline, store, batch=batch.name, who="test", reason="over")
    cleanup(store, who="test")
    assert not store.standings(pipeline.name)


def _count(store: Store, table: str) -> int:
    with store.transaction() as tx:
        return int(tx.execute(f"select count(*) from {table}").fetchone()[0])
