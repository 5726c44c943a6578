"""A rate limit that all workers of a store share."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast import RetryLater
from holdfast.pipelines import rag
from holdfast.pipelines.rag.embed.rate_limiter import RateLimit, SharedRateLimiter
from holdfast.pipelines.rag.embed.remote import OpenAI
from holdfast.stores import open_store
from holdfast.stores.protocol import Store
from holdfast.testing import ManualClock
from tests.support.services.embeddings import OpenAIService

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
PLACES = 25
PROGRAM = f"""
from contextlib import closing
import sys
from holdfast.pipelines.rag.embed.rate_limiter import SharedRateLimiter, RateLimit
from holdfast.stores import open_store

with closing(open_store(sys.argv[1])) as store:
    meter = SharedRateLimiter(store, "shared", rate=RateLimit(requests=60), patience=1000)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range({PLACES}):
        meter.take(texts=1)
"""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/meter.db"
    with closing(open_store(url, clock=clock)) as opened:
        yield opened


def next_at(store: Store) -> float:
    with store.transaction() as tx:
        return float(tx.execute("select next_at from rag_meter").fetchone()[0])


def test_turns_are_as_far_apart_as_the_rate_requires(store: Store) -> None:
    meter = SharedRateLimiter(store, "slow", rate=RateLimit(requests=30))
    assert [meter.take(texts=1) for _ in range(3)] == [0, 2, 4]


def test_a_turn_that_is_too_late_is_not_taken(store: Store, clock: ManualClock) -> None:
    meter = SharedRateLimiter(store, "slow", rate=RateLimit(requests=30), patience=3)
    meter.take(texts=1)
    meter.take(texts=1)
    for _ in range(5):
        with pytest.raises(RetryLater) as put_off:
            meter.take(texts=1)
        assert put_off.value.after == timedelta(seconds=4)
    clock.advance(timedelta(seconds=4))
    assert meter.take(texts=1) == 0


def test_unused_turns_are_not_saved_up(store: Store, clock: ManualClock) -> None:
    meter = SharedRateLimiter(store, "slow", rate=RateLimit(requests=30))
    meter.take(texts=1)
    clock.advance(timedelta(hours=1))
    assert [meter.take(texts=1), meter.take(texts=1)] == [0, 2]


def test_a_request_costs_by_the_limit_it_uses_most(store: Store) -> None:
    meter = SharedRateLimiter(store, "many", rate=RateLimit(requests=60, texts=600, tokens=60_000))
    assert meter.take(texts=1, tokens=10) == 0
    assert meter.take(texts=40, tokens=10) == 1
    assert meter.take(texts=1, tokens=3000) == 5


def test_limiters_of_different_names_do_not_wait_for_each_other(store: Store) -> None:
    SharedRateLimiter(store, "one", rate=RateLimit(requests=1)).take(texts=1)
    assert SharedRateLimiter(store, "other", rate=RateLimit(requests=1)).take(texts=1) == 0


def test_a_clock_that_jumps_back_does_not_block(store: Store, clock: ManualClock) -> None:
    meter = SharedRateLimiter(store, "slow", rate=RateLimit(requests=30))
    meter.take(texts=1)
    clock.advance(timedelta(days=-1))
    assert [meter.take(texts=1), meter.take(texts=1)] == [0, 2]


def test_no_limit_makes_no_query(store: Store) -> None:
    meter = SharedRateLimiter(store, "free", rate=RateLimit())
    assert [meter.take(texts=100, tokens=10**9) for _ in range(3)] == [0, 0, 0]
    with store.transaction() as tx:
        assert tx.execute("select count(*) from rag_meter").fetchone()[0] == 0


def test_a_rate_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        RateLimit(requests=0)


def two_processes_take_their_places(url: str) -> None:
    """Every turn costs a second. If no turn was given twice, the row is that many seconds ahead."""
    begun = time.time()
    both = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.communicate("go\n", timeout=60)
    assert [process.returncode for process in both] == [0, 0]
    with closing(open_store(url)) as store:
        assert begun + 2 * PLACES <= next_at(store) <= time.time() + 2 * PLACES


def test_two_processes_share_a_rate_on_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/meter.db"
    open_store(url).close()
    two_processes_take_their_places(url)


def test_two_processes_share_a_rate_on_postgresql(postgres_url: str) -> None:
    open_store(postgres_url).close()
    two_processes_take_their_places(postgres_url)


def test_postgresql_uses_its_own_clock(postgres_url: str) -> None:
    with closing(open_store(postgres_url, clock=ManualClock(NOON))) as store:
        meter = SharedRateLimiter(store, "slow", rate=RateLimit(requests=6), patience=11)
        assert meter.take(texts=1) == 0
        assert 0 < meter.take(texts=1) <= 10
        with pytest.raises(RetryLater, match="used up"):
            meter.take(texts=1)
        with store.transaction() as tx:  # as it stands after a clock was a day ahead
            tx.execute("update rag_meter set next_at = next_at + 86400")
        assert meter.take(texts=1) == 0


def test_a_service_waits_for_its_rate_limiter(service: OpenAIService, store: Store) -> None:
    made = OpenAI(service.model, rate_limiter=SharedRateLimiter(store, "openai", rate=RateLimit(requests=1)))
    made.embed(["first"])
    with pytest.raises(RetryLater, match="rate limit of openai"):
        made.embed(["second"])
    assert service.batches == [["first"]]
    made.close()


def test_a_collection_is_embedded_by_a_service_at_its_rate(service: OpenAIService, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    for number in range(5):
        (tmp_path / "letters" / f"{number}.txt").write_text(f"Letter {number} is about tides and moorings.")
    settings = rag.CollectionSettings(embedder=f"openai:{service.model}", rate=RateLimit(requests=60_000))
    with holdfast.open(f"sqlite:///{tmp_path}/rag.db") as store:
        library = rag.Library(store, settings=settings)
        assert library.ingest(str(tmp_path / "letters")).done == 5
        assert len(library.search("tides", by="meaning")) == 5
        with store.transaction() as tx:
            assert tx.execute("select name from rag_meter").fetchall() == [(f"openai:{service.model}",)]
        assert rag.Library(store).collection.settings.rate.requests == 60_000
