"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from holdfast.core.errors import StoreGone
from holdfast.testing.postgres import Postgres, running_postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A real PostgreSQL, started once for each process that runs tests."""
    with running_postgres_or_skip() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> str:
    """The URL of a fresh, empty database."""
    return postgres_server.create_database(f"test_{uuid4().hex}")
