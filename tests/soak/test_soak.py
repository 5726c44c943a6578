"""The soak in short: `make soak` runs it for ten minutes."""

from __future__ import annotations

from pathlib import Path

from holdfast.testing.postgres import Postgres, running_postgres
from tests.soak.trouble import Findings, run_soak

SHORT = {"documents": 1500, "seconds": 8.0, "seed": 20}


def assert_sound(found: Findings) -> None:
    assert found.faults == []
    assert found.balance.balances
    assert found.balance.open == 0
    assert found.balance.expected == found.documents
    assert found.workers_replaced  # else nothing was tried
    assert sum(found.decided.values())


def test_a_soak_on_sqlite_leaves_everything_done_once_and_explained(tmp_path: Path) -> None:
    assert_sound(run_soak(f"sqlite:///{tmp_path}/soak.db?synchronous=normal", tmp_path, workers=2, **SHORT))


def test_a_soak_on_postgresql_leaves_everything_done_once_and_explained(
    tmp_path: Path, postgres_server: Postgres
) -> None:
    with running_postgres() as server:  # its own: it is restarted
        url = server.create_database("soak")
        assert_sound(run_soak(url, tmp_path, workers=3, restart=server.restart, **SHORT))
