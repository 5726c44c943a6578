"""Rewording a reason changes nothing but what people read.

A part of the suite runs again with other sentences for all reasons. Only tests of the wording itself are left out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEMORY = "not sqlite and not postgres"
REASONS = (
    "orphan or reclaim or gate or damaged or unknown_step or rewind or wake or order or pause or resume or verified"
)
REMOVAL = "delet or remov or forg or moved or gone or attach or back or elsewhere"
PARTS = {
    "stores": ("tests/stores/test_conformance.py", "-k", f"TestMemory and ({REASONS})"),
    "operations": (
        "tests/ops/test_verify.py",
        "tests/ops/test_explain.py",
        "tests/ops/test_maintenance_scan.py",
        "-k",
        MEMORY,
    ),
    "decisions": ("tests/scenarios/test_human_decisions.py", "tests/scenarios/test_free_text_reasons.py"),
    "lost results": (
        "tests/scenarios/test_lost_step_results.py",
        "tests/scenarios/test_renamed_steps.py",
        "-k",
        MEMORY,
    ),
    "damaged checkpoints": ("tests/scenarios/test_damaged_checkpoints.py", "-k", "sqlite and (parked or repairs)"),
    "removed documents": (
        "tests/pipelines/rag/collections/test_library.py",
        "tests/pipelines/rag/ingest",
        "-k",
        REMOVAL,
    ),
}
"""Parts of the suite in which code acts on reasons, as arguments of pytest."""


@pytest.mark.parametrize("part", PARTS)
def test_the_suite_passes_with_other_sentences(part: str) -> None:
    if part == "removed documents":
        pytest.importorskip("numpy", reason="document search needs the extra rag")
    options = ("-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "tests.support.reworded_reasons")
    command = [sys.executable, "-m", "pytest", *options, *PARTS[part]]
    ran = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]


def test_the_plugin_rewords_and_leaves_out_tests_of_the_wording() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "tests/core/test_reasons.py"]
    reworded = subprocess.run(
        [*command, "-p", "tests.support.reworded_reasons"],
        cwd=ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert reworded.returncode == 0, reworded.stdout
    counted = re.search(r"(\d+) deselected", reworded.stdout)
    assert counted is not None
    assert int(counted[1]) >= 16, reworded.stdout
    code = "from tests.support.reworded_reasons import reword_all; from holdfast.core import reasons; reword_all(); "
    code += "print(reasons.sentence(reasons.WORKER_GONE, worker='ann'))"
    text = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert text == "another text for WORKER_GONE: <ann>\n"


def _environment() -> dict[str, str]:
    """Return the environment without the variables by which pytest-xdist tells a process that it is a worker."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
