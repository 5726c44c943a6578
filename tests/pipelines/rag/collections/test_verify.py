"""Verify: rows that were lost from the index are noticed, and made again from the step that makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.stores.protocol import Store

pytest.importorskip("numpy", reason="document search needs the extra rag")

from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.verify import verify
from holdfast.pipelines.rag.index import DocumentName
from holdfast.pipelines.rag.index.sqlite import SqliteIndex
from tests.pipelines.rag.conftest import Open
from tests.support.custom_embedder import RefusingEmbedder

LOST = {
    "words of a chunk": "chunk",
    "chunks": "chunk",
    "the document": "chunk",
    "a vector": "embed",
    "all vectors": "embed",
    "what it means": "index",
    "which version is seen": "index",
}
"""What is lost, and the step that makes it again."""
IN_SQLITE = {
    "words of a chunk": "delete from rag_words where rowid = (select max(id) from rag_chunk)",
    "chunks": "delete from rag_chunk",
    "the document": "delete from rag_document",
    "a vector": "delete from rag_vector where id = (select max(id) from rag_vector)",
    "all vectors": "delete from rag_vector",
    "what it means": "delete from rag_meaning",
    "which version is seen": "update rag_document set version = null",
}
IN_POSTGRES = IN_SQLITE | {
    "words of a chunk": "update rag_chunk set words = null where position = 1",
    "a vector": "delete from rag_vector_1 where hash = (select hash from rag_chunk where position = 1)",
    "all vectors": "delete from rag_vector_1",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "anchors.txt").write_text("An anchor holds the boat in sand. " * 60)
    return folder


def found(library: rag.Library, by: str) -> set[tuple[str, int, int]]:
    answers = library.search("an anchor holds the boat", by=by)  # type: ignore[arg-type]
    return {(one.text, one.start, one.end) for one in answers}


@pytest.mark.parametrize("lost", LOST)
def test_lost_rows_are_made_again(opened: Open, each_store: Store, folder: Path, lost: str) -> None:
    store = each_store
    library = opened(store, "store")
    library.ingest(str(folder))
    before = found(library, "words"), found(library, "meaning")
    assert len(before[0]) == len(before[1]) > 1
    with store.transaction() as tx:
        tx.execute((IN_POSTGRES if store.url.startswith("postgresql") else IN_SQLITE)[lost])
    (finding,) = verify(library).findings
    assert (finding.step, finding.what) == (LOST[lost], "rewound")
    library = opened(store)
    assert library.ingest(str(folder)).done == 1
    assert (found(library, "words"), found(library, "meaning")) == before
    assert verify(library).fine == 1


def test_a_moved_file_has_its_new_name_everywhere_at_once(
    opened: Open, each_store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that claims the document at that moment verifies its chunks by the new name."""
    library = opened(each_store, "store")
    library.ingest(str(folder))
    (here,) = each_store.documents("documents")
    chunks = library.store.outputs(here.id)[1].items
    found: list[bool] = []
    rename = each_store.rename

    def renamed(*args: Any, **kwargs: Any) -> list[str]:
        done = rename(*args, **kwargs)
        found.append(library.index.has_words(DocumentName("documents", str(folder), "moved.txt"), chunks=chunks))
        return done

    monkeypatch.setattr(each_store, "rename", renamed)
    (folder / "anchors.txt").rename(folder / "moved.txt")
    assert library.submit_changes(str(folder)).counts == {"moved": 1}
    assert (found, verify(library).fine) == ([True], 1)


def test_chunks_without_a_vector_are_not_reported_as_missing(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "anchors.txt").write_text(
        "An anchor holds. " * 600 + "\n\n" + "poison " * 20 + "\n\n" + "The tide. " * 600
    )
    monkeypatch.setattr(SqliteIndex, "upload", upload := _NotAtOnce(times=2))
    library = rag.Library(store, embedder=RefusingEmbedder("poison"))
    assert library.ingest(str(folder)).done == 1
    (here,) = store.documents("documents")
    assert len(store.failed_items(here.id)) > 0
    assert (upload.calls, here.state, here.checkpoint.generation) == (3, "done", 0)
    assert [verify(library).fine for _ in range(2)] == [1, 1]


class _NotAtOnce:
    """Raises RetryLater a few times, so that its document is claimed again."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls = 0

    def __call__(self, *_: object, **__: object) -> None:
        self.calls += 1
        if self.calls <= self.times:
            raise holdfast.RetryLater("not now", after=timedelta(0))


class Reader:
    """Reads a file as one page, which is empty if the file says so."""

    def __call__(self, payload: Mapping[str, Any], *, start: int) -> Iterator[rag.Page]:
        text = Path(payload["location"]).read_text()
        if not start:
            yield rag.Page(1, "" if "redacted" in text else text, last=True)


def test_a_document_without_text_is_not_reported_as_missing(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"), reader=Reader())
    library.ingest(str(folder))
    assert found(library, "words")
    (folder / "anchors.txt").write_text("redacted")
    monkeypatch.setattr(SqliteIndex, "upload", upload := _NotAtOnce(times=1))  # while its old version is still seen
    assert library.ingest(str(folder)).done == 1
    (here,) = store.documents("documents")
    assert (upload.calls, here.checkpoint.generation) == (2, 1)  # it was not cut anew
    assert found(library, "words") == set()
    assert verify(library).fine == 1
