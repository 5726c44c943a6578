"""What was lost from the index behind its back is noticed, and made anew from the step that made it."""

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
from holdfast.pipelines.rag.index.sqlite import SqliteIndex
from holdfast.pipelines.rag.verifying import verify
from tests.rag.conftest import Open

LOST = {
    "words of a chunk": "chunk",
    "chunks": "chunk",
    "the document": "chunk",
    "a vector": "embed",
    "all vectors": "embed",
    "what it means": "index",
    "which version is seen": "index",
}
"""What is lost, and the step that makes it anew."""
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
def test_what_was_lost_is_made_anew(opened: Open, each_store: Store, folder: Path, lost: str) -> None:
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


class Reader:
    """Reads a file as one page, of which nothing is left where it says so."""

    def __call__(self, payload: Mapping[str, Any], *, start: int) -> Iterator[rag.Page]:
        text = Path(payload["location"]).read_text()
        if not start:
            yield rag.Page(1, "" if "redacted" in text else text, last=True)


def test_nothing_is_missed_of_a_document_of_which_no_text_is_left(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = rag.Library(store, settings=rag.Settings(embedder="hash:64"), reader=Reader())
    library.ingest(str(folder))
    assert found(library, "words")
    (folder / "anchors.txt").write_text("redacted")
    told: list[object] = []

    def publish(*given: object, **more: object) -> None:
        told.append((given, more))
        if len(told) == 1:  # so that it is taken up again here, while its old version is still seen
            raise holdfast.RetryLater("not now", after=timedelta(0))

    monkeypatch.setattr(SqliteIndex, "publish", publish)
    assert library.ingest(str(folder)).done == 1
    (here,) = store.standings("documents")
    assert (len(told), here.checkpoint.generation) == (2, 1)  # it was not cut anew
    assert found(library, "words") == set()
    assert verify(library).fine == 1
