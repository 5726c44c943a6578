"""Garbage collection deletes what nobody needs, keeps what somebody has, and causes no embedding."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.core.pipeline import Pipeline
from holdfast.ops.cleanup import cleanup
from holdfast.ops.close_batch import close
from holdfast.pipelines.rag.collections.deletion import GarbageReport, collect_garbage
from holdfast.pipelines.rag.index import DocumentName, IndexEntry
from holdfast.pipelines.rag.values import Chunk, DocumentInfo
from holdfast.stores.protocol import Store
from tests.pipelines.rag.conftest import Open

pytest.importorskip("numpy", reason="document search needs the extra rag")

NOTHING = GarbageReport(vectors=0, documents=0, swept=0, left=[])


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


def test_nothing_is_deleted_if_all_is_needed(opened: Open, store: Store, folder: Path) -> None:
    assert collect_garbage(store) == NOTHING
    library = opened(store, "store")
    library.ingest(str(folder))
    assert collect_garbage(store) == NOTHING
    assert holdfast.verify(library.pipeline, store).fine == 2


def test_unused_vectors_are_deleted_and_the_others_stay(
    opened: Open, store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.pipelines.rag.collections.deletion.SLICE", 2)
    library = opened(store, "store")
    for number in range(5):
        (folder / f"{number}.txt").write_text(f"Entry {number} of the log, of wind and of waves.")
    library.ingest(str(folder))
    for number in range(5):
        (folder / f"{number}.txt").unlink()
    library.ingest(str(folder))
    assert collect_garbage(store).vectors == 5
    assert collect_garbage(store) == NOTHING
    assert holdfast.verify(library.pipeline, store).fine == 2
    assert library.search("spring tide", by="meaning")[0].key == "tides.txt"


def test_a_vector_that_another_collection_uses_stays(opened: Open, store: Store, folder: Path) -> None:
    opened(store, "store", name="one").ingest(str(folder))
    other = opened(store, "store", name="other")
    other.ingest(str(folder))
    opened(store, name="one").delete()
    assert collect_garbage(store) == NOTHING
    assert holdfast.verify(other.pipeline, store).fine == 2


def test_a_file_that_moves_to_another_collection_is_not_embedded_again_before_a_garbage_collection(
    opened: Open, store: Store, folder: Path
) -> None:
    opened(store, "store", name="one").ingest(str(folder))
    opened(store, name="one").delete()
    other = opened(store, "store", name="other")
    other.ingest(str(folder))
    assert collect_garbage(store) == NOTHING


def test_a_vector_whose_chunk_was_just_added_stays(opened: Open, store: Store, folder: Path) -> None:
    library = opened(store, "store")
    library.ingest(str(folder))
    (folder / "tides.txt").unlink()
    library.ingest(str(folder))
    database = library.indexes.database
    unused = database.unused_hashes(library.model, after=b"", limit=10)
    assert len(unused) == 1
    opened(store, "store", name="other").ingest(str(folder))
    (folder / "again.txt").write_text("The spring tide comes twice a month, at new and at full moon.")
    library.ingest(str(folder))
    with store.transaction() as tx:
        assert database.delete_vectors(tx, library.model, unused) == 0
    assert holdfast.verify(library.pipeline, store).fine == 2


@pytest.mark.parametrize("each_store", ["postgres"], indirect=True)
def test_a_vector_whose_chunk_is_being_committed_stays(opened: Open, store: Store, folder: Path) -> None:
    library = opened(store, "store")
    library.ingest(str(folder))
    (folder / "tides.txt").unlink()
    library.ingest(str(folder))
    database, model = library.indexes.database, library.model
    (content,) = database.unused_hashes(model, after=b"", limit=10)
    shed: list[int] = []

    def shed_it() -> None:
        with store.transaction() as tx:
            shed.append(database.delete_vectors(tx, model, [content]))

    other = threading.Thread(target=shed_it)
    with store.transaction() as tx:
        text = "The spring tide comes twice a month, at new and at full moon."
        about = DocumentInfo("text", "")
        entry = IndexEntry(name=DocumentName("documents", "/", "again"), version=1, about=about)
        chunk = Chunk.from_text(text, title=text, about=about, last=True)
        database.add_chunks(tx, entry, [chunk])
        tx.execute("update rag_chunk set hash = %s where hash = %s", (content, chunk.hash))
        other.start()
        while other.is_alive() and not tx.execute("select 1 from pg_locks where not granted").fetchone():
            pass  # until it waits for this transaction
    other.join()
    assert shed == [0]


def test_a_deleted_collection_leaves_no_documents_that_a_cleanup_removed_from_the_store(
    opened: Open, store: Store, folder: Path
) -> None:
    library = opened(store, "store")
    library.ingest(str(folder))
    _forgotten_by_the_store(store, library.pipeline)
    library.delete()
    assert _count(store, "rag_chunk") == _count(store, "rag_meaning") == 0
    assert collect_garbage(store) == GarbageReport(vectors=2, documents=0, swept=0, left=[])


def test_chunks_that_an_earlier_deletion_left_are_deleted(opened: Open, store: Store, folder: Path) -> None:
    opened(store, "store").ingest(str(folder))
    with store.transaction() as tx:
        tx.execute("delete from rag_document")
    assert collect_garbage(store) == GarbageReport(vectors=2, documents=2, swept=0, left=[])
    assert _count(store, "rag_chunk") == _count(store, "rag_meaning") == 0


def _forgotten_by_the_store(store: Store, pipeline: Pipeline) -> None:
    """Close all batches and clean them up."""
    for batch in store.batches(pipeline.name):
        store.seal(pipeline.name, batch.name, who="test")
        close(pipeline, store, batch=batch.name, who="test", reason="over")
    cleanup(store, who="test")
    assert not store.documents(pipeline.name)


def _count(store: Store, table: str) -> int:
    with store.transaction() as tx:
        return int(tx.execute(f"select count(*) from {table}").fetchone()[0])
