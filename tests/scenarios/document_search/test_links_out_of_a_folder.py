"""A link in an ingested folder does not make files outside of the folder searchable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy", reason="document search needs the extra rag")

from holdfast.pipelines import rag
from holdfast.pipelines.rag.extract.readers import local_path
from holdfast.stores.protocol import Store

OpenLibrary = Callable[..., rag.Library]
SETTINGS = rag.CollectionSettings(embedder="hash:64")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "tides.txt").write_text("The spring tide comes twice a month.")
    (tmp_path / "secret.txt").write_text("The password of the harbour master is plover.")
    return folder


@pytest.fixture
def library_of() -> Iterator[OpenLibrary]:
    """Return a function that opens a library. All are closed at the end."""
    with ExitStack() as stack:
        yield lambda store, **more: stack.enter_context(closing(rag.Library(store, settings=SETTINGS, **more)))


def found(library: rag.Library, question: str = "plover harbour password") -> list[str]:
    return [one.key for one in library.search(question) if "plover" in one.snippet]


def test_a_link_out_of_the_folder_is_not_indexed(each_store: Store, folder: Path, library_of: OpenLibrary) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    library = library_of(each_store)
    assert library.ingest(str(folder)).done == 1
    assert found(library) == []


def test_a_link_out_of_the_folder_is_indexed_when_told(store: Store, folder: Path, library_of: OpenLibrary) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    library = library_of(store, follow_symlinks=True)
    assert library.ingest(str(folder), rag.ScanOptions(follow_symlinks=True)).done == 2
    assert found(library) == ["link.txt"]
    assert library_of(store).ingest(str(folder)).dead == 0
    assert found(library) == [], "what links led to is removed by an ingest that does not follow them"


def test_a_file_that_becomes_a_link_before_it_is_read_is_a_dead_letter(
    store: Store, folder: Path, library_of: OpenLibrary
) -> None:
    library = library_of(store)
    library.submit_changes(str(folder))
    (folder / "tides.txt").unlink()
    (folder / "tides.txt").symlink_to(folder.parent / "secret.txt")
    library.drain()
    document = store.document("documents", str(folder), "tides.txt")
    assert (document.state, document.error) == ("dead", "OutsideSource")
    assert "outside of" in document.reason
    assert found(library) == []


def test_a_folder_that_becomes_a_link_before_its_file_is_read_is_noticed(
    store: Store, folder: Path, library_of: OpenLibrary
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "secret.txt").write_text("Nothing to see.")
    library = library_of(store)
    library.submit_changes(str(folder))
    (folder / "sub").rename(folder.parent / "away")
    (folder / "sub").symlink_to(folder.parent)
    library.drain()
    assert store.document("documents", str(folder), "sub/secret.txt").error == "OutsideSource"
    assert found(library) == []


def test_a_reader_of_ones_own_is_held_to_it_too(store: Store, folder: Path, library_of: OpenLibrary) -> None:
    def read(payload: Mapping[str, Any], *, start: int) -> Iterator[rag.Page]:
        with local_path(payload) as path:
            yield rag.Page(1, path.read_text(), kind="text", last=True)

    library = library_of(store, reader=read)
    library.submit_changes(str(folder))
    (folder / "tides.txt").unlink()
    (folder / "tides.txt").symlink_to(folder.parent / "secret.txt")
    library.drain()
    assert store.document("documents", str(folder), "tides.txt").error == "OutsideSource"
