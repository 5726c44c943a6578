"""Measuring files: one that crashes or hangs is told of, and nobody else is blamed or waits for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="document search needs the extra rag")

PROGRAM = """
import os, sys, time
from holdfast.pipelines.rag import measuring
from holdfast.pipelines.rag.splitters import Splitting

def measure(location, splitting):
    if "crash" in location:
        time.sleep(0.3)
        os.abort()
    if "slow" in location:
        time.sleep(1)
    if "hangs" in location:
        time.sleep(600)
    return measuring.guess(1, splitting)

if __name__ == "__main__":
    measuring.measure = measure
    measuring.TOO_FAR = 3
    for key, found in measuring.measured([(name, name) for name in sys.argv[1:]], Splitting()):
        print(key, found if isinstance(found, str) else "measured")
"""


def test_who_crashes_or_hangs_is_told_of_and_the_others_are_measured(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    names = ["slow", "crash", "fine", "hangs", "last"]
    said = subprocess.run(
        [sys.executable, str(program), *names], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    blamed = "its pages could not be counted; it may be broken or hostile"
    assert said.splitlines() == [
        "slow measured",
        f"crash {blamed}",
        "fine measured",
        f"hangs {blamed}",
        "last measured",
    ]
