"""Fixtures and markers for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import holdfast
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from tests.support.pipeline_harness import PipelineHarness

if TYPE_CHECKING:
    from tests.support.postgres import Postgres


collect_ignore_glob = (
    [] if find_spec("psycopg") else ["stores/test_postgres.py", "stores/postgres/*", "faults/test_*.py"]
)


def pytest_configure(config: pytest.Config) -> None:
    """Register our markers."""
    config.addinivalue_line("markers", "wording: checks the wording of a sentence that is only for display")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL server, started once for each process that runs tests."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs psycopg: pip install 'holdfast-pipelines[postgres]'")
    from tests.support.postgres import NoPostgres, find_postgres, running_postgres

    try:
        find_postgres()
    except NoPostgres as reason:
        pytest.skip(str(reason))
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Iterator[str]:
    """The URL of a new, empty database."""
    name = f"test_{uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new SQLite store."""
    store = open_store(f"sqlite:///{tmp_path}/engine.db")
    yield store
    store.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A new store of each kind."""
    urls = {"memory": lambda: "memory://", "sqlite": lambda: f"sqlite:///{tmp_path}/any.db"}
    store = open_store(urls.get(request.param, lambda: request.getfixturevalue("postgres_url"))())
    yield store
    store.close()


@pytest.fixture
def pipeline() -> holdfast.Pipeline:
    """A pipeline without steps."""
    return holdfast.Pipeline("p")


@pytest.fixture
def harness(store: Store, pipeline: holdfast.Pipeline) -> PipelineHarness:
    """The pipeline on the store."""
    return PipelineHarness(store, pipeline)
