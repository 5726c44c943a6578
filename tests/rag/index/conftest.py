"""Every index that is tried by the suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.pipelines.rag.index import Index, index_of
from holdfast.stores import open_store
from tests.rag.index.desk import Desk

KINDS = ["sqlite", "postgres", "edge-on-sqlite", "client-on-sqlite"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The client's local mode warns that it has no indexes and compares all."""
    for item in items:
        if "client-on-sqlite" in item.name:
            item.add_marker(pytest.mark.filterwarnings("ignore:Payload indexes have no effect:UserWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore:Local mode performs exact:UserWarning"))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def desk(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """A desk with a fresh index."""
    pytest.importorskip("numpy")
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path / 'index.db'}"
    yield from desk_at(url, kind, tmp_path)


def desk_at(url: str, kind: str, folder: Path) -> Iterator[Desk]:
    """Gives a desk at a database, and clears it."""
    store = open_store(url)
    opened: list[Index] = []
    points = None
    if kind == "edge-on-sqlite":
        pytest.importorskip("qdrant_edge")
        from holdfast.pipelines.rag.index.qdrant.edge import EdgePoints

        points = EdgePoints(folder / "points")
    elif kind == "client-on-sqlite":
        qdrant_client = pytest.importorskip("qdrant_client")
        from holdfast.pipelines.rag.index.qdrant.server import ServerPoints

        client = qdrant_client.QdrantClient(":memory:")
        points = ServerPoints(lambda: client)

    def another() -> Index:
        index: Index = index_of(store)
        if points is not None:
            from holdfast.pipelines.rag.index.qdrant import QdrantIndex

            index = QdrantIndex(index_of(store), points, place="qdrant:here", begin=store.transaction)
        opened.append(index)
        return index

    yield Desk(store, another(), another)
    for index in opened:
        index.close()
    store.close()
