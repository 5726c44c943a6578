"""Problems with a store on the command line: one message, exit code 3, and nothing is lost."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Start


def told(result: object, *, code: int = 3) -> str:
    assert result.exit_code == code  # type: ignore[attr-defined]
    text: str = result.stderr  # type: ignore[attr-defined]
    assert text.startswith("Error: ")
    assert "Traceback" not in text
    return text


def schema(folder: Path, version: int) -> None:
    with sqlite3.connect(folder / "holdfast.db") as db:
        db.execute("insert into hf_schema (version, migrated_at) values (?, 0)", (version,))
    db.close()


@pytest.mark.parametrize("words", [("run", "papers.py"), ("status",), ("store", "migrate"), ("show", "x")])
def test_a_newer_schema_is_refused(holdfast: Run, folder: Path, words: tuple[str, ...]) -> None:
    holdfast("run", "papers.py", "docs")
    schema(folder, 99)
    assert "newer than" in told(holdfast(*words))


def test_an_older_schema_is_refused_until_it_is_migrated(holdfast: Run, folder: Path) -> None:
    from holdfast.stores.sqlite import store

    holdfast("store", "migrate")
    older = store.MIGRATIONS
    newer = [*older, (older[-1][0] + 1, "create table hf_later (id integer primary key)")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "MIGRATIONS", newer)
        patch.setattr(store, "NEWEST", newer[-1][0])
        assert "run `holdfast store migrate`" in told(holdfast("status"))
        assert f"ran migration {newer[-1][0]}" in holdfast("store", "migrate").stdout
        assert holdfast("status").exit_code == 0
        assert "up to date" in holdfast("store", "migrate").stdout


def test_what_is_not_a_database_is_refused(holdfast: Run, folder: Path) -> None:
    (folder / "holdfast.db").write_text("these are not the bytes of a database, but a letter to it " * 20)
    assert "not a SQLite database" in told(holdfast("run", "papers.py", "docs"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://host/x", "no store has the scheme 'mysql'"),
        ("sqlite:///nowhere/x.db", "there is no folder nowhere"),
        ("sqlite:x.db", "names no file"),
    ],
)
def test_a_wrong_url_is_refused(holdfast: Run, url: str, words: str) -> None:
    assert words in told(holdfast("run", "papers.py", "docs", "--store", url))


@pytest.mark.parametrize("command", [("status",), ("submit", "papers.py", "docs"), ("work", "papers.py", "--drain")])
def test_memory_is_refused_where_it_would_be_forgotten(holdfast: Run, command: tuple[str, ...]) -> None:
    assert "memory:// is lost" in told(holdfast(*command, "--store", "memory://"), code=2)


def test_debug_shows_the_traceback(holdfast: Run) -> None:
    result = holdfast("--debug", "run", "papers.py", "--store", "mysql://x")
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")


AS_NOBODY = """
import os, sys
import holdfast.cli, holdfast.stores.sqlite  # before the right to read files is dropped
from holdfast.cli.app import every_command; every_command()
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.argv = ["holdfast", *sys.argv[1:]]
holdfast.cli.main()
"""


@pytest.fixture
def read_only_folder(holdfast: Run, folder: Path) -> Iterator[Path]:
    """A folder with a store that everyone can read and only root can write."""
    holdfast("submit", "papers.py", "docs")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for path in (folder / "papers.py", *folder.glob("holdfast.db*")):
            shutil.copy(path, place)
            (place / path.name).chmod(0o444)
        place.chmod(0o555)
        yield place
        place.chmod(0o755)


@pytest.mark.parametrize("words", [("run", "papers.py"), ("submit", "papers.py", "papers.py")])
def test_a_read_only_database_is_reported(read_only_folder: Path, words: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", AS_NOBODY, *words]
    ended = subprocess.run(command, cwd=read_only_folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 3, ended
    assert "cannot be written" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_disk_that_takes_no_more_stops_the_run_and_nothing_is_lost(start: Start, holdfast: Run, folder: Path) -> None:
    (folder / "big.py").write_text(
        "import holdfast, os\nbig = holdfast.Pipeline('big')\n@big.step\ndef fill(doc, cursor=0):\n"
        "    for number in range(cursor, 40):\n        yield os.urandom(50_000)\n"
    )
    holdfast("submit", "big.py", "docs")
    limit = sum(path.stat().st_size for path in folder.glob("holdfast.db*")) + 500_000

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    process = start("run", "big.py", preexec_fn=small_disk)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "Traceback" not in error
    assert "continue with: holdfast run big.py" in error
    assert "2 documents done" in holdfast("run", "big.py").stdout
