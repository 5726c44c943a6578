"""A collection changes its embedder: documents are found by meaning at any time, and in the end by the new one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.settings import list_collections
from holdfast.stores.protocol import Store
from tests.pipelines.rag.conftest import Open
from tests.support.custom_embedder import RefusingEmbedder

pytest.importorskip("numpy", reason="document search needs the extra rag")

OTHER = rag.CollectionSettings(embedder="hash:32")
SMALLER = rag.CollectionSettings(embedder="hash:32", splitting=rag.Splitting(size=60, overlap=10))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "f"
    folder.mkdir()
    for number in range(6):
        (folder / f"{number}.txt").write_text(
            f"Letter {number} tells of walrus{number}. " + "Ships lie in harbours. " * 5
        )
    return folder


def by_meaning(library: rag.Library) -> set[str]:
    return {found.key for found in library.search("walrus and harbours", by="meaning", limit=1000)}


def searched(store: Store) -> rag.CollectionSettings | None:
    with store.reading() as tx:
        (one,) = list_collections(tx)
    return one.searched


ALL = {f"{number}.txt" for number in range(6)}


@pytest.mark.parametrize("settings", [OTHER, SMALLER], ids=["embedder", "embedder and splitting"])
def test_all_documents_are_found_by_meaning_while_the_embedder_changes(
    opened: Open, each_store: Store, folder: Path, settings: rag.CollectionSettings
) -> None:
    opened(each_store, "store").ingest(str(folder))
    with closing(rag.Library(each_store, settings=settings)) as library:
        library.prepare()
        seen = []

        def listen(event: object) -> None:
            with closing(rag.Library(each_store)) as other:
                seen.append(by_meaning(other))

        assert library.drain(listeners=[listen], threads=1, concurrency=1).done == 6
    assert len(seen) > 6
    assert set(map(frozenset, seen)) == {frozenset(ALL)}


@pytest.mark.parametrize("became", [b"%PDF-1.4 broken", b""], ids=["broken", "empty"])
def test_a_file_that_cannot_be_read_any_more_does_not_block_the_change(
    opened: Open, each_store: Store, folder: Path, became: bytes
) -> None:
    opened(each_store, "store").ingest(str(folder))
    (folder / "0.txt").write_bytes(became)
    assert opened(each_store).ingest(str(folder)).dead == 1
    with closing(rag.Library(each_store, settings=SMALLER)) as library:
        (folder / "new.txt").write_text("A new letter.")
        library.ingest(str(folder))
        assert by_meaning(library) == ALL | {"new.txt"}, "the broken one as it was"
        assert searched(each_store) is None


def test_documents_that_were_cleaned_up_do_not_block_the_change(opened: Open, each_store: Store, folder: Path) -> None:
    opened(each_store, "store").ingest(str(folder))
    each_store.seal("documents", str(folder), who="me", reason="all there")
    with each_store.transaction() as tx:
        tx.execute("delete from hf_item where document_id in (select id from hf_document where key = '0.txt')")
        tx.execute("delete from hf_document where key = '0.txt'")
    with closing(rag.Library(each_store, settings=SMALLER)) as library:
        library.prepare()
        library.drain()
        assert by_meaning(library) == ALL
        assert searched(each_store) is None


def test_an_unavailable_service_leaves_the_rest_for_the_next_call(
    opened: Open, each_store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(each_store, "store").ingest(str(folder))
    (folder / "0.txt").write_bytes(b"%PDF-1.4 broken")
    opened(each_store).ingest(str(folder))
    with closing(rag.Library(each_store, settings=OTHER)) as library:
        with monkeypatch.context() as away:
            away.setattr("holdfast.pipelines.rag.collections.reindex._embedded", _later)
            library.ingest(str(folder))
            assert by_meaning(library) == ALL
            assert searched(each_store) is not None
        library.ingest(str(folder))
        assert by_meaning(library) == ALL
        assert searched(each_store) is None


def _later(*_: object) -> None:
    raise holdfast.RetryLater("not now")


def test_a_text_that_the_new_embedder_rejects_does_not_block_the_change(store: Store, folder: Path) -> None:
    with closing(rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"))) as library:
        library.ingest(str(folder))
        for number in range(3):
            (folder / f"{number}.txt").write_bytes(b"%PDF-1.4 broken")
        library.ingest(str(folder))
    with closing(rag.Library(store, embedder=RefusingEmbedder("walrus0"))) as library:
        library.ingest(str(folder))
        assert by_meaning(library) == ALL - {"0.txt"}
        assert searched(store) is None
