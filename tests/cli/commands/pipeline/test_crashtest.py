from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Start

MISTAKEN = """
import holdfast

sums = holdfast.Pipeline("sums")

def documents():
    yield "one", None

@sums.step
def add_up(doc, cursor=0):
    total = 0
    for number in range(cursor, 3):
        total += number
        yield total
"""


def test_a_pipeline_with_a_mistake_gives_exit_code_1_and_the_place(start: Start, folder: Path) -> None:
    (folder / "sums.py").write_text(MISTAKEN)
    process = start("pipeline", "crashtest", "sums.py")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "of step 'add_up'" in out
    assert not (folder / "holdfast.db").exists()


def test_a_pipeline_without_one_passes_and_says_so_in_json(start: Start) -> None:
    process = start("pipeline", "crashtest", "papers.py", "docs/a.txt", "--point", "2", "--json")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert json.loads(out)["passed"] is True


def test_without_documents_it_says_how_to_give_some(start: Start) -> None:
    process = start("pipeline", "crashtest", "papers.py")
    _, error = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "write a function documents() in papers.py" in error
