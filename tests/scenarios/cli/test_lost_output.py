"""A stdout that is closed or full, or whose reader has ended: a sentence, the right exit code, and no lost work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")

LOUD = """
import holdfast

loud = holdfast.Pipeline("loud")


@loud.step(retry=holdfast.Retry(attempts=1))
def shout(doc):
    for _ in range(100):
        print("working on", doc.key, flush=True)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What every command does with every kind of stdout."""
    from tests.cli.conftest import PAPERS

    folder = tmp_path_factory.mktemp("lost")
    (folder / "papers.py").write_text(PAPERS)
    (folder / "loud.py").write_text(LOUD)
    (folder / "docs").mkdir()
    for name in ("a.txt", "b.txt", "bad.txt"):
        (folder / "docs" / name).write_text(name)
    program = Path(__file__).with_name("every_command.py")
    ran = subprocess.run(
        [sys.executable, str(program)], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    results: list[dict[str, Any]] = json.loads(ran.stdout)
    return results


def test_no_command_shows_a_traceback(found: list[dict[str, Any]]) -> None:
    noise = ("Traceback", "Exception ignored", "BrokenPipeError", "Errno")
    assert [one for one in found if any(word in one["stderr"] for word in noise)] == []


def test_lost_output_has_its_own_exit_code_and_a_failure_keeps_its_own(found: list[dict[str, Any]]) -> None:
    good = {tuple(one["args"]): one["code"] for one in found if one["stdout"] == "good"}
    assert set(good.values()) <= {0, 1, 2, 3}
    assert 1 in good.values()
    lost = {"full": 5, "closed": 5, "broken pipe": 141}
    wrong = [
        one
        for one in found
        if one["stdout"] != "good" and one["code"] != (good.get(tuple(one["args"]), 0) or lost[one["stdout"]])
    ]
    assert wrong == []


def test_lost_output_is_said_on_stderr_unless_its_reader_has_ended(found: list[dict[str, Any]]) -> None:
    for one in found:
        if one["code"] == 5:
            assert "stdout cannot be written" in one["stderr"], one
        if one["code"] == 141:
            assert "stdout cannot be written" not in one["stderr"], one


def test_every_command_was_run(found: list[dict[str, Any]]) -> None:
    from holdfast.cli.app import every_command

    asked = {" ".join(one["args"][:-1]) for one in found if one["args"][-1] == "--help"}
    assert asked == {"", *every_command()}
    assert len({tuple(one["args"]) for one in found if one["args"][-1] != "--help"}) > 25


@pytest.mark.parametrize("redirect", ["> /dev/full", ">&-", "| head -c 1"])
def test_work_goes_on_without_output_and_bodies_that_print_do_not_fail(
    holdfast: Run, folder: Path, redirect: str
) -> None:
    (folder / "loud.py").write_text(LOUD)
    command = f"{sys.executable} -m holdfast run loud.py docs {redirect}; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == (141 if "head" in redirect else 5)
    assert "Traceback" not in ran.stderr
    (batch,) = json.loads(holdfast("status", "--json").stdout)["pipelines"][0]["batches"]
    assert (batch["done"], batch["dead"]) == (2, 0)


def test_closed_descriptors_are_not_given_to_a_database(folder: Path) -> None:
    """If descriptor 1 were free, the next file would get it, and what is printed would be written into that file."""
    (folder / "loud.py").write_text(LOUD.replace("print(", "__import__('os').write(1, b'x'); print("))
    command = f"{sys.executable} -m holdfast run loud.py docs <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], timeout=120, check=False).returncode == 5
    for file in folder.glob("holdfast.db-*"):
        assert file.read_bytes().strip(b"x") == file.read_bytes(), f"{file} was printed into"
