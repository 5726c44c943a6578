"""Forked worker processes. They work like independent workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.observe.events import Claimed, Event
from holdfast.stores import open_store
from tests.support.pipeline_harness import PipelineHarness
from tests.support.polling import wait_for

SCRIPT = """
import os, sys, time
import holdfast
p = holdfast.Pipeline("p")

@p.step
def slow(doc):
    os.write(1, f"{os.getpid()}\\n".encode())  # in one piece, whatever the other processes write
    time.sleep(60)

with holdfast.open(sys.argv[1]) as store:
    holdfast.submit(p, store, batch="b", documents=[(str(n), {}) for n in range(8)])
    print(holdfast.work(p, store, processes=3, threads=1, grace=__import__("datetime").timedelta(seconds=0.1)))
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/workers.db"
    return str(request.getfixturevalue("postgres_url"))


def test_all_processes_work_and_their_events_are_relayed(url: str, pipeline: holdfast.Pipeline, tmp_path: Path) -> None:
    @pipeline.step
    def who(doc: holdfast.Document) -> int:
        (tmp_path / str(os.getpid())).touch()
        wait_for(lambda: len(list(tmp_path.glob("[0-9]*"))) == 3)  # all three processes have started
        return os.getpid()

    claimed: dict[str, int] = {}

    def hear(event: Event) -> None:
        if isinstance(event, Claimed):
            claimed[event.worker] = claimed.get(event.worker, 0) + len(event.claims)

    store = open_store(url)
    harness = PipelineHarness(store, pipeline)
    harness.submit(*(str(number) for number in range(60)))
    report = harness.drain(processes=3, threads=1, listeners=[hear], name="worker")
    assert (report.done, report.claimed, report.items) == (60, 60, 60)
    assert set(claimed) == {"worker", "worker-2", "worker-3"}
    assert sum(claimed.values()) == 60
    assert len({harness.kept("who", str(number))[0] for number in range(60)}) == 3
    store.close()


def test_the_documents_of_a_killed_process_are_done_by_the_rest(
    harness: PipelineHarness, pipeline: holdfast.Pipeline, tmp_path: Path
) -> None:
    me, killed = os.getpid(), tmp_path / "killed"

    @pipeline.step(retry=holdfast.Retry(attempts=5))
    def deadly(doc: holdfast.Document) -> int:
        if os.getpid() == me:
            wait_for(killed.exists)
        else:
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()

    harness.submit(*(str(number) for number in range(10)))
    assert harness.drain(processes=2, threads=1).done == 10
    assert {harness.kept("deadly", str(number))[0] for number in range(10)} == {me}


def test_a_listener_that_fails_for_one_process_stops_all(harness: PipelineHarness, pipeline: holdfast.Pipeline) -> None:
    me = os.getpid()
    hold = threading.Event()

    @pipeline.step
    def work(doc: holdfast.Document) -> None:
        if os.getpid() == me:
            hold.wait()

    def hear(event: Event) -> None:
        if isinstance(event, Claimed) and event.worker == "worker-2":
            hold.set()
            raise ValueError("nobody writes this down")

    harness.submit(*(str(number) for number in range(3000)))
    with pytest.raises(ValueError, match="nobody writes this down"):
        harness.drain(processes=2, threads=1, concurrency=10, name="worker", listeners=[hear])
    assert {one.crashes for one in harness.store.documents(pipeline.name)} == {0}


def test_a_memory_store_refuses_several_processes(pipeline: holdfast.Pipeline) -> None:
    @pipeline.step
    def nothing(doc: holdfast.Document) -> None:
        pass

    with holdfast.open("memory://") as store, pytest.raises(holdfast.HoldfastError, match="belongs to one process"):
        holdfast.drain(pipeline, store, processes=2)


class TestASignal:
    @pytest.fixture
    def started(self, url: str, tmp_path: Path) -> tuple[subprocess.Popen[str], list[int]]:
        """Wait until three processes are in the middle of a body."""
        program = tmp_path / "workers.py"
        program.write_text(SCRIPT)
        first = subprocess.Popen([sys.executable, program, url], stdout=subprocess.PIPE, text=True)
        assert first.stdout is not None
        return first, [int(first.stdout.readline()) for _ in range(3)]

    def test_stops_all_cleanly(self, started: tuple[subprocess.Popen[str], list[int]], url: str) -> None:
        first, pids = started
        first.terminate()
        out, _ = first.communicate(timeout=30)
        assert "stopped: SIGTERM" in out
        with holdfast.open(url) as store:
            assert {one.state for one in store.documents("p")} == {"waiting"}
            assert {(one.holder, one.crashes) for one in store.documents("p")} == {("", 0)}
        assert not [pid for pid in pids if _lives(pid)]

    def test_that_kills_the_first_ends_the_others(self, started: tuple[subprocess.Popen[str], list[int]]) -> None:
        first, pids = started
        first.kill()
        first.communicate(timeout=30)
        wait_for(lambda: not any(map(_lives, pids)))


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
