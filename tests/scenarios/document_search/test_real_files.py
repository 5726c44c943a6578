"""Real files, many broken on purpose: each ends with pages or with a reason, with little memory and time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DATA = Path(os.environ.get("HOLDFAST_DATA", ROOT.parent / "shared" / "data"))
SENSIBLE = re.compile(r"encrypted; remove the password|broken: .+")


@pytest.mark.timeout(300)  # half a minute of work, on a machine that may have much else to do
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
@pytest.mark.skipif(find_spec("tesserocr") is None, reason="no wheel of tesserocr for this Python")
@pytest.mark.parametrize(
    ("folder", "every", "rejected"),
    [("docx-docling", 1, 0), ("eml", 1, 0), ("pdf-torture", 1, 10), ("receipts", 12, 0)],
)
def test_every_file_ends_with_pages_or_a_sensible_reason(folder: str, every: int, rejected: int) -> None:
    if not (DATA / folder).is_dir():
        pytest.skip(f"{folder} is not here; HOLDFAST_DATA names the folder that has it")
    walk = [
        sys.executable,
        "-m",
        "tests.scenarios.document_search.read_folder",
        str(DATA / folder),
        "--every",
        str(every),
    ]
    done = subprocess.run(walk, cwd=ROOT, capture_output=True, text=True, check=True)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert outcomes
    assert not [one for one in outcomes if "failed" in one]
    reasons = [one["rejected"] for one in outcomes if "rejected" in one]
    assert all(SENSIBLE.fullmatch(reason) for reason in reasons)
    assert len(reasons) <= rejected
    assert all(one["pages"] >= 1 for one in outcomes if "pages" in one)
