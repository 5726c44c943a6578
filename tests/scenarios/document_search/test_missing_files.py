"""Files that are missing when they should be read: when they are back, their documents are retried."""

from __future__ import annotations

from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.estimate.ingest import estimate_ingest
from holdfast.pipelines.rag.ingest.watcher import Watcher
from holdfast.sources import parse_source


@pytest.fixture
def library(tmp_path: Path) -> Iterator[rag.Library]:
    with holdfast.open(f"sqlite:///{tmp_path}/x.db") as store:
        yield rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    here = tmp_path / "letters"
    here.mkdir()
    (here / "anchor.txt").write_text("An anchor holds in sand.")
    (here / "rope.txt").write_text("A rope of hemp swells in water.")
    return here


def take_in_and_lose(library: rag.Library, folder: Path, *, while_away: Path) -> None:
    library.submit_changes(str(folder))
    folder.rename(while_away)
    library.drain()


def test_a_document_whose_file_was_missing_is_retried_when_it_is_back(
    library: rag.Library, folder: Path, tmp_path: Path
) -> None:
    take_in_and_lose(library, folder, while_away=tmp_path / "away")
    (tmp_path / "away").rename(folder)
    outlook = estimate_ingest(library, str(folder))
    assert (outlook.changes, outlook.documents) == ({"back": 2}, 2)
    assert library.submit_changes(str(folder)).counts == {"back": 2}
    assert library.drain().done == 2
    assert library.submit_changes(str(folder)).counts == {"unchanged": 2}


def test_a_document_that_failed_for_another_reason_is_not_retried(library: rag.Library, folder: Path) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 and no more")
    library.ingest(str(folder))
    assert library.submit_changes(str(folder)).counts == {"unchanged": 3}


def test_a_file_that_was_moved_before_it_was_read_is_read_at_its_new_path(library: rag.Library, folder: Path) -> None:
    library.submit_changes(str(folder))
    (folder / "rope.txt").rename(folder / "hemp.txt")
    library.drain()
    assert library.submit_changes(str(folder)).counts == {"unchanged": 1, "moved": 1}
    assert library.drain().done == 1
    assert library.search("hemp rope")[0].key == "hemp.txt"


def test_attachments_are_retried_when_their_message_is_back(library: rag.Library, folder: Path, tmp_path: Path) -> None:
    message = EmailMessage()
    message.set_content("See the chart.")
    message.add_attachment("Rocks lie north of the harbour.", filename="rocks.txt")
    (folder / "mail.eml").write_bytes(message.as_bytes())
    away = tmp_path / "away"

    def take_away(page: rag.Page) -> rag.Page:
        folder.rename(away)
        return page

    def read(doc: holdfast.Document, page: rag.Page) -> rag.Page:
        return take_away(page) if doc.key == "mail.eml" and folder.exists() else page

    losing = rag.Library(library.store, settings=rag.CollectionSettings(embedder="hash:64"), pages=[read])
    losing.ingest(str(folder / "mail.eml"))
    away.rename(folder)
    assert losing.submit_changes(str(folder / "mail.eml")).counts == {"back": 1}
    assert losing.drain().done == 1
    assert losing.search("rocks north harbour")[0].key == "mail.eml#rocks.txt"


def test_a_source_that_was_unavailable_is_returned_again_when_it_is_back(folder: Path, tmp_path: Path) -> None:
    watcher = Watcher(parse_source(str(folder)), report=lambda _: None)
    watcher.poll()
    assert watcher.poll() is not None
    folder.rename(tmp_path / "away")
    assert watcher.poll() is None
    (tmp_path / "away").rename(folder)
    snapshot = watcher.poll()
    assert snapshot is not None
    assert {one.key for one in snapshot.seen} == {"anchor.txt", "rope.txt"}
    assert watcher.poll() is None
