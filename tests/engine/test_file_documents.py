"""Documents that are files or URLs, submitted from Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import SubmitResult
from holdfast.engine import file_documents
from holdfast.engine.file_documents import Submittable
from holdfast.sources import fetch
from holdfast.stores.protocol import Store

letters = holdfast.Pipeline("letters")


@letters.step
def read(doc: holdfast.Document) -> str:
    return Path(doc.payload["path"]).read_text()


@pytest.fixture
def store() -> Iterator[Store]:
    with holdfast.open("memory://") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with three letters that were not modified just now."""
    for name in ("a.txt", "b.txt", "c.txt"):
        write(tmp_path / name, name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str, at: int = 1_700_000_000_000_000_000) -> None:
    path.write_text(text)
    os.utime(path, ns=(at, at))


def submit(store: Store, *documents: Submittable) -> SubmitResult:
    return holdfast.submit(letters, store, batch="march", documents=documents)


def keys(store: Store) -> list[str]:
    return sorted(document.key for document in store.documents("letters", limit=100))


def test_a_file_is_one_document_from_every_folder(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert submit(store, "a.txt") == SubmitResult(new=1)
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    for named in ("../a.txt", Path("../a.txt"), str(folder / "a.txt"), f"file://{folder}/a.txt"):
        assert submit(store, named) == SubmitResult(unchanged=1)
    assert keys(store) == [f"{folder}/a.txt"]
    assert holdfast.drain(letters, store).done == 1


def test_a_touched_file_is_unchanged_and_its_new_time_is_known_afterwards(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(store, "a.txt")
    write(folder / "a.txt", "a.txt", at=5)
    assert submit(store, "a.txt") == SubmitResult(unchanged=1)
    monkeypatch.setattr(fetch, "_hash", lambda _: pytest.fail("it was read again"))
    assert submit(store, "a.txt") == SubmitResult(unchanged=1)


def test_a_file_with_other_content_is_changed(store: Store, folder: Path) -> None:
    submit(store, "a.txt", "b.txt")
    write(folder / "a.txt", "A.TXT", at=5)
    assert submit(store, "a.txt", "b.txt") == SubmitResult(changed=1, unchanged=1)


def test_a_text_that_names_no_file_is_a_key(store: Store, folder: Path) -> None:
    submit(store, "PMID-1")
    assert store.document("letters", "march", "PMID-1").payload == {"path": "PMID-1"}


def test_a_path_that_is_not_there_has_its_absolute_path_as_key(store: Store, folder: Path) -> None:
    submit(store, Path("missing.txt"))
    assert keys(store) == [f"{folder}/missing.txt"]


def test_a_document_whose_file_is_gone_stays_as_it_is(store: Store, folder: Path) -> None:
    submit(store, "a.txt")
    (folder / "a.txt").unlink()
    assert submit(store, Path("a.txt")) == SubmitResult(unchanged=1)


def test_what_was_hashed_before_an_error_is_stored(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_documents, "HASHED_BYTES", 10)  # two files of five bytes

    def documents() -> Iterator[str]:
        yield from ("a.txt", "b.txt", "c.txt")
        yield from (f"key {number}" for number in range(file_documents.SLICE))
        raise RuntimeError("the listing broke")

    with pytest.raises(RuntimeError, match="the listing broke"):
        holdfast.submit(letters, store, batch="march", documents=documents())
    assert store.count("letters", key=f"{folder}/*.txt") == 3


def test_a_slice_ends_when_enough_was_hashed(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_documents, "HASHED_BYTES", 10)
    parts = file_documents.slices(["a.txt", "b.txt", "c.txt"], store, "letters", "march", priority=0)
    assert [len(part) for part in parts] == [2, 1]


def test_a_url_is_one_document_and_a_prefix_is_all_objects_below_it(store: Store) -> None:
    fsspec = pytest.importorskip("fsspec", reason="URLs need fsspec: pip install 'holdfast-pipelines[rag]'")
    files = fsspec.filesystem("memory")
    files.pipe({"/letters/a.txt": b"a", "/letters/2024/b.txt": b"b"})
    try:
        assert submit(store, "MEMORY://letters/a.txt") == SubmitResult(new=1)
        assert submit(store, "memory://letters") == SubmitResult(new=1, unchanged=1)
        found = keys(store)
        assert [key.rpartition("letters/")[2] for key in found] == ["2024/b.txt", "a.txt"]
        assert [store.document("letters", "march", key).payload for key in found] == [{"url": key} for key in found]
    finally:
        files.rm("/letters", recursive=True)


def test_a_url_with_a_password_is_refused_without_showing_it(store: Store) -> None:
    with pytest.raises(holdfast.HoldfastError, match="has a password") as refused:
        submit(store, "https://me:secret@example.org/a")
    assert "secret" not in str(refused.value)
