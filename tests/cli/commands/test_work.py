"""`holdfast work`: in one process and in several."""

from __future__ import annotations

import json
import os
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.cli.scan_options import scan_args
from tests.cli.conftest import Run, Start, sql
from tests.support.polling import wait_for, wait_for_workers

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
            os.abort()
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


def test_a_worker_waits_for_a_batch_that_does_not_exist_yet_and_says_so(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    result = holdfast("work", "papers.py", "--batch", "may", "--budget", "100ms")
    assert result.exit_code == 0
    assert (
        "Waiting for a batch that does not exist yet: pipeline 'papers' has no batch 'may'; it has: march"
        in result.stderr
    )
    assert "Batch may of pipeline papers has no documents yet" in result.stdout


def test_a_worker_says_what_its_scan_found(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    told = holdfast("work", "papers.py", "--drain", "--scan-stale", "1ms").stdout
    assert "scan of papers: nothing moves in default" in told
    assert "scan of papers" not in holdfast("work", "papers.py", "--drain", "--scan-stale", "1ms").stdout
    sql("update hf_pipeline set scanned_at = null")
    assert "scan of papers" not in holdfast("work", "papers.py", "--drain", "--scan-stale", "1ms", "--no-scan").stdout


def test_a_worker_ends_stale_batches_if_it_is_asked_to(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    holdfast("work", "papers.py", "--drain", "--scan-stale", "1ms", "--scan-then", "end")
    assert sql("select state, sealed_at is not null from hf_batch") == [("closed", 1)]


def test_worker_processes_scan_as_their_parent_was_told() -> None:
    options = {"no_scan": False, "scan_every": timedelta(hours=2), "scan_stale": timedelta(days=1), "scan_then": "end"}
    assert scan_args(options) == ["--scan-every", "7200.0s", "--scan-stale", "86400.0s", "--scan-then", "end"]
    assert scan_args(options | {"no_scan": True}) == ["--no-scan"]


def test_it_works_until_it_is_stopped(holdfast: Run, start: Start) -> None:
    process = start("work", "papers.py", "--json")
    wait_for_workers(1)
    holdfast("submit", "papers.py", "docs")
    wait_for(lambda: balance(holdfast)["done"] == 2)
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
    assert "was killed by SIGABRT; another one is started." in out
    assert (balance(holdfast)["done"], balance(holdfast)["dead"]) == (20, 1)


AWAY = """
from datetime import timedelta
import holdfast

away = holdfast.Pipeline("away")
quick = holdfast.Circuit(failures=2, probe=timedelta(milliseconds=20), patience=timedelta(0))

@away.step(circuit=quick, retry=holdfast.Retry(base=timedelta(milliseconds=10)))
def call(doc):
    raise ConnectionRefusedError("nobody is there")
"""


def test_processes_that_end_at_a_paused_step_are_not_replaced(holdfast: Run, start: Start, folder: Path) -> None:
    (folder / "away.py").write_text(AWAY)
    holdfast("submit", "away.py", "-", stdin="".join(f"d{number}\n" for number in range(20)))
    process = start("work", "away.py", "--drain", "--processes", "2")
    out, error = process.communicate(timeout=60)
    assert process.returncode == 4, (out, error)
    assert "another one is started" not in out
    assert (balance(holdfast)["waiting"], balance(holdfast)["dead"]) == (20, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_all_processes_are_stopped_together(start: Start, number: signal.Signals) -> None:
    process = start("work", "papers.py", "--processes", "2")
    members = wait_for_workers(2)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert not any(map(is_there, members))


def test_processes_do_not_outlive_the_one_that_started_them(start: Start) -> None:
    process = start("work", "papers.py", "--processes", "2")
    members = wait_for_workers(2)
    process.kill()
    process.communicate(timeout=30)
    wait_for(lambda: not any(map(is_there, members)))


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


def test_the_summary_of_a_worker_shows_the_command_that_tries_dead_letters_again(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    said = holdfast("work", "papers.py", "--drain", "--batch", "march").stdout
    assert "  again: holdfast run papers.py --batch march --retry\n" in said
