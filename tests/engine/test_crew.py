"""A crew: copies of a process that work beside it, as workers do that know nothing of each other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.events import Claimed, Event
from holdfast.stores import open_store
from tests.engine.conftest import Bench

CREW = """
import os, sys, time
import holdfast
p = holdfast.Pipeline("p")

@p.step
def slow(doc):
    print(os.getpid(), flush=True)
    time.sleep(60)

with holdfast.open(sys.argv[1]) as store:
    holdfast.submit(p, store, batch="b", documents=[(str(n), {}) for n in range(8)])
    print(holdfast.work(p, store, processes=3, threads=1, grace=__import__("datetime").timedelta(seconds=0.1)))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/crew.db"
    return str(request.getfixturevalue("postgres_url"))


def test_all_work_and_are_told_of_here(url: str, pipeline: holdfast.Pipeline, tmp_path: Path) -> None:
    @pipeline.step
    def who(doc: holdfast.Document) -> int:
        (tmp_path / str(os.getpid())).touch()
        while len(list(tmp_path.glob("[0-9]*"))) < 3:
            time.sleep(0.001)  # until all three are at work
        return os.getpid()

    claimed: dict[str, int] = {}

    def hear(event: Event) -> None:
        if isinstance(event, Claimed):
            claimed[event.worker] = claimed.get(event.worker, 0) + len(event.claims)

    store = open_store(url)
    bench = Bench(store, pipeline)
    bench.submit(*(str(number) for number in range(60)))
    report = bench.drain(processes=3, threads=1, listeners=[hear], name="mate")
    assert (report.done, report.claimed, report.items) == (60, 60, 60)
    assert set(claimed) == {"mate", "mate-2", "mate-3"}
    assert sum(claimed.values()) == 60
    assert len({bench.kept("who", str(number))[0] for number in range(60)}) == 3
    store.close()


def test_what_a_killed_copy_held_is_done_by_the_rest(bench: Bench, pipeline: holdfast.Pipeline, tmp_path: Path) -> None:
    me, killed = os.getpid(), tmp_path / "killed"

    @pipeline.step(retry=holdfast.Retry(attempts=5))
    def deadly(doc: holdfast.Document) -> int:
        if os.getpid() == me:
            while not killed.exists():
                time.sleep(0.001)
        else:
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    bench.submit(*(str(number) for number in range(10)))
    assert bench.drain(processes=2, threads=1).done == 10
    assert {bench.kept("deadly", str(number))[0] for number in range(10)} == {me}


def test_a_listener_that_fails_for_a_copy_ends_the_work_of_all(bench: Bench, pipeline: holdfast.Pipeline) -> None:
    me = os.getpid()
    hold = threading.Event()

    @pipeline.step
    def work(doc: holdfast.Document) -> None:
        if os.getpid() == me:
            hold.wait()

    def hear(event: Event) -> None:
        if isinstance(event, Claimed) and event.worker == "mate-2":
            hold.set()
            raise ValueError("nobody writes this down")

    bench.submit(*(str(number) for number in range(3000)))
    with pytest.raises(ValueError, match="nobody writes this down"):
        bench.drain(processes=2, threads=1, concurrency=10, name="mate", listeners=[hear])
    assert {one.crashes for one in bench.store.standings(pipeline.name)} == {0}


def test_a_store_in_memory_has_no_crew(pipeline: holdfast.Pipeline) -> None:
    @pipeline.step
    def nothing(doc: holdfast.Document) -> None:
        pass

    with holdfast.open("memory://") as store, pytest.raises(holdfast.HoldfastError, match="belongs to one process"):
        holdfast.drain(pipeline, store, processes=2)


class TestASignal:
    @pytest.fixture
    def crew(self, url: str, tmp_path: Path) -> tuple[subprocess.Popen[str], list[int]]:
        """Three processes, each in the middle of a body."""
        program = tmp_path / "crew.py"
        program.write_text(CREW)
        first = subprocess.Popen([sys.executable, program, url], stdout=subprocess.PIPE, text=True)
        assert first.stdout is not None
        return first, [int(first.stdout.readline()) for _ in range(3)]

    def test_stops_all_cleanly(self, crew: tuple[subprocess.Popen[str], list[int]], url: str) -> None:
        first, pids = crew
        first.terminate()
        out, _ = first.communicate(timeout=30)
        assert "stopped: SIGTERM" in out
        with holdfast.open(url) as store:
            assert {one.state for one in store.standings("p")} == {"waiting"}
            assert {(one.holder, one.crashes) for one in store.standings("p")} == {("", 0)}
        assert not [pid for pid in pids if _lives(pid)]

    def test_that_kills_the_first_ends_the_others(self, crew: tuple[subprocess.Popen[str], list[int]]) -> None:
        first, pids = crew
        first.kill()
        first.communicate(timeout=30)
        deadline = time.monotonic() + 30
        while [pid for pid in pids if _lives(pid)]:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
