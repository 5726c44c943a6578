from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

FILED = """
import pathlib
import holdfast

filed = holdfast.Pipeline("filed")


@filed.step
def write(doc):
    pathlib.Path(doc.key).with_suffix(".out").write_text("x")


@write.verify
def is_there(doc):
    if "odd" in doc.key:
        raise OSError("cannot look")
    return pathlib.Path(doc.key).with_suffix(".out").exists()
"""


@pytest.fixture
def filed(holdfast: Run, folder: Path) -> Path:
    (folder / "filed.py").write_text(FILED)
    assert holdfast("run", "filed.py", "docs").exit_code == 0
    return folder / "docs"


def test_results_that_exist_are_fine(holdfast: Run, filed: Path) -> None:
    result = holdfast("pipeline", "verify", "filed.py")
    assert result.exit_code == 0
    assert "checked 2 documents with 2 checks in" in result.stdout
    assert "2 fine" in result.stdout


def test_missing_results_are_shown_and_redone_by_the_next_run(holdfast: Run, filed: Path) -> None:
    (filed / "a.out").unlink()
    result = holdfast("pipeline", "verify", "filed.py", "--who", "ann")
    assert result.exit_code == 1
    assert "1 fine, 1 gone and to be redone" in result.stdout
    assert "default/docs/a.txt at write, rewound: the work of write is gone" in result.stdout
    assert "holdfast run filed.py" in result.stdout
    assert holdfast("run", "filed.py").exit_code == 0
    assert (filed / "a.out").exists()
    assert holdfast("pipeline", "verify", "filed.py").exit_code == 0
    assert "(by ann)" in holdfast("show", "docs/a.txt").stdout


def test_a_verify_that_raises_is_shown_and_ends_with_1(holdfast: Run, filed: Path) -> None:
    (filed / "odd.txt").write_text("x")
    holdfast("run", "filed.py", "docs")
    result = holdfast("pipeline", "verify", "filed.py")
    assert result.exit_code == 1
    assert "1 could not be checked" in result.stdout
    assert "docs/odd.txt at write, error: OSError: cannot look" in result.stdout


def test_a_sample_can_be_drawn_again(holdfast: Run, filed: Path) -> None:
    said = json.loads(holdfast("pipeline", "verify", "filed.py", "--sample", "1", "--json").stdout)
    assert (said["documents"], said["fine"]) == (1, 1)
    again = holdfast("pipeline", "verify", "filed.py", "--sample", "1", "--seed", str(said["seed"]))
    assert f"the same sample again: --seed {said['seed']}" in again.stdout
    assert "2 documents" in holdfast("pipeline", "verify", "filed.py", "--sample", "100%").stdout
    assert holdfast("pipeline", "verify", "filed.py", "--key", "*a.txt", "--json").stdout.count('"documents":1')


@pytest.mark.parametrize("sample", ["0", "0%", "200%", "some"])
def test_an_impossible_sample_is_refused(holdfast: Run, filed: Path, sample: str) -> None:
    assert holdfast("pipeline", "verify", "filed.py", "--sample", sample).exit_code == 2


def test_a_pipeline_without_a_verify_says_so(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("pipeline", "verify", "papers.py")
    assert (result.exit_code, "no step has a verify" in result.stdout) == (0, True)


def test_an_unknown_batch_is_refused(holdfast: Run, filed: Path) -> None:
    result = holdfast("pipeline", "verify", "filed.py", "--batch", "defualt")
    assert result.exit_code == 2
    assert "did you mean 'default'?" in result.stderr


def test_a_sample_that_is_no_number_is_refused(holdfast: Run, filed: Path) -> None:
    for sample in ("nan%", "0%", "-1", "200%"):
        assert (
            "a sample is at least 1 document" in holdfast("pipeline", "verify", "filed.py", "--sample", sample).output
        )
