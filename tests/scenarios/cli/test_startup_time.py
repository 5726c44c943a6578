"""--version and --help are fast, because they import little."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("rich", "psycopg", "asyncio", "sqlite3", "logging", "opentelemetry", "prometheus_client")


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_nothing_heavy_is_imported(word: str) -> None:
    code = (
        f"import sys; sys.argv = ['holdfast', {word!r}]\n"
        "from holdfast.cli import main\n"
        f"try: main()\nexcept SystemExit: print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_a_run_in_a_pipe_does_without_rich(folder: object) -> None:
    code = (
        "import sys; sys.argv = ['holdfast', 'run', 'papers.py', 'docs']\n"
        "from holdfast.cli import main\n"
        "try: main()\nexcept SystemExit: print([name for name in ('rich', 'psycopg') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_the_package_itself_can_be_run() -> None:
    command = [sys.executable, "-m", "holdfast", "--version"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.startswith("holdfast ")
