from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.core.errors import LeaseLost
from holdfast.pipelines.files import CheckpointManager, Loader, ProcessingStats
from holdfast.stores import open_store
from holdfast.stores.memory import MemoryStore
from holdfast.stores.protocol import Store
from holdfast.testing import ManualClock

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
URL = "https://example.org/a.csv"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/s.db"}
    store = open_store(urls.get(request.param) or request.getfixturevalue("postgres_url"))
    yield store
    store.close()


def test_one_worker_gets_a_file(any_store: Store) -> None:
    one, other = CheckpointManager(any_store), CheckpointManager(any_store)
    assert one.claim(URL, "csv", MONDAY)
    assert not other.claim("HTTPS://example.org:443/./a.csv", "csv", MONDAY)
    one.complete(URL, ProcessingStats(3, 1, 2, 40))
    assert one.is_processed(URL)
    assert not other.claim(URL, "csv", MONDAY)
    assert one.worker_id != other.worker_id


def test_a_failed_file_is_retried_three_times(any_store: Store) -> None:
    manager = CheckpointManager(any_store)
    tries = 0
    while manager.claim(URL, "csv", MONDAY):
        manager.fail(URL, "the server said no")
        tries += 1
    assert tries == 4
    assert not manager.is_processed(URL)


def test_a_new_version_can_be_claimed_again(any_store: Store) -> None:
    manager = CheckpointManager(any_store)
    assert manager.claim(URL, "csv", MONDAY)
    manager.complete(URL, ProcessingStats(1))
    assert manager.claim(URL, "csv", MONDAY + timedelta(days=1))


def test_a_file_that_is_given_back_can_be_claimed_by_others(any_store: Store) -> None:
    with CheckpointManager(any_store) as manager:
        assert manager.claim(URL, "csv")
    assert CheckpointManager(any_store).claim(URL, "csv")


def test_a_worker_without_the_file_cannot_complete_it(any_store: Store) -> None:
    manager = CheckpointManager(any_store)
    with pytest.raises(LeaseLost):
        manager.complete(URL, ProcessingStats())
    with pytest.raises(LeaseLost):
        manager.fail(URL, "no")


def test_a_worker_that_was_silent_for_too_long_cannot_complete_its_file() -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    slow, fast = CheckpointManager(store), CheckpointManager(store)
    assert slow.claim(URL, "csv")
    clock.advance(timedelta(minutes=6))
    assert fast.claim(URL, "csv")
    with pytest.raises(LeaseLost):
        slow.complete(URL, ProcessingStats(1))
    fast.complete(URL, ProcessingStats(2))
    assert fast.is_processed(URL)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_view_shows_files_of_loads_and_of_programs(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/s.db" if database == "sqlite" else request.getfixturevalue("postgres_url")
    store = open_store(url)
    manager = CheckpointManager(store, "worker 7")
    manager.claim(URL, "csv", MONDAY)
    manager.complete(URL, ProcessingStats(10, 3, 7, 120))
    manager.claim(URL + "?2", "csv", MONDAY)
    manager.fail(URL + "?2", "it is broken")
    (tmp_path / "b.csv").write_text("id\n1\n")
    loader = Loader(store, "event")
    loader.submit([str(tmp_path / "b.csv")], min_age=timedelta(0))
    loader.drain()
    with store.reading() as tx:
        found = tx.execute(
            "select status, file_type, records_total, records_filtered, records_persisted, processing_time_ms, "
            "processed_by, error_message from file_checkpoints where file_url like 'https%' order by file_url"
        ).fetchall()
        mine = tx.execute(
            "select status, records_total, created_at is not null, started_at is not null, completed_at is not null "
            "from file_checkpoints where file_url not like 'https%'"
        ).fetchall()
    store.close()
    assert tuple(found[0]) == ("completed", "csv", 10, 3, 7, 120, "worker 7", None)
    assert (found[1][0], found[1][7]) == ("failed", "Failed: it is broken")
    assert [tuple(map(bool, row[2:])) for row in mine] == [(True, True, True)]
    assert (mine[0][0], mine[0][1]) == ("completed", 1)
