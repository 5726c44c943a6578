"""`holdfast work`: alone and in several processes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Start
from tests.cli.waiting import until_workers

KILLER = """
import os
import time
import holdfast

killer = holdfast.Pipeline("killer")

@killer.step
def pages(doc, cursor=0):
    for number in range(cursor, 5):
        time.sleep(0.005)
        if doc.key == "poison":
            os.kill(os.getpid(), 9)
        yield number
"""


def last_line(text: str) -> dict[str, object]:
    said: dict[str, object] = json.loads(text.splitlines()[-1])
    return said


def balance(holdfast: Run) -> dict[str, int]:
    answer: dict[str, int] = json.loads(holdfast("status", "--json").stdout)["pipelines"][0]["batches"][0]
    return answer


def test_drain_ends_when_nothing_is_left(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    result = holdfast("work", "papers.py", "--drain")
    assert result.exit_code == 0
    assert "2 documents done" in result.stdout


@pytest.mark.parametrize("words", [("work", "papers.py", "--drain"), ("run", "papers.py")])
def test_a_batch_that_is_not_there_is_refused_with_those_that_are(holdfast: Run, words: tuple[str, ...]) -> None:
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    result = holdfast(*words, "--batch", "may")
    assert result.exit_code == 2
    assert "pipeline 'papers' has no batch 'may'; it has: march" in result.stderr


def test_several_processes_are_not_started_for_a_batch_that_is_not_there(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    result = holdfast("work", "papers.py", "--batch", "may", "--drain", "--processes", "2")
    assert (result.exit_code, result.stderr) == (2, "Error: pipeline 'papers' has no batch 'may'; it has: march\n")


def test_a_worker_may_wait_for_a_batch_that_is_yet_to_come_and_says_so(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    result = holdfast("work", "papers.py", "--batch", "may", "--budget", "100ms")
    assert result.exit_code == 0
    assert (
        "Waiting for a batch that is yet to come: pipeline 'papers' has no batch 'may'; it has: march" in result.stderr
    )
    assert "Batch may of pipeline papers has no documents yet" in result.stdout


def test_it_works_for_ever_until_it_is_stopped(holdfast: Run, start: Start) -> None:
    process = start("work", "papers.py", "--json")
    until_workers(1)
    holdfast("submit", "papers.py", "docs")
    deadline = time.monotonic() + 20
    while balance(holdfast)["done"] < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 143
    assert last_line(out)["report"]["done"] == 2  # type: ignore[index]


def test_several_processes_drain_together(holdfast: Run, start: Start) -> None:
    holdfast("submit", "papers.py", "-", stdin="".join(f"d{number}\n" for number in range(100)))
    out, _ = start("work", "papers.py", "--drain", "--processes", "2", "--json").communicate(timeout=60)
    assert last_line(out)["report"]["done"] == 100  # type: ignore[index]


def test_a_process_that_dies_is_replaced_and_its_poison_becomes_a_dead_letter(
    holdfast: Run, start: Start, folder: Path
) -> None:
    (folder / "killer.py").write_text(KILLER)
    holdfast("submit", "killer.py", "-", stdin="poison\n" + "".join(f"d{number}\n" for number in range(20)))
    process = start("work", "killer.py", "--drain", "--processes", "2")
    out, error = process.communicate(timeout=120)
    assert process.returncode == 1, (out, error)
    assert "was killed by SIGKILL; another one takes its place." in out
    assert (balance(holdfast)["done"], balance(holdfast)["dead"]) == (20, 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_all_processes_are_stopped_together(start: Start, number: signal.Signals) -> None:
    process = start("work", "papers.py", "--processes", "2")
    members = until_workers(2)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert not any(map(is_there, members))


def test_processes_do_not_outlive_the_one_that_started_them(start: Start) -> None:
    process = start("work", "papers.py", "--processes", "2")
    members = until_workers(2)
    process.kill()
    process.communicate(timeout=30)
    deadline = time.monotonic() + 20
    while any(map(is_there, members)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_there, members))


def test_a_store_that_cannot_be_used_stops_all_of_them(start: Start, folder: Path) -> None:
    process = start("work", "papers.py", "--processes", "2", "--store", "sqlite:///nowhere/x.db")
    _, error = process.communicate(timeout=30)
    assert process.returncode == 3
    assert "there is no folder nowhere" in error


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]
