"""The indexes that the conformance tests run on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.pipelines.rag.index import Index
from holdfast.pipelines.rag.index.registry import database_index
from holdfast.stores import open_store
from tests.support.index_harness import IndexHarness

KINDS = ["sqlite", "postgres", "edge-on-sqlite", "client-on-sqlite"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the warnings of the client's local mode: it has no indexes and compares all vectors."""
    for item in items:
        if "client-on-sqlite" in item.name:
            item.add_marker(pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def harness(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[IndexHarness]:
    """A harness with an empty index."""
    pytest.importorskip("numpy")
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path / 'index.db'}"
    yield from index_harness(url, kind, tmp_path)


def index_harness(url: str, kind: str, folder: Path) -> Iterator[IndexHarness]:
    """Yield a harness with an index in a database, and close it."""
    store = open_store(url)
    opened: list[Index] = []
    points = None
    if kind == "edge-on-sqlite":
        pytest.importorskip("qdrant_edge")
        from holdfast.pipelines.rag.index.qdrant.embedded import EmbeddedPoints

        points = EmbeddedPoints(folder / "points")
    elif kind == "client-on-sqlite":
        qdrant_client = pytest.importorskip("qdrant_client")
        from holdfast.pipelines.rag.index.qdrant.server import ServerPoints

        client = qdrant_client.QdrantClient(":memory:")
        points = ServerPoints(lambda: client)

    def another() -> Index:
        index: Index = database_index(store)
        if points is not None:
            from holdfast.pipelines.rag.index.qdrant import QdrantIndex

            index = QdrantIndex(database_index(store), points, place="qdrant:here", begin=store.transaction)
        opened.append(index)
        return index

    yield IndexHarness(store, another(), another)
    for index in opened:
        index.close()
    store.close()
