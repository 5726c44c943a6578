"""Fixtures of document search: stores and libraries, closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.pipelines import rag
from holdfast.pipelines.rag.embed import Embedder
from holdfast.stores.protocol import Store

Open = Callable[..., rag.Library]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store in a SQLite file, the default."""
    with holdfast.open(f"sqlite:///{tmp_path}/rag.db") as store:
        yield store


@pytest.fixture(params=["sqlite", "postgres"])
def each_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A SQLite store and a PostgreSQL store, one after the other."""
    here = f"sqlite:///{tmp_path}/rag.db"
    with holdfast.open(request.getfixturevalue("postgres_url") if request.param == "postgres" else here) as store:
        yield store


@pytest.fixture
def opened() -> Iterator[Open]:
    """Return a function that opens a library with an embedder that needs no model. Without an index: as stored."""
    libraries: list[rag.Library] = []

    def open_library(
        store: Store,
        index: str | None = None,
        *,
        name: str = "documents",
        embedder: str = "hash:64",
        given: Embedder | None = None,
    ) -> rag.Library:
        settings = rag.CollectionSettings(embedder=embedder, index=index) if index else None
        libraries.append(rag.Library(store, name, settings=settings, embedder=given))
        return libraries[-1]

    yield open_library
    for library in libraries:
        library.close()
