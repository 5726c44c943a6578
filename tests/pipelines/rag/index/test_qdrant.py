"""What only an index with an external vector store can get wrong: outdated points and lost points."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("qdrant_edge")
pytest.importorskip("qdrant_client")

from qdrant_client import QdrantClient

from holdfast import open as open_store
from holdfast.pipelines import rag
from holdfast.pipelines.rag.index import DocumentName, EmbeddingModel, vector_spaces
from holdfast.pipelines.rag.index.qdrant import QdrantIndex
from holdfast.pipelines.rag.index.qdrant.embedded import EmbeddedPoints
from holdfast.pipelines.rag.index.qdrant.index import _points
from holdfast.pipelines.rag.index.qdrant.protocol import PointFilter, PointStore, QdrantError, QdrantPoint
from holdfast.pipelines.rag.index.qdrant.server import ServerPoints
from holdfast.pipelines.rag.index.registry import database_index
from tests.pipelines.rag.index.conftest import index_harness
from tests.support.index_harness import PAPERS, IndexHarness

EVERYTHING = PointFilter()


@pytest.fixture(params=["edge-on-sqlite", "client-on-sqlite"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IndexHarness]:
    yield from index_harness(f"sqlite:///{tmp_path / 'index.db'}", request.param, tmp_path)


def points_of(harness: IndexHarness) -> tuple[PointStore, str]:
    index = harness.index
    assert isinstance(index, QdrantIndex)
    space = index._find_space(PAPERS, harness.model)
    return index._points, space.name if space else "never made"


def count(harness: IndexHarness) -> int:
    points, space = points_of(harness)
    return points.count(space, EVERYTHING)


def reconcile_points(harness: IndexHarness) -> int:
    index = harness.index
    assert isinstance(index, QdrantIndex)
    return index.reconcile(PAPERS, model=harness.model)


def test_uploading_again_adds_no_points(harness: IndexHarness) -> None:
    harness.ingest("a", "heron one", "heron two")
    harness.upload("a")
    assert count(harness) == 2


def test_points_uploaded_before_a_kill_are_not_found(harness: IndexHarness) -> None:
    harness.ingest("a", "heron old")
    harness.add("a", ["heron new"], version=2)
    harness.save_vectors("heron new")
    harness.upload("a")
    assert count(harness) == 2
    assert harness.vector_hits("heron") == ["heron old"]


def test_an_upload_deletes_versions_that_are_neither_visible_nor_latest(harness: IndexHarness) -> None:
    for version in (1, 2, 3):
        harness.ingest("a", f"heron {version}", version=version)
    assert count(harness) == 2
    assert harness.vector_hits("heron") == ["heron 3"]


def test_reconciling_keeps_the_visible_and_the_latest_version(harness: IndexHarness) -> None:
    harness.ingest("gone", "heron gone")
    harness.delete("gone")
    harness.ingest("a", "heron one")
    harness.ingest("a", "heron two", version=2)
    harness.add("a", ["heron three"], version=3)
    harness.save_vectors("heron three")
    assert reconcile_points(harness) == 2
    assert reconcile_points(harness) == 0
    assert count(harness) == 1
    harness.upload("a")
    assert reconcile_points(harness) == 0
    harness.make_visible("a")
    assert harness.vector_hits("heron") == ["heron three"]


def test_outdated_points_do_not_hide_visible_ones(harness: IndexHarness) -> None:
    harness.ingest("gone", *(f"heron {n}" for n in range(120)))
    harness.delete("gone")
    harness.ingest("a", "stork one", "stork two")
    assert set(harness.vector_hits("heron", limit=2)) == {"stork one", "stork two"}


def test_lost_points_are_noticed_and_can_be_uploaded_again(harness: IndexHarness) -> None:
    harness.ingest("a", "heron one", "heron two")
    points, space = points_of(harness)
    points.delete(space, PointFilter(documents=[1]))
    assert not harness.has("a", 2)
    harness.upload("a")
    assert harness.has("a", 2)
    assert len(harness.vector_hits("heron")) == 2


def test_reconciling_without_a_space_does_nothing(harness: IndexHarness) -> None:
    assert reconcile_points(harness) == 0


def test_the_points_of_a_renamed_document_stay_its_own(harness: IndexHarness) -> None:
    one = QdrantPoint(name=DocumentName("papers", "/", "a"), chunk=(1, 1, 0), page=1, vector=[])
    renamed = QdrantPoint(name=DocumentName("papers", "/", "b"), chunk=(1, 1, 0), page=1, vector=[])
    another = QdrantPoint(name=DocumentName("papers", "/", "a"), chunk=(2, 1, 0), page=1, vector=[])
    assert one.id == renamed.id != another.id


def test_every_space_has_a_unique_name_that_qdrant_accepts(harness: IndexHarness) -> None:
    models = [EmbeddingModel(name, 8) for name in ("a/b", "a:b", "a b", "ü" * 300)]
    with harness.store.transaction() as tx:
        for model in models:
            vector_spaces.add_space(tx, PAPERS, "here", model)
            vector_spaces.add_space(tx, PAPERS, "here", model)
    ground = database_index(harness.store)
    names = [space.name for model in models for space in vector_spaces.find_spaces(ground.read, "here", model)]
    ground.close()
    assert len(set(names)) == len(names) == 4
    assert all(name.replace("-", "").isascii() and len(name) < 255 and "/" not in name for name in names)


def test_points_survive_a_kill(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from holdfast.pipelines.rag.index import DocumentName
from holdfast.pipelines.rag.index.qdrant.embedded import EmbeddedPoints
from holdfast.pipelines.rag.index.qdrant.protocol import QdrantPoint
points = EmbeddedPoints(Path({str(tmp_path)!r}))
points.create("space", 4)
name = DocumentName("c", "s", "k")
points.upsert("space", [QdrantPoint(name=name, chunk=(1, 1, n), page=1, vector=[1, 0, 0, n]) for n in range(50)])
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    points = EmbeddedPoints(tmp_path)
    assert points.count("space", EVERYTHING) == 50
    points.close()


def test_a_second_process_cannot_open_a_space(tmp_path: Path) -> None:
    one, other = EmbeddedPoints(tmp_path), EmbeddedPoints(tmp_path)
    one.create("space", 4)
    with pytest.raises(QdrantError, match="only one process"):
        other.count("space", EVERYTHING)
    one.close()
    assert other.count("space", EVERYTHING) == 0
    other.close()


def test_a_forked_child_leaves_the_spaces_of_its_parent_alone(tmp_path: Path) -> None:
    points = EmbeddedPoints(tmp_path)
    points.create("space", 4)
    assert in_a_child(lambda: points.count("space", EVERYTHING)) == "QdrantUnavailable"
    assert points.count("space", EVERYTHING) == 0
    with pytest.raises(QdrantError, match="only one process"):
        EmbeddedPoints(tmp_path).count("space", EVERYTHING)
    points.close()


def test_a_forked_child_has_a_connection_to_the_server_of_its_own() -> None:
    made: list[int] = []

    def connect() -> QdrantClient:
        made.append(os.getpid())
        return QdrantClient(":memory:")

    points = ServerPoints(connect)
    points.count("space", EVERYTHING)
    assert in_a_child(lambda: (points.count("space", EVERYTHING), sorted(set(made)) == sorted(made))[1]) == "True"
    assert made == [os.getpid()]
    points.close()


def in_a_child(ask: Callable[[], object]) -> str:
    """Return the result of a call in a forked child, or the name of its error."""
    here, there = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            said = str(ask())
        except Exception as error:
            said = type(error).__name__
        os.write(there, said.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    said = os.read(here, 1000).decode()
    os.close(here)
    os.close(there)
    return said


def test_the_engine_finds_the_same_after_it_built_its_index(tmp_path: Path) -> None:
    edge = index_harness(f"sqlite:///{tmp_path / 'index.db'}", "edge-on-sqlite", tmp_path)
    harness = next(edge)
    harness.ingest("a", *(f"heron {n}" for n in range(30)))
    before = harness.vector_hits("heron 7", limit=5)
    points, space = points_of(harness)
    assert isinstance(points, EmbeddedPoints)
    points.optimize(space)
    assert harness.vector_hits("heron 7", limit=5) == before
    next(edge, None)


def test_points_have_the_text_the_page_and_the_ids_that_other_programs_need(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "tides.txt").write_text("\f".join(f"Page {page}. " + "The tide comes twice. " * 60 for page in (1, 2)))
    with open_store(f"sqlite:///{tmp_path}/rag.db") as store:
        settings = rag.CollectionSettings(embedder="hash:64", index=f"qdrant:{tmp_path}/points")
        with closing(rag.Library(store, "letters", settings=settings)) as library:
            library.ingest(str(folder))
            vectors = library.indexes.database.latest_vectors(
                DocumentName("letters", str(folder), "tides.txt"), model=library.model
            )
            assert vectors is not None
            payloads = [point.payload for point in _points(DocumentName("letters", str(folder), "tides.txt"), vectors)]
    assert [(one["page_number"], one["chunk_index"]) for one in payloads] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert str(payloads[2]["content"]).startswith("Page 2. The tide")
    assert {one["collection_id"] for one in payloads} == {"letters"}
    assert {one["document_id"] for one in payloads} == {vectors.document}
