"""The two stores that outlive a kill. PostgreSQL is started once for each process that runs tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server on which databases can be made."""
    try:
        from holdfast.stores.postgres import PostgresStore
        from holdfast.testing.postgres import running_postgres
    except ImportError as error:
        pytest.skip(f"PostgreSQL is not there: {error}")
    if not hasattr(PostgresStore, "transaction"):
        pytest.skip("PostgresStore has no transaction() yet")
    with running_postgres() as server:
        yield server.dsn


@pytest.fixture(params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest) -> str:
    """What the crash test is given as its store."""
    return "sqlite" if request.param == "sqlite" else str(request.getfixturevalue("postgres"))


@pytest.fixture
def url(server: str, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh database."""
    if server == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    import psycopg

    name = f"crash_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"create database {name}")
        yield server.rpartition("/")[0] + f"/{name}"
        connection.execute(f"drop database {name} with (force)")
