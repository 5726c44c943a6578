"""The public types, as a strict checker sees them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

mypy = pytest.importorskip("mypy.api", reason="mypy is not installed")

HERE = Path(__file__).parent
STRICT = ["--strict", "--no-incremental", "--cache-dir=/dev/null", "--config-file="]


def test_output_has_the_type_that_the_body_gives() -> None:
    said, _, code = mypy.run([*STRICT, str(HERE / "sample.py")])
    assert code == 0, said


def test_wrong_use_is_an_error() -> None:
    said, _, _ = mypy.run([*STRICT, str(HERE / "wrong.py")])
    found = {(int(line), kind) for line, kind in re.findall(r":(\d+): error: .*\[([\w-]+)\]", said)}
    lines = (HERE / "wrong.py").read_text().splitlines()
    wanted = {(n, m[1]) for n, text in enumerate(lines, 1) if (m := re.search(r"# wrong: ([\w-]+)", text))}
    assert wanted <= found, said
