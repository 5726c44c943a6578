from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Start


@pytest.fixture
def bad(holdfast: Run, folder: Path) -> str:
    """A dead letter."""
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    return "docs/bad.txt"


def test_a_waiting_document_is_run_to_its_end(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    result = holdfast("pipeline", "debug", "papers.py", "docs/a.txt")
    assert (result.exit_code, result.stdout) == (0, "docs/a.txt is done\n")
    assert json.loads(holdfast("show", "docs/b.txt", "--json").stdout)["state"] == "waiting"


def test_a_dead_letter_is_refused_with_the_way_to_redrive_it(holdfast: Run, bad: str) -> None:
    result = holdfast("pipeline", "debug", "papers.py", bad)
    assert result.exit_code == 2
    assert "is a dead letter (ValueError: docs/bad.txt is not readable)" in result.stderr
    assert f"holdfast pipeline debug papers.py {bad} --batch default --redrive" in result.stderr
    assert json.loads(holdfast("show", bad, "--json").stdout)["state"] == "dead"


def test_it_is_redriven_in_somebodys_name(holdfast: Run, bad: str) -> None:
    result = holdfast("pipeline", "debug", "papers.py", bad, "--redrive", "--who", "ann", "--reason", "look")
    assert result.exit_code == 1
    assert "docs/bad.txt is dead at step judge: ValueError" in result.stdout
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith("in judge"), "the first frame is the body's own"
    journal = json.loads(holdfast("show", bad, "--json").stdout)["journal"]
    assert (journal[-2]["verb"], journal[-2]["who"]) == ("redrive", "ann")
    assert journal[-1]["who"].startswith("ann-debugging-")


def test_the_debugger_opens_where_the_error_was_raised(start: Start, bad: str, folder: Path) -> None:
    process = start("pipeline", "debug", "papers.py", bad, "--redrive", "--pdb", stdin=subprocess.PIPE)
    told, _ = process.communicate("p doc.key + '!'\nq\n", timeout=60)
    assert f"'{folder}/docs/bad.txt!'" in told
    assert process.returncode == 1


def test_leaving_a_breakpoint_gives_the_document_back(holdfast: Run, start: Start, folder: Path) -> None:
    papers = folder / "papers.py"
    papers.write_text(papers.read_text().replace("return len(", "breakpoint()\n    return len("))
    holdfast("submit", "papers.py", "docs/a.txt")
    process = start("pipeline", "debug", "papers.py", "docs/a.txt", stdin=subprocess.PIPE)
    told, _ = process.communicate("p doc.key + '!'\nq\n", timeout=60)
    assert f"'{folder}/docs/a.txt!'" in told
    assert "docs/a.txt is waiting at step judge: the debugger was quit" in told
    here = json.loads(holdfast("show", "docs/a.txt", "--json").stdout)
    assert (here["state"], here["attempts"], here["journal"][-1]["verb"]) == ("waiting", 0, "release")


def test_a_corrected_pipeline_finishes_the_document(holdfast: Run, folder: Path, bad: str) -> None:
    papers = folder / "papers.py"
    papers.write_text(papers.read_text().replace('"bad" in name', "False"))
    result = holdfast("pipeline", "debug", "papers.py", bad, "--redrive", "--json")
    assert result.exit_code == 0
    end = {"key": f"{folder}/{bad}", "state": "done", "step": None, "reason": "", "recoverable": None, "errors": 0}
    assert json.loads(result.stdout) == end


def test_a_capsule_is_debugged_elsewhere(holdfast: Run, bad: str) -> None:
    new = ("--store", "sqlite:///new.db")
    holdfast("doc", "pack", bad)
    holdfast("doc", "load", "bad.txt.capsule.json", "--redrive", *new)
    assert holdfast("pipeline", "debug", "papers.py", bad, *new).exit_code == 1
    assert json.loads(holdfast("show", bad, "--json", *new).stdout)["state"] == "dead"


def test_a_document_that_a_body_rejected_ends_the_command_badly(holdfast: Run, folder: Path) -> None:
    papers = folder / "papers.py"
    papers.write_text(papers.read_text().replace("return len(", "raise holdfast.Reject('not ours')\n    return len("))
    holdfast("submit", "papers.py", "docs/a.txt")
    result = holdfast("pipeline", "debug", "papers.py", "docs/a.txt")
    assert (result.exit_code, "is dead at step judge: " in result.stdout) == (1, True)
