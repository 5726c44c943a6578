"""The index is a setting of the collection: every index finds the same, and a change of index loses nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.errors import HoldfastError, RetryLater, StoreError
from holdfast.pipelines import rag
from holdfast.pipelines.rag.index import DocumentName, vector_spaces
from holdfast.stores.protocol import Store
from tests.pipelines.rag.conftest import Open

pytest.importorskip("numpy", reason="document search needs the extra rag")
pytest.importorskip("qdrant_edge", reason="this needs the extra qdrant")
pytest.importorskip("qdrant_client", reason="this needs the extra qdrant")

import numpy as np
from qdrant_client import QdrantClient

from holdfast.pipelines.rag.collections.deletion import collect_garbage
from holdfast.pipelines.rag.embed.hashing import HashEmbedder
from holdfast.pipelines.rag.index.qdrant import QdrantError, QdrantIndex, embedded, server
from holdfast.pipelines.rag.index.qdrant.embedded import EmbeddedPoints, open_embedded
from holdfast.pipelines.rag.index.qdrant.protocol import PointFilter, QdrantPoint
from holdfast.pipelines.rag.index.qdrant.server import ServerPoints
from holdfast.pipelines.rag.search.service import SearchService

SERVER = "qdrant:http://qdrant.invalid:6333"
TIDES = "On tides\n\nThe spring tide comes twice a month, at new and at full moon."
ANCHORS = "# Anchors\n\nAn anchor of twenty kilos holds a boat of ten metres in sand."

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"),
]


class CountingEmbedder(HashEmbedder):
    """An embedder that counts the texts that it embeds."""

    def __init__(self) -> None:
        super().__init__(64)
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += len(texts)
        return super().embed(texts)

    def embed_query(self, text: str) -> np.ndarray:
        return super().embed([text])[0]


class InTurn:
    """The in-memory server of the Qdrant client. It takes one call at a time, and stays open when it is closed."""

    def __init__(self) -> None:
        self._client = QdrantClient(":memory:")
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def asked(*args: Any, **more: Any) -> Any:
            with self._lock:
                return getattr(self._client, name)(*args, **more)

        return asked

    def close(self) -> None:
        pass


@pytest.fixture
def store(each_store: Store) -> Store:
    return each_store


@pytest.fixture(autouse=True)
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = InTurn()
    monkeypatch.setattr(server, "open_server", lambda _: ServerPoints(lambda: client))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "tides.txt").write_text(TIDES)
    (folder / "anchors.md").write_text(ANCHORS)
    return folder


@pytest.fixture(params=["folder", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "server":
        yield SERVER
        return
    yield f"qdrant:{tmp_path / 'points'}"
    open_embedded(tmp_path / "points").close()


@pytest.fixture
def points(tmp_path: Path) -> Iterator[Path]:
    """A folder for the embedded engine."""
    yield tmp_path / "points"
    open_embedded(tmp_path / "points").close()


def keys(library: rag.Library, question: str) -> list[str]:
    return [found.key for found in library.search(question, each=1, by="meaning")]


def points_of(library: rag.Library) -> int:
    """Count the points of the collection in Qdrant."""
    index = library.index
    assert isinstance(index, QdrantIndex)
    space = index._find_space(library.collection.name, library.model)
    return index._points.count(space.name, PointFilter()) if space else 0


def there(library: rag.Library) -> list[str]:
    """Return the places of all vector spaces that the database knows."""
    read = library.indexes.database.read
    return [space.place for space in [*vector_spaces.spaces_in_use(read), *vector_spaces.abandoned_spaces(read)]]


def test_documents_are_added_changed_and_deleted_in_qdrant(
    opened: Open, store: Store, folder: Path, place: str
) -> None:
    library = opened(store, place)
    assert library.ingest(str(folder)).done == 2
    assert keys(library, "spring tide moon")[0] == "tides.txt"
    assert points_of(library) == 2
    (folder / "tides.txt").write_text("On ebb\n\nNeap tides follow the half moon, and are the weakest of all.")
    (folder / "anchors.md").unlink()
    library.ingest(str(folder))
    assert keys(library, "neap tides half moon") == ["tides.txt"]
    assert points_of(library) == 1, "the version before and the file that is gone were cleared away"


def test_a_change_of_index_uploads_all_vectors_and_embeds_nothing_again(
    opened: Open, store: Store, folder: Path, place: str
) -> None:
    embedder = CountingEmbedder()
    library = opened(store, "store", given=embedder)
    library.ingest(str(folder))
    texts = embedder.texts
    other = opened(store, place, given=embedder)
    assert other.collection.searched == library.collection.settings
    assert keys(other, "spring tide moon")[0] == "tides.txt", "searched where it was"
    (folder / "ropes.txt").write_text("Ropes of hemp rot, and ropes of nylon stretch.")
    assert other.ingest(str(folder)).done == 1
    assert other.collection.searched is None
    assert embedder.texts == texts + 1
    assert points_of(other) == 3
    assert keys(other, "spring tide moon")[0] == "tides.txt"
    assert opened(store).collection.searched is None


def test_a_killed_change_of_index_is_continued(
    opened: Open, store: Store, folder: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(store, "store").ingest(str(folder))
    other = opened(store, place)
    monkeypatch.setattr("holdfast.pipelines.rag.index.qdrant.index.UPLOADED_AT_ONCE", 1)
    with monkeypatch.context() as patch:
        patch.setattr(vector_spaces, "add_uploads", _killed_at_the_second(vector_spaces.add_uploads))
        with pytest.raises(KeyboardInterrupt):
            other.ingest(str(folder))
    assert other.collection.searched is not None
    assert keys(other, "spring tide moon")[0] == "tides.txt"
    again = opened(store)
    again.drain()
    assert again.collection.searched is None
    assert points_of(again) == 2
    assert len(keys(again, "spring tide moon")) == 2


def _killed_at_the_second(real: object) -> object:
    calls: list[int] = []

    def once(*args: object, **more: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*args, **more)  # type: ignore[operator]

    return once


def test_a_document_whose_new_version_failed_is_still_found_after_a_change(
    opened: Open, store: Store, folder: Path, place: str
) -> None:
    opened(store, "store").ingest(str(folder))
    (folder / "tides.txt").write_bytes(b"%PDF-1.7 and then nothing of use")
    other = opened(store, place)
    assert other.ingest(str(folder)).dead == 1
    assert other.collection.searched is None
    assert keys(other, "spring tide moon")[0] == "tides.txt", "as it was before it broke"


def test_an_abandoned_space_is_dropped(opened: Open, store: Store, folder: Path, points: Path) -> None:
    opened(store, f"qdrant:{points}").ingest(str(folder))
    assert len([*points.iterdir()]) == 1
    moved = opened(store, SERVER)
    moved.ingest(str(folder))
    assert (there(moved), [*points.iterdir()]) == ([SERVER], [])
    back = opened(store, "store")
    back.drain()
    assert (there(back), back.collection.searched) == ([], None)
    assert keys(back, "spring tide moon")[0] == "tides.txt"


def test_a_reverted_change_leaves_nothing(opened: Open, store: Store, folder: Path, place: str) -> None:
    opened(store, "store").ingest(str(folder))
    opened(store, place).prepare()
    back = opened(store, "store")
    assert back.collection.searched is None
    collect_garbage(store)
    assert there(back) == []


def test_another_embedder_and_another_index_at_once(opened: Open, store: Store, folder: Path, place: str) -> None:
    opened(store, "store").ingest(str(folder))
    other = opened(store, place, embedder="hash:128")
    other.reprocess_stale()
    assert keys(other, "spring tide moon")[0] == "tides.txt"
    assert other.collection.searched is not None
    other.ingest(str(folder))
    assert other.collection.searched is None
    assert points_of(other) == 2
    assert keys(other, "spring tide moon")[0] == "tides.txt"


def test_a_deleted_collection_leaves_no_points_and_its_name_can_be_used_again(
    opened: Open, store: Store, folder: Path, place: str
) -> None:
    library = opened(store, place)
    library.ingest(str(folder))
    library.delete()
    assert there(library) == []
    again = opened(store, place)
    again.ingest(str(folder))
    assert points_of(again) == 2
    assert len(keys(again, "spring tide moon")) == 2


def test_two_stores_share_a_server_and_see_nothing_of_each_other(opened: Open, folder: Path, tmp_path: Path) -> None:
    with holdfast.open(f"sqlite:///{tmp_path}/a.db") as one, holdfast.open(f"sqlite:///{tmp_path}/b.db") as other:
        opened(one, SERVER).ingest(str(folder))
        (folder / "tides.txt").unlink()
        second = opened(other, SERVER)
        second.ingest(str(folder))
        second.delete()
        collect_garbage(other)
        assert points_of(opened(one)) == 2


def test_verify_finds_what_qdrant_lost(opened: Open, store: Store, folder: Path, place: str) -> None:
    library = opened(store, place)
    library.ingest(str(folder))
    assert holdfast.verify(library.pipeline, store).fine == 2
    index = library.index
    assert isinstance(index, QdrantIndex)
    space = index._find_space("documents", library.model)
    assert space is not None
    index._points.drop(space.name)
    with pytest.raises(QdrantError, match="collection tidy"):
        keys(library, "spring tide moon")
    assert library.search("spring tide moon", by="words")
    assert holdfast.verify(library.pipeline, store).gone
    assert collect_garbage(store).swept == 2
    assert keys(library, "spring tide moon")[0] == "tides.txt"


def test_an_invalid_index_is_refused() -> None:
    for spec in ("qdrant", "qdrant:", "chroma:here", "", "qdrant:http://user:secret@host:6333"):
        with pytest.raises(ValueError, match="there is no index"):
            rag.CollectionSettings(index=spec)


def test_a_folder_is_stored_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert rag.CollectionSettings(index="qdrant:points").index == f"qdrant:{tmp_path / 'points'}"


@contextmanager
def another_process(points: Path) -> Iterator[None]:
    """Let another process open everything in a folder."""
    program = """
