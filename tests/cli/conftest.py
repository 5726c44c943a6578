"""A folder with a pipeline, and two ways to run the command line: in this process, and in its own process."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.app import app

PAPERS = """
import os

import holdfast

papers = holdfast.Pipeline("papers")
ONCE = holdfast.Retry(attempts=1)


@papers.step
def extract(doc, cursor=0):
    for number in range(cursor, 5):
        yield {"number": number}


@papers.step(retry=ONCE)
def judge(doc):
    name = os.path.relpath(doc.key)
    if "bad" in name:
        raise ValueError(f"{name} is not readable")
    return len(doc.output(extract))
"""


def sql(statement: str) -> list[tuple[object, ...]]:
    """Run a statement on the store of the folder. Return its rows."""
    with closing(sqlite3.connect("holdfast.db")) as db:
        rows = db.execute(statement).fetchall()
        db.commit()
        return rows


Run = Callable[..., Result]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: papers.py, and docs/ with a.txt and b.txt."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_STORE", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "papers.py").write_text(PAPERS)
    (tmp_path / "docs").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "docs" / name).write_text(name)
    return tmp_path


@pytest.fixture
def holdfast(folder: Path) -> Run:
    """Run the command line in this process."""

    def run(*words: str, stdin: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(app, list(words), input=stdin, prog_name="holdfast")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def start(folder: Path) -> Start:
    """Start the command line in its own process."""

    def run(*words: str, **more: object) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "holdfast", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment, **more)  # type: ignore[call-overload]

    return run
