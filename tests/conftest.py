"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from holdfast.testing.postgres import Postgres


collect_ignore_glob = [] if find_spec("psycopg") else ["stores/test_postgres*.py", "faults/test_*.py"]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A real PostgreSQL, started once for each process that runs tests."""
    pytest.importorskip("psycopg", reason="PostgreSQL needs psycopg: pip install 'holdfast[postgres]'")
    from holdfast.testing.postgres import NoPostgres, find_postgres, running_postgres

    try:
        find_postgres()
    except NoPostgres as reason:
        pytest.skip(str(reason))
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Iterator[str]:
    """The URL of a fresh, empty database."""
    name = f"test_{uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)
