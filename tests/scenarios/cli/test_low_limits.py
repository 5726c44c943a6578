"""Low limits of open files and memory: a sentence, the right exit code, and no lost work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run

GREEDY = """
import holdfast
import sqlite3
from pathlib import Path

greedy = holdfast.Pipeline("greedy")


@greedy.step(retry=holdfast.Retry(attempts=1))
def read(doc):
    return "x" * (40_000_000 if Path("low").exists() else 4)


def prepare(tx):
    if Path("low").exists():  # the limit is that of the process, whichever connection sets it
        sqlite3.connect(":memory:").execute("pragma hard_heap_limit = 20000000")
"""


def _limited(limits: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", "-c", f'{limits}; exec "$@"', "bash", sys.executable, "-m", "holdfast", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def _balance(holdfast: Run) -> dict[str, int]:
    (batch,) = json.loads(holdfast("status", "--json").stdout)["pipelines"][0]["batches"]
    return {state: batch[state] for state in ("done", "dead", "running", "waiting")}


@pytest.mark.parametrize("files", [9, 13, 24])
def test_few_open_files_are_said_and_nothing_is_lost(holdfast: Run, files: int) -> None:
    ran = _limited(f"ulimit -n {files}", "run", "papers.py", "docs")
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr
    assert ran.returncode in ((3, 5) if files < 12 else (0, 3, 5))
    if ran.returncode:
        assert "too many files are open" in ran.stderr
    assert holdfast("run", "papers.py", "docs").exit_code == 0
    assert _balance(holdfast) == {"done": 2, "dead": 0, "running": 0, "waiting": 0}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit memory like this")
@pytest.mark.parametrize("kilobytes", [45_000])
def test_little_memory_is_said_and_nothing_is_lost(holdfast: Run, kilobytes: int) -> None:
    ran = _limited(f"ulimit -v {kilobytes}", "run", "papers.py", "docs")
    if ran.returncode == 1 and "holdfast/__init__.py" in ran.stderr:
        pytest.skip("this Python cannot even import holdfast with so little memory")
    assert "Traceback" not in ran.stderr
    assert ran.returncode in (0, 5)
    if ran.returncode:
        assert "not enough memory" in ran.stderr or "no more threads" in ran.stderr
    assert holdfast("run", "papers.py", "docs").exit_code == 0
    assert _balance(holdfast) == {"done": 2, "dead": 0, "running": 0, "waiting": 0}


def test_a_store_without_memory_ends_the_worker_and_costs_no_document_anything(holdfast: Run, folder: Path) -> None:
    (folder / "greedy.py").write_text(GREEDY)
    (folder / "low").touch()
    ran = _limited("true", "run", "greedy.py", "docs")
    assert ran.returncode == 5, ran.stderr
    assert "there is not enough memory" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert _balance(holdfast) == {"done": 0, "dead": 0, "running": 0, "waiting": 2}, "its documents are given back"
    assert json.loads(holdfast("show", "docs/a.txt", "--json").stdout)["crashes"] == 0
    (folder / "low").unlink()
    assert holdfast("run", "greedy.py", "docs").exit_code == 0
    assert _balance(holdfast) == {"done": 2, "dead": 0, "running": 0, "waiting": 0}
