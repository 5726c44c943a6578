"""Ingest of snapshots: no half-written file is submitted, and a missing disk removes no document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.ingest.intake import SourceEmpty
from holdfast.pipelines.rag.ingest.watcher import SourceSnapshot, Watcher
from holdfast.sources import parse_source

pytest.importorskip("numpy", reason="document search needs the extra rag")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[rag.Library]:
    with holdfast.open(f"sqlite:///{tmp_path}/rag.db") as store:
        yield rag.Library(store, settings=rag.CollectionSettings(embedder="hash:64"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


@pytest.fixture
def watcher(folder: Path) -> Watcher:
    return Watcher(parse_source(str(folder)))


def settled_snapshot(watcher: Watcher) -> SourceSnapshot:
    snapshot = watcher.poll() or watcher.poll()
    assert snapshot is not None
    return snapshot


def test_a_file_that_is_being_written_is_neither_submitted_nor_removed(
    library: rag.Library, folder: Path, watcher: Watcher
) -> None:
    assert library.submit_snapshot(watcher.source, settled_snapshot(watcher)).counts == {"new": 1}
    (folder / "b.txt").write_text("b")
    watcher.poll()
    (folder / "a.txt").write_text("half")
    (folder / "c.txt").write_text("half")
    assert library.submit_snapshot(watcher.source, settled_snapshot(watcher)).counts == {"new": 1}
    assert library.submit_snapshot(watcher.source, settled_snapshot(watcher)).counts == {
        "changed": 1,
        "new": 1,
        "unchanged": 1,
    }


def test_a_source_that_is_suddenly_empty_keeps_its_documents(
    library: rag.Library, folder: Path, watcher: Watcher
) -> None:
    library.submit_snapshot(watcher.source, settled_snapshot(watcher))
    (folder / "a.txt").unlink()
    with pytest.raises(SourceEmpty, match=r"the source is empty now; its documents \(1\) stay"):
        library.submit_snapshot(watcher.source, settled_snapshot(watcher))
    (folder / "a.txt").write_text("a")
    assert library.submit_snapshot(watcher.source, settled_snapshot(watcher)).counts.total() == 1
    (folder / "b.txt").write_text("b")
    library.submit_snapshot(watcher.source, settled_snapshot(watcher))
    (folder / "a.txt").unlink()
    assert library.submit_snapshot(watcher.source, settled_snapshot(watcher)).counts["deleted"] == 1


def test_a_source_that_never_had_anything_may_be_empty(library: rag.Library, folder: Path, watcher: Watcher) -> None:
    (folder / "a.txt").unlink()
    assert not library.submit_snapshot(watcher.source, settled_snapshot(watcher)).counts


def test_a_file_that_could_not_be_read_is_returned_again(folder: Path, watcher: Watcher) -> None:
    settled_snapshot(watcher)
    assert watcher.poll() is None
    watcher.report_again(["a.txt"])
    assert [seen.key for seen in settled_snapshot(watcher).seen] == ["a.txt"]
