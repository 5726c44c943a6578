"""Run one test of our own with a mutant, to see whether it finds it.

`python -m tests.simulation.pytest_runner MISTAKE` is a process of its own: the test has its own servers, and nothing of
the mutant stays.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONS = ("-q", "-x", "-n0", "--no-header", "-p", "no:cacheprovider")


def find_failure(test: str, mistake: str) -> str:
    """Run a test, `tests/stores/test_sqlite.py::test_x`, with a mutant. Return why it failed; empty if it passed."""
    command = [sys.executable, "-m", "tests.simulation.pytest_runner", mistake]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == pytest.ExitCode.OK:
        return ""
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, f"{test} did not run: {done.stdout}{done.stderr}"
    summary = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    return f"{test.rpartition('::')[2]}: {summary[0] if summary else 'failed'}"


def main(mistake: str) -> int:
    """Apply a mutant and run the test that has to find it."""
    from tests.simulation.mutants import MUTANTS, applied

    mutant = next(mutant for mutant in MUTANTS if mutant.mistake == mistake)
    with applied(mutant):
        return pytest.main([*OPTIONS, mutant.test])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
