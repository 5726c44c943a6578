"""What a watcher gives is taken in: nothing half-written, and nothing forgotten for a disk that is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.ingest import NothingThere
from holdfast.pipelines.rag.sources import source_of
from holdfast.pipelines.rag.watching import Glance, Watcher

pytest.importorskip("numpy", reason="document search needs the extra rag")


@pytest.fixture
def library(tmp_path: Path) -> Iterator[rag.Library]:
    with holdfast.open(f"sqlite:///{tmp_path}/rag.db") as store:
        yield rag.Library(store, settings=rag.Settings(embedder="hash:64"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


@pytest.fixture
def watcher(folder: Path) -> Watcher:
    return Watcher(source_of(str(folder)))


def given(watcher: Watcher) -> Glance:
    glance = watcher.look() or watcher.look()
    assert glance is not None
    return glance


def test_a_file_that_is_still_written_is_neither_taken_in_nor_forgotten(
    library: rag.Library, folder: Path, watcher: Watcher
) -> None:
    assert library.take_glance(watcher.source, given(watcher)).counts == {"new": 1}
    (folder / "b.txt").write_text("b")
    watcher.look()
    (folder / "a.txt").write_text("half")
    (folder / "c.txt").write_text("half")
    assert library.take_glance(watcher.source, given(watcher)).counts == {"new": 1}
    assert library.take_glance(watcher.source, given(watcher)).counts == {"changed": 1, "new": 1, "unchanged": 1}


def test_a_source_that_is_empty_all_at_once_keeps_what_it_had(
    library: rag.Library, folder: Path, watcher: Watcher
) -> None:
    library.take_glance(watcher.source, given(watcher))
    (folder / "a.txt").unlink()
    with pytest.raises(NothingThere, match=r"nothing is there any more; what it had \(1\) stays"):
        library.take_glance(watcher.source, given(watcher))
    (folder / "a.txt").write_text("a")
    assert library.take_glance(watcher.source, given(watcher)).counts.total() == 1
    (folder / "b.txt").write_text("b")
    library.take_glance(watcher.source, given(watcher))
    (folder / "a.txt").unlink()
    assert library.take_glance(watcher.source, given(watcher)).counts["deleted"] == 1


def test_a_source_that_never_had_anything_may_be_empty(library: rag.Library, folder: Path, watcher: Watcher) -> None:
    (folder / "a.txt").unlink()
    assert not library.take_glance(watcher.source, given(watcher)).counts


def test_what_could_not_be_read_is_given_again(folder: Path, watcher: Watcher) -> None:
    given(watcher)
    assert watcher.look() is None
    watcher.doubt(["a.txt"])
    assert [seen.key for seen in given(watcher).seen] == ["a.txt"]
