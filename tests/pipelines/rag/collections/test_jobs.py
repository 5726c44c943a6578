"""Jobs: an ingest with an id, answered from the store when it is completed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.pipelines import rag
from holdfast.pipelines.rag.collections.jobs import JobRefused, UnknownJob
from holdfast.sources import SourceRefused
from holdfast.stores.protocol import Store

pytest.importorskip("numpy", reason="document search needs the extra rag")

Open = Callable[..., rag.Library]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "uploads"
    folder.mkdir()
    for name in ("anchors", "tides"):
        (folder / f"{name}.txt").write_text(f"A text about {name}.")
    return folder


@pytest.fixture
def library(each_store: Store) -> Iterator[rag.Library]:
    """A library in a SQLite store and in a PostgreSQL store, one after the other."""
    with closing(rag.Library(each_store, settings=rag.CollectionSettings(embedder="hash:64"))) as library:
        yield library


def keys(library: rag.Library, question: str) -> set[str]:
    return {found.key for found in library.search(question)}


def test_a_completed_job_is_answered_from_the_store(library: rag.Library, folder: Path) -> None:
    result = rag.run_job(library, "upload-1", str(folder))
    assert (result.job_id, result.source, result.status) == ("upload-1", str(folder), "COMPLETED")
    assert (result.documents, result.states, result.errors) == (2, {"COMPLETED": 2}, {})
    (folder / "knots.txt").write_text("A text about knots.")
    assert rag.run_job(library, "upload-1", str(folder)) == result == rag.find_job(library, "upload-1")
    assert keys(library, "knots") == {"anchors.txt", "tides.txt"}, "the source was not looked at"
    assert rag.run_job(library, "upload-2", str(folder)).documents == 3
    assert "knots.txt" in keys(library, "knots")


def test_a_completed_job_is_answered_when_its_file_is_gone(library: rag.Library, folder: Path) -> None:
    file = folder / "tides.txt"
    result = rag.run_job(library, "one file", str(file))
    file.unlink()
    assert rag.run_job(library, "one file", str(file)) == result
    assert rag.run_job(library, "one file", file.as_uri()) == result


def test_a_failed_job_names_its_errors_and_tries_again_when_it_is_run_again(library: rag.Library, folder: Path) -> None:
    broken = folder / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4 and no more")
    result = rag.run_job(library, "upload", str(folder))
    assert (result.status, result.states) == ("FAILED", {"COMPLETED": 2, "FAILED": 1})
    assert list(result.errors) == ["broken.pdf"]
    assert result.failed_phases == {"broken.pdf": "EXTRACTING"}
    again = rag.run_job(library, "upload", str(folder))
    assert again.status == "FAILED"
    verbs = [entry.verb for entry in library.store.journal(library.store.find("broken.pdf")[0].id)]
    assert verbs == ["fail", "redrive", "fail"]
    broken.write_text("It is a text now.")
    assert rag.run_job(library, "upload", str(folder)).status == "COMPLETED"


@pytest.mark.parametrize("killed_in", ["submit_changes", "drain", "finish_indexing"])
def test_a_killed_job_continues_and_makes_nothing_twice(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    with monkeypatch.context() as killing:
        killing.setattr(library, killed_in, _killed)
        with pytest.raises(KeyboardInterrupt):
            rag.run_job(library, "upload", str(folder))
    begun = rag.find_job(library, "upload")
    assert begun.status == ("COMPLETED" if killed_in == "finish_indexing" else "RUNNING")
    assert (
        begun.states == {"submit_changes": {}, "drain": {"PENDING": 2}, "finish_indexing": {"COMPLETED": 2}}[killed_in]
    )
    assert rag.run_job(library, "upload", str(folder)).states == {"COMPLETED": 2}
    moves = {one.checkpoint.moves for one in library.store.documents("documents")}
    assert moves <= {4, 5}  # if a page takes longer than a few milliseconds, it is committed before its step ends
    assert {one.checkpoint.generation for one in library.store.documents("documents")} == {0}


def test_a_job_is_not_completed_before_its_source_was_scanned(
    library: rag.Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.ingest(str(folder))
    (folder / "knots.txt").write_text("A text about knots.")
    with monkeypatch.context() as killing:
        killing.setattr(library, "submit_changes", _killed)
        with pytest.raises(KeyboardInterrupt):
            rag.run_job(library, "upload", str(folder))
    begun = rag.find_job(library, "upload")
    assert (begun.status, begun.states) == ("RUNNING", {"COMPLETED": 2})
    assert rag.run_job(library, "upload", str(folder)).states == {"COMPLETED": 3}


def test_a_job_is_about_one_source(library: rag.Library, folder: Path) -> None:
    rag.run_job(library, "upload", str(folder))
    with pytest.raises(JobRefused, match=r"the job 'upload' ingests .*uploads; use another id for .*tides"):
        rag.run_job(library, "upload", str(folder / "tides.txt"))


def test_a_source_that_does_not_exist_begins_no_job(library: rag.Library, folder: Path) -> None:
    with pytest.raises(SourceRefused):
        rag.run_job(library, "upload", str(folder / "nothing"))
    with pytest.raises(UnknownJob, match="has no job 'upload'"):
        rag.find_job(library, "upload")


@pytest.mark.parametrize("job_id", ["a\0b", "\ud800", "x" * 1201])
def test_an_id_that_no_database_stores_is_refused(library: rag.Library, folder: Path, job_id: str) -> None:
    with pytest.raises(JobRefused, match="cannot be the id of a job"):
        rag.run_job(library, job_id, str(folder))
    with pytest.raises(JobRefused, match="cannot be the id of a job"):
        rag.find_job(library, job_id)


@pytest.mark.parametrize("document", [None, "tides.txt"])
def test_a_job_whose_source_or_document_was_forgotten_ingests_again(
    library: rag.Library, folder: Path, document: str | None
) -> None:
    rag.run_job(library, "upload", str(folder))
    library.forget(str(folder), document=document)
    with pytest.raises(UnknownJob):
        rag.find_job(library, "upload")
    assert rag.run_job(library, "upload", str(folder)).states == {"COMPLETED": 2}
    assert keys(library, "tides") == {"anchors.txt", "tides.txt"}


def test_jobs_of_collections_are_separate_and_go_with_them(library: rag.Library, folder: Path) -> None:
    rag.run_job(library, "upload", str(folder))
    with closing(rag.Library(library.store, "other", settings=library.collection.settings)) as other:
        with pytest.raises(UnknownJob):
            rag.find_job(other, "upload")
        rag.run_job(other, "upload", str(folder / "tides.txt"))
        other.delete()
        with pytest.raises(UnknownJob):
            rag.find_job(other, "upload")
    assert rag.find_job(library, "upload").documents == 2


def test_documents_that_wait_for_a_person_pause_a_job(library: rag.Library, folder: Path) -> None:
    library.submit_changes(str(folder))
    (document,) = library.store.find("tides.txt")
    library.store.pause([document.id], who="ann", reason="is it ours?")
    result = rag.run_job(library, "upload", str(folder))
    assert (result.status, result.states) == ("PAUSED", {"COMPLETED": 1, "PAUSED": 1})
    library.store.cancel([document.id], who="ann", reason="it is not ours")
    cancelled = rag.run_job(library, "upload", str(folder))
    assert (cancelled.status, cancelled.states) == ("COMPLETED", {"COMPLETED": 1, "CANCELLED": 1})


def test_documents_whose_files_are_gone_are_not_counted(library: rag.Library, folder: Path) -> None:
    library.ingest(str(folder))
    (folder / "tides.txt").unlink()
    assert rag.run_job(library, "upload", str(folder)).states == {"COMPLETED": 1}


def _killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
