"""`holdfast serve`: a real process that answers requests and ends on a signal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.conftest import Run, Start

pytest.importorskip("numpy", reason="document search needs the extra rag")
pytest.importorskip("starlette", reason="serving needs the extra web")


@pytest.fixture
def letters(folder: Path, holdfast: Run) -> None:
    (folder / "letters").mkdir()
    (folder / "letters" / "tides.txt").write_text("The spring tide comes twice a month.")
    holdfast("collection", "create", "documents", "--embedder", "hash:64")
    assert holdfast("ingest", "letters").exit_code == 0


@contextmanager
def serving(start: Start) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = start("serve", "--port", "0")
    try:
        assert process.stderr is not None
        told = re.match(
            r"Search is served at (http://127\.0\.0\.1:\d+/); stop it with Ctrl-C\.", process.stderr.readline()
        )
        assert told is not None
        yield process, told[1]
    finally:
        process.kill()
        process.communicate(timeout=30)


def found(url: str) -> list[str]:
    with urlopen(f"{url}search?q=spring+tide", timeout=30) as answer:
        return [one["key"] for one in json.load(answer)["found"]]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_answers_until_a_signal(letters: None, start: Start, number: signal.Signals, code: int) -> None:
    with serving(start) as (process, url):
        assert found(url) == ["tides.txt"]
        process.send_signal(number)
        assert process.wait(timeout=30) == code
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_several_processes_serve_one_store(letters: None, start: Start) -> None:
    with serving(start) as (_, one), serving(start) as (_, other):
        assert found(one) == found(other) == ["tides.txt"]


def test_a_port_that_is_taken_is_a_sentence(letters: None, start: Start, holdfast: Run) -> None:
    with serving(start) as (_, url):
        said = holdfast("serve", "--port", url.rstrip("/").rpartition(":")[2])
    assert said.exit_code == 2
    assert "search cannot be served at 127.0.0.1:" in said.output


def test_a_store_that_is_not_there_is_not_made(folder: Path, holdfast: Run) -> None:
    assert holdfast("serve").exit_code == 3
    assert not (folder / "holdfast.db").exists()


def test_without_the_extra_it_says_what_to_install(letters: None) -> None:
    code = "import sys; sys.modules['uvicorn'] = None\nfrom holdfast.cli.app import app\napp(['serve'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "pip install 'holdfast-pipelines[web]'" in done.stderr
