"""How far a collection is: its documents by state, and its counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import asdict

import holdfast
from holdfast.core.errors import Reject
from holdfast.pipelines import rag
from holdfast.pipelines.rag import pipeline
from holdfast.pipelines.rag.collections.status import IngestProgress, read_counters, read_progress, read_status
from holdfast.stores.protocol import Store
from tests.support.custom_embedder import RefusingEmbedder

pytest.importorskip("numpy", reason="document search needs the extra rag")

MOMENT = timedelta(milliseconds=1)
Open = Callable[..., rag.Library]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    for place in range(6):
        (folder / f"{place}.txt").write_text(f"# Letter {place}\n\n" + f"The tide of day {place} comes twice. " * 60)
    return folder


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the steps of a collection wait for a millisecond before they try again."""
    monkeypatch.setattr(pipeline, "Retry", partial(holdfast.Retry, base=MOMENT, ceiling=MOMENT))


def progress_of(store: Store, folder: Path, name: str) -> IngestProgress:
    return read_progress(store, store.document("documents", str(folder), name))


def sum_of_documents(store: Store) -> dict[str, int]:
    """Add up the progress of each document. This is slow, so counters do not do it."""
    total: Counter[str] = Counter()
    for document in store.documents_by_id(store.select("documents")):
        if document.state != "cancelled":
            made = asdict(read_progress(store, document))
            total.update({name: made[name] for name in asdict(read_counters(store, "documents"))})
    return dict(total)


def test_counters_are_the_sum_of_all_documents_in_any_state(each_store: Store, opened: Open, folder: Path) -> None:
    library = opened(each_store, "store")
    library.ingest(str(folder))
    assert asdict(read_counters(each_store, "documents")) == sum_of_documents(each_store)
    assert read_counters(each_store, "documents").chunks_indexed > 6

    (folder / "6.txt").write_text("A letter that nobody reads yet.")
    (folder / "0.txt").write_text("A letter with other content. " * 80)
    library.submit_changes(str(folder))
    assert asdict(read_counters(each_store, "documents")) == sum_of_documents(each_store)

    cancelled = each_store.document("documents", str(folder), "0.txt").id
    each_store.cancel([cancelled], who="ann", reason="not this one")
    assert asdict(read_counters(each_store, "documents")) == sum_of_documents(each_store)


def test_counters_of_documents_that_wait_for_another_embedder(each_store: Store, opened: Open, folder: Path) -> None:
    opened(each_store, "store").ingest(str(folder))
    library = opened(each_store, "store", embedder="hash:16")
    assert library.reprocess_stale() == 6
    counters = read_counters(each_store, "documents")
    assert asdict(counters) == sum_of_documents(each_store)
    assert counters.chunks_created > counters.chunks_embedded == counters.chunks_indexed == 0


def test_attempts_of_dead_letters_are_counted(store: Store, folder: Path) -> None:
    def refuse(doc: object, page: rag.Page) -> rag.Page:
        raise Reject("not this one")

    settings = rag.CollectionSettings(embedder="hash:64")
    assert rag.Library(store, settings=settings, pages=[refuse]).ingest(str(folder / "1.txt")).dead == 1
    assert asdict(read_counters(store, "documents")) == sum_of_documents(store)
    assert read_status(store, "documents").states == {"FAILED": 1}


@pytest.mark.usefixtures("quick_retries")
def test_chunks_without_a_vector_are_not_embedded(each_store: Store, opened: Open, folder: Path) -> None:
    (folder / "3.txt").write_text("\f".join(f"Page {number} of the letter." for number in range(20)))
    (folder / "4.txt").write_text("\f".join(f"Page {number} with a secret." for number in range(20)))
    odd = "\f".join(f"Page {number} {'with a secret' if number == 7 else ''}." for number in range(20))
    (folder / "5.txt").write_text(odd)
    library = opened(each_store, given=RefusingEmbedder("secret"))
    report = library.ingest(str(folder))
    assert (report.done, report.dead) == (5, 1)
    counters = read_counters(each_store, "documents")
    assert asdict(counters) == sum_of_documents(each_store)
    progress = {name: progress_of(each_store, folder, name) for name in ("3.txt", "4.txt", "5.txt")}
    assert {name: (one.chunks_created, one.chunks_embedded) for name, one in progress.items()} == {
        "3.txt": (20, 20),
        "4.txt": (20, 0),
        "5.txt": (20, 19),
    }
    assert counters.chunks_created - counters.chunks_embedded == 21


@pytest.mark.usefixtures("quick_retries")
def test_the_phase_in_which_a_document_works_waits_or_failed(each_store: Store, opened: Open, folder: Path) -> None:
    (folder / "0.txt").write_bytes(b"%PDF-1.4 and no more")
    (folder / "1.txt").write_text("A secret.")
    library = opened(each_store, given=RefusingEmbedder("secret"))
    library.submit_changes(str(folder))
    assert progress_of(each_store, folder, "2.txt").status == "PENDING"
    assert progress_of(each_store, folder, "2.txt").current_phase == "EXTRACTING"
    library.drain()
    found = {name: progress_of(each_store, folder, name) for name in ("0.txt", "1.txt", "2.txt")}
    assert {name: (one.status, one.current_phase) for name, one in found.items()} == {
        "0.txt": ("FAILED", "EXTRACTING"),
        "1.txt": ("FAILED", "EMBEDDING"),
        "2.txt": ("COMPLETED", None),
    }
    assert read_status(each_store, "documents").failed_phases == {"EXTRACTING": 1, "EMBEDDING": 1}


def test_progress_does_not_reset_the_count_of_retries(each_store: Store, folder: Path) -> None:
    tries: Counter[str] = Counter()

    def stumble(doc: object, page: rag.Page) -> rag.Page:
        tries["stumble"] += 1
        if tries["stumble"] < 3:
            raise OSError("the disk is slow")
        return page

    settings = rag.CollectionSettings(embedder="hash:64")
    library = rag.Library(each_store, settings=settings, pages=[stumble])
    with closing(library):
        assert library.ingest(str(folder / "1.txt")).done == 1
    (document,) = each_store.documents("documents")
    assert document.attempts == 0
    progress = read_progress(each_store, document)
    assert progress.retry_count == read_counters(each_store, "documents").retry_count == tries["stumble"] - 1 == 2


def test_a_document_whose_file_is_gone_is_not_counted_and_a_cancelled_one_is(
    each_store: Store, opened: Open, folder: Path
) -> None:
    library = opened(each_store, "store")
    library.ingest(str(folder))
    (folder / "1.txt").unlink()
    library.ingest(str(folder))
    assert read_status(each_store, "documents").states == {"COMPLETED": 5}
    (folder / "7.txt").write_text("One more.")
    library.submit_changes(str(folder))
    each_store.cancel([each_store.document("documents", str(folder), "7.txt").id], who="ann", reason="not this one")
    status = read_status(each_store, "documents")
    assert status.states == {"COMPLETED": 5, "CANCELLED": 1}
    assert (status.documents, status.sources) == (5, {str(folder): 5})


def test_a_collection_that_nobody_made_has_no_counters(each_store: Store) -> None:
    assert set(asdict(read_counters(each_store, "documents")).values()) == {0}
