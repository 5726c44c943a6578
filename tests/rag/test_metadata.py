"""Metadata of sources: what is said of one holds for all it has, at once, and costs no reading."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.index import Entry, Name
from holdfast.pipelines.rag.ingest import Looking
from holdfast.pipelines.rag.metadata import describe, metadata_of
from holdfast.pipelines.rag.model import About, Chunk
from holdfast.stores.protocol import Store

pytest.importorskip("numpy", reason="document search needs the extra rag")

ACME = Looking(metadata={"client": "acme", "year": 2024})
BOLT = Looking(metadata={"client": "bolt"})


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
    library = rag.Library(store, settings=rag.Settings(embedder="hash:64"))
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


def test_documents_and_what_they_carry_are_found_by_it(library: rag.Library, folder: str) -> None:
    library.ingest(folder, ACME)
    assert found(library, client="acme", year=2024) == ALL
    assert found(library, client="acme", year=2023) == set()
    assert library.search("tide")[0].metadata == ACME.metadata


def test_other_metadata_takes_effect_and_nothing_is_read_again(library: rag.Library, folder: str) -> None:
    library.ingest(folder, ACME)
    intake = library.take_in(folder, BOLT)
    assert (intake.counts, intake.described) == ({"unchanged": 2}, 3)
    assert not library.store.balance("documents").open
    assert found(library, client="bolt") == ALL
    assert found(library, client="acme") == found(library, year=2024) == set()


def test_what_comes_later_is_under_what_was_said(library: rag.Library, folder: str) -> None:
    library.ingest(folder, ACME)
    (Path(folder) / "ebb.txt").write_text("The tide goes out.")
    library.ingest(folder)
    assert found(library, client="acme") == {*ALL, "ebb.txt"}


def test_it_can_be_taken_away(library: rag.Library, folder: str) -> None:
    library.ingest(folder, ACME)
    library.ingest(folder, Looking(metadata={"client": None}))
    assert found(library, client="acme") == set()
    assert library.search("tide")[0].metadata == {}


def test_it_is_said_of_one_source(library: rag.Library, folder: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "moon.txt").write_text("The moon makes the tide.")
    library.ingest(folder, ACME)
    library.ingest(str(tmp_path / "other"), BOLT)
    assert found(library, client="acme") == ALL
    assert found(library, client="bolt") == {"moon.txt"}


def test_a_version_that_is_being_made_has_it_too(library: rag.Library, folder: str) -> None:
    """The file changed, and only its words are there when something else is said; then the rest is done."""
    library.ingest(folder, ACME)
    (Path(folder) / "tides.txt").write_text("The neap tide comes twice a month, too.")
    library.take_in(folder)
    budget = holdfast.Budget()

    def stop_after_words(event: object) -> None:
        if any(move.after.step == "embed" for move in getattr(event, "moves", ())):
            budget.stop("the words are there")

    holdfast.drain(library.pipeline, library.store, budget=budget, listeners=[stop_after_words])
    library.take_in(folder, BOLT)
    library.drain()
    assert found(library, client="bolt") == ALL
    assert "neap" in library.search("neap tide")[0].text


def test_a_document_that_is_being_added_is_not_missed(library: rag.Library, folder: str) -> None:
    """Somebody says something of its source between the look at what is said and the commit."""
    name = Name("documents", str(Path(folder).resolve()), "late.txt")

    def say() -> None:
        with library.store.transaction() as tx:
            describe(tx, name.collection, name.source, {"client": "acme"})

    saying = threading.Thread(target=say)
    with library.store.transaction() as tx:
        metadata = metadata_of(tx, name.collection, name.source)
        saying.start()
        entry = Entry(name=name, version=1, about=About("text", "Late"), metadata=metadata)
        library.index.add(tx, entry, [Chunk.holding("The tide", last=True)])
    saying.join(20)
    assert found(library, client="acme") == {"late.txt"}


def test_only_what_can_be_filtered_by_is_said(library: rag.Library, folder: str) -> None:
    with pytest.raises(holdfast.HoldfastError, match="'tags'"):
        library.take_in(folder, Looking(metadata={"tags": ["a", "b"]}))  # type: ignore[dict-item]


def test_a_deleted_collection_forgets_it(library: rag.Library, folder: str) -> None:
    library.ingest(folder, ACME)
    library.delete()
    again = rag.Library(library.store, settings=library.collection.settings)
    again.ingest(folder)
    assert again.search("tide")[0].metadata == {}
    again.index.close()


def test_a_name_that_no_database_keeps_finds_nothing() -> None:
    asked = rag.Where(metadata={"\udcff": "\ud800", "a\0": 1}).asked()
    assert asked == {"metadata": '{"\ufffd":"\ufffd","a\ufffd":1}'}
