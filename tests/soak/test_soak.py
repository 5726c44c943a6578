"""A short soak test. `make soak` runs it for ten minutes."""

from __future__ import annotations

from pathlib import Path

from tests.soak.runner import SoakResult, run_soak
from tests.support.postgres import Postgres, running_postgres

SHORT = {"documents": 1500, "seconds": 8.0, "seed": 20}


def assert_all_guarantees_hold(result: SoakResult) -> None:
    assert result.violations == []
    assert result.balance.balances
    assert result.balance.open == 0
    assert result.balance.expected == result.documents
    assert result.workers_replaced  # otherwise no fault happened
    assert sum(result.decided.values())


def test_a_soak_on_sqlite_violates_no_guarantee(tmp_path: Path) -> None:
    assert_all_guarantees_hold(
        run_soak(f"sqlite:///{tmp_path}/soak.db?synchronous=normal", tmp_path, workers=2, **SHORT)
    )


def test_a_soak_on_postgresql_violates_no_guarantee(tmp_path: Path, postgres_server: Postgres) -> None:
    with running_postgres() as server:  # a server of its own, because the test restarts it
        url = server.create_database("soak")
        assert_all_guarantees_hold(run_soak(url, tmp_path, workers=3, restart=server.restart, **SHORT))
