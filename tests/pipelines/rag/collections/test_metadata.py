"""Metadata of sources: it applies to all documents of a source at once, and no file is read for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.metadata import read_metadata, set_metadata
from holdfast.pipelines.rag.index import DocumentName, IndexEntry
from holdfast.pipelines.rag.ingest.intake import ScanOptions
from holdfast.pipelines.rag.values import Chunk, DocumentInfo
from holdfast.stores.protocol import Store

pytest.importorskip("numpy", reason="document search needs the extra rag")

ACME = ScanOptions(metadata={"client": "acme", "year": 2024})
BOLT = ScanOptions(metadata={"client": "bolt"})


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path}/rag.db"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with holdfast.open(url) as store:
        yield store


@pytest.fixture
def library(store: Store) -> Iterator[rag.Library]:
    library = rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"))
    yield library
    library.index.close()


@pytest.fixture
def folder(tmp_path: Path) -> str:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "tides.txt").write_text("The spring tide comes twice a month.")
    message = EmailMessage()
    message["Subject"] = "Tides"
    message.set_content("See the table of tides.")
    message.add_attachment("The tide turns at noon.", filename="table.txt")
    (folder / "mail.eml").write_bytes(message.as_bytes())
    return str(folder)


ALL = {"tides.txt", "mail.eml", "mail.eml#table.txt"}


def found(library: rag.Library, **metadata: Any) -> set[str]:
    return {one.key for one in library.search("tide", rag.Where(metadata=metadata), by="words")}


def test_documents_and_attachments_are_filtered_by_metadata(library: rag.Library, folder: str) -> None:
    library.ingest(folder, ACME)
    assert found(library, client="acme", year=2024) == ALL
    assert found(library, client="acme", year=2023) == set()
    assert library.search("tide")[0].metadata == ACME.metadata


def test_other_metadata_takes_effect_and_nothing_is_read_again(library: rag.Library, folder: str) -> None:
    library.ingest(folder, ACME)
    intake = library.submit_changes(folder, BOLT)
    assert (intake.counts, intake.described) == ({"unchanged": 2}, 3)
    assert not library.store.balance("documents").open
    assert found(library, client="bolt") == ALL
    assert found(library, client="acme") == found(library, year=2024) == set()


def test_later_files_have_the_metadata_of_their_source(library: rag.Library, folder: str) -> None:
    library.ingest(folder, ACME)
    (Path(folder) / "ebb.txt").write_text("The tide goes out.")
    library.ingest(folder)
    assert found(library, client="acme") == {*ALL, "ebb.txt"}


def test_metadata_can_be_removed(library: rag.Library, folder: str) -> None:
    library.ingest(folder, ACME)
    library.ingest(folder, ScanOptions(metadata={"client": None}))
    assert found(library, client="acme") == set()
    assert library.search("tide")[0].metadata == {}


def test_metadata_belongs_to_one_source(library: rag.Library, folder: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "moon.txt").write_text("The moon makes the tide.")
    library.ingest(folder, ACME)
    library.ingest(str(tmp_path / "other"), BOLT)
    assert found(library, client="acme") == ALL
    assert found(library, client="bolt") == {"moon.txt"}


def test_a_version_that_is_being_made_gets_the_metadata_too(library: rag.Library, folder: str) -> None:
    """The file changed, and its new version is only chunked when the metadata changes. Then the rest is processed."""
    library.ingest(folder, ACME)
    (Path(folder) / "tides.txt").write_text("The neap tide comes twice a month, too.")
    library.submit_changes(folder)
    budget = holdfast.Budget()

    def stop_after_words(event: object) -> None:
        if any(move.after.step == "embed" for move in getattr(event, "moves", ())):
            budget.stop("the words are there")

    holdfast.drain(library.pipeline, library.store, budget=budget, listeners=[stop_after_words])
    library.submit_changes(folder, BOLT)
    library.drain()
    assert found(library, client="bolt") == ALL
    assert "neap" in library.search("neap tide")[0].text


def test_a_document_that_is_being_added_gets_the_new_metadata(library: rag.Library, folder: str) -> None:
    """Somebody changes the metadata of its source between the read and the commit."""
    name = DocumentName("documents", str(Path(folder).resolve()), "late.txt")

    def say() -> None:
        with library.store.transaction() as tx:
            set_metadata(tx, name.collection, name.source, {"client": "acme"})

    saying = threading.Thread(target=say)
    with library.store.transaction() as tx:
        metadata = read_metadata(tx, name.collection, name.source)
        saying.start()
        entry = IndexEntry(name=name, version=1, about=DocumentInfo("text", "Late"), metadata=metadata)
        library.index.add_chunks(tx, entry, [Chunk.from_text("The tide", last=True)])
    saying.join(20)
    assert found(library, client="acme") == {"late.txt"}


def test_only_values_that_can_be_filtered_by_are_accepted(library: rag.Library, folder: str) -> None:
    with pytest.raises(holdfast.HoldfastError, match="'tags'"):
        library.submit_changes(folder, ScanOptions(metadata={"tags": ["a", "b"]}))  # type: ignore[dict-item]


def test_a_deleted_collection_has_no_metadata_any_more(library: rag.Library, folder: str) -> None:
    library.ingest(folder, ACME)
    library.delete()
    again = rag.Library(library.store, settings=library.collection.settings)
    again.ingest(folder)
    assert again.search("tide")[0].metadata == {}
    again.index.close()


def test_a_name_that_no_database_can_store_finds_nothing() -> None:
    asked = rag.Where(metadata={"\udcff": "\ud800", "a\0": 1}).params()
    assert asked == {"metadata": '{"\ufffd":"\ufffd","a\ufffd":1}'}