import sys
from pathlib import Path
from holdfast.pipelines.rag.index.qdrant.embedded import EmbeddedPoints
from holdfast.pipelines.rag.index.qdrant.protocol import PointFilter
points = EmbeddedPoints(Path(sys.argv[1]))
for space in Path(sys.argv[1]).iterdir():
    points.count(space.name, PointFilter())
print("open", flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", program, str(points)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        try:
            yield
        finally:
            assert other.stdin is not None
            other.stdin.close()


@pytest.mark.parametrize("each_store", ["sqlite"], indirect=True)
def test_a_second_process_gets_an_error_and_no_document_fails(
    opened: Open, store: Store, folder: Path, points: Path
) -> None:
    library = opened(store, f"qdrant:{points}")
    library.ingest(str(folder))
    (folder / "ropes.txt").write_text("Ropes of hemp rot, and ropes of nylon stretch.")
    with another_process(points):  # which can: nothing is kept open between drains
        with pytest.raises(QdrantError, match=r"in use.*only one process"):
            library.search("spring tide")
        assert library.search("spring tide", by="words")
        with pytest.raises(QdrantError, match=r"in use.*only one process"):
            library.ingest(str(folder))
        service = SearchService(store)
        with pytest.raises(StoreError, match="only one process"):
            service.search("spring tide", collection="documents")
        service.close()
        assert "only one process" in collect_garbage(store).left[0]
    assert library.ingest(str(folder)).done == 1
    assert keys(library, "ropes of nylon")[0] == "ropes.txt"


@pytest.mark.parametrize("each_store", ["sqlite"], indirect=True)
def test_several_processes_are_refused_where_only_one_can_have_the_vectors_open(
    opened: Open, store: Store, folder: Path, points: Path
) -> None:
    library = opened(store, f"qdrant:{points}")
    with pytest.raises(HoldfastError, match="only one process"):
        library.ingest(str(folder), processes=2)
    library.submit_changes(str(folder))
    with pytest.raises(HoldfastError, match="only one process"):
        library.drain(processes=2)
    assert library.ingest(str(folder)).done == 2


@pytest.mark.parametrize("each_store", ["sqlite"], indirect=True)
def test_a_document_waits_while_another_process_has_the_folder(
    opened: Open, store: Store, folder: Path, points: Path
) -> None:
    library = opened(store, f"qdrant:{points}")
    library.ingest(str(folder))
    (here,) = [one for one in store.documents("documents") if one.key == "tides.txt"]
    name = DocumentName("documents", here.batch, here.key)
    with another_process(points), pytest.raises(RetryLater, match="in use"):
        library.index.upload(name, model=library.model)


@pytest.mark.parametrize("each_store", ["sqlite"], indirect=True)
def test_a_collection_is_deleted_while_qdrant_is_unreachable_and_its_points_later(
    opened: Open, store: Store, folder: Path, points: Path
) -> None:
    library = opened(store, f"qdrant:{points}")
    library.ingest(str(folder))
    with another_process(points):
        library.delete()
        assert len([*points.iterdir()]) == 1
    again = opened(store, f"qdrant:{points}")
    again.ingest(str(folder))
    assert len(keys(again, "spring tide moon")) == 2
    assert collect_garbage(store).left == []
    assert len([*points.iterdir()]) == 1


def test_an_index_of_vectors_that_is_killed_while_it_is_built_loses_nothing(
    points: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "MIN_INDEXED", 1000)
    here = EmbeddedPoints(points)
    here.create("space", 64)
    rows = np.random.default_rng(1).standard_normal((6000, 64)).astype("f4").tolist()
    name = DocumentName("c", "s", "k")
    here.upsert("space", [QdrantPoint(name=name, chunk=(1, 1, n), page=1, vector=row) for n, row in enumerate(rows)])
    before = here.nearest("space", rows[7], PointFilter(), limit=3)
    here.close()
    with subprocess.Popen([sys.executable, "-c", embedded.BUILD_PROGRAM, str(points / "space")]) as building:
        while building.poll() is None and not [*points.glob("space/temp_segments/*")]:
            pass
        building.kill()
    assert building.returncode == -signal.SIGKILL
    assert here.count("space", PointFilter()) == 6000
    here.maintain("space")
    with here._using("space") as shard:
        assert shard is not None
        assert shard.info().indexed_vectors_count == shard.info().points_count == 6000
    assert here.nearest("space", rows[7], PointFilter(), limit=3)[0][0] == before[0][0]
    here.close()
