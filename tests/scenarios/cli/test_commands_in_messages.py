"""Every suggested command can be pasted: it has the store, the batch and a reason, and is quoted."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import submit
from holdfast.cli.pipeline_loader import load_pipeline
from holdfast.stores.sqlite import SqliteStore
from tests.cli.commands.batch.test_reconcile import CLOSING
from tests.cli.conftest import PAPERS, Run

STORE = ("--store", "sqlite:///other.db")
COMMAND = re.compile(r"`(holdfast [^`]+)`|^.*?(?<!`)\b(holdfast (?:(?!   #).)+)", re.MULTILINE)
KEYS = ("-bad", "bad one", "-fine", "a fine one")


@pytest.fixture
def two_batches(folder: Path) -> None:
    """The same four keys in two batches; two of them become dead letters."""
    (folder / "papers.py").write_text(PAPERS + CLOSING)
    with closing(SqliteStore("sqlite:///other.db")) as store:
        for batch in ("march", "april"):
            submit(load_pipeline("papers.py").pipeline, store, batch=batch, documents=[(key, None) for key in KEYS])


def pasted(holdfast: Run, *words: str) -> list[str]:
    """Run a command, then each command that it suggests, each in a fresh copy of the store. Return the commands."""
    told = holdfast(*STORE, *words)
    said = told.stdout + told.stderr
    commands = [quoted or plain for quoted, plain in COMMAND.findall(said)]
    commands = [command.replace("work PIPELINE.py", "work --help") for command in commands]  # it would not end
    shutil.copy("other.db", "before.db")
    for command in commands:
        result = holdfast(*shlex.split(command.replace("PIPELINE.py", "papers.py"))[1:])
        assert result.exit_code in (0, 1), f"{command}\n{result.stderr}"
        assert "there is no" not in result.stderr, command
        restore()
    return commands


def restore() -> None:
    for beside in ("other.db-wal", "other.db-shm"):
        Path(beside).unlink(missing_ok=True)
    shutil.copy("before.db", "other.db")
    for capsule in Path.cwd().glob("*.capsule.json"):
        capsule.unlink()


def verbs(commands: list[str]) -> list[str]:
    """Return the verb of each command: the first word, or the second one for commands in the groups `doc`, `batch`."""
    words = [shlex.split(command)[1:3] for command in commands]
    return [two[1] if two[0] in ("doc", "batch", "pipeline") else two[0] for two in words]


def test_what_a_run_advises_can_be_pasted(holdfast: Run, two_batches: None) -> None:
    assert verbs(pasted(holdfast, "run", "papers.py", "--batch", "march")) == ["show", "dead", "run"]


def test_what_is_advised_about_dead_letters_can_be_pasted(holdfast: Run, two_batches: None) -> None:
    holdfast("run", "papers.py", *STORE)
    assert verbs(pasted(holdfast, "status")) == ["show"]
    assert verbs(pasted(holdfast, "dead", "list", "--pipeline", "papers")) == ["dead"] * 3
    assert verbs(pasted(holdfast, "batch", "close", "papers.py", "march")) == ["seal", "dead", "dead"]
    assert "close" in verbs(pasted(holdfast, "batch", "cleanup", "--stale", "1ms"))
    assert verbs(pasted(holdfast, "explain", "--pipeline", "papers", "--batch", "march")).count("dead") == 3
    for key in KEYS:
        assert "show" in verbs(pasted(holdfast, "explain", "--pipeline", "papers", "--batch", "march", "--", key))


def test_what_is_advised_about_open_documents_can_be_pasted(holdfast: Run, two_batches: None) -> None:
    assert verbs(pasted(holdfast, "batch", "close", "papers.py", "march")) == ["seal", "explain"]
    assert "cancel" in verbs(pasted(holdfast, "batch", "cleanup", "--stale", "1ms"))
    assert "explain" in verbs(pasted(holdfast, "explain", "--pipeline", "papers", "--batch", "march"))
    one = ("--pipeline", "papers", "--batch", "march", "--", "-fine")
    assert "priority" in verbs(pasted(holdfast, "explain", *one))
    holdfast("doc", "pause", *STORE, "--reason", "wait", *one)
    assert "resume" in verbs(pasted(holdfast, "explain", *one))
    assert verbs(pasted(holdfast, "doc", "resume", "--pipeline", "papers", "--all", "--reason", "on")) == []


def test_what_is_advised_about_a_damaged_document_can_be_pasted(holdfast: Run, two_batches: None) -> None:
    with closing(sqlite3.connect("other.db")) as db:
        db.execute("update hf_document set cursor = 'no json' where key = '-fine'")
        db.commit()
    holdfast("run", "papers.py", *STORE)
    assert verbs(pasted(holdfast, "review", "list")) == ["show", "rewind"]
    one = ("--pipeline", "papers", "--batch", "march", "--", "-fine")
    assert verbs(pasted(holdfast, "explain", *one)) == ["show", "rewind"]


def test_what_is_advised_about_closing_steps_can_be_pasted(holdfast: Run, two_batches: None, folder: Path) -> None:
    (folder / "no-mail").touch()
    holdfast("run", "papers.py", *STORE)
    close = ("batch", "close", "papers.py", "march", "--seal", "--tolerate", "1")
    assert verbs(pasted(holdfast, *close)) == ["show", "dead", "close", "reconcile"]
    assert verbs(pasted(holdfast, "status")) == ["dead", "close", "show"]
    assert verbs(pasted(holdfast, "batch", "cleanup", "--dry-run")) == ["dead", "close"]
    assert "close" in verbs(pasted(holdfast, "explain", "--pipeline", "papers", "--batch", "march"))
    assert "dead" in verbs(pasted(holdfast, "explain", "--pipeline", "papers.closing", "march"))


def test_which_one_is_meant_can_be_pasted(holdfast: Run, two_batches: None) -> None:
    for key in KEYS:
        assert verbs(pasted(holdfast, "show", "--", key)) == ["show", "show"]
        assert verbs(pasted(holdfast, "explain", "--", key)) == ["explain", "explain"]
        assert verbs(pasted(holdfast, "pipeline", "debug", "papers.py", "--", key)) == ["debug", "debug"]


def test_what_is_advised_to_debug_a_dead_letter_can_be_pasted(holdfast: Run, two_batches: None) -> None:
    holdfast("run", "papers.py", *STORE)
    assert verbs(pasted(holdfast, "pipeline", "debug", "papers.py", "--batch", "march", "--", "-bad")) == ["debug"]


def test_where_a_capsule_is_loaded_can_be_pasted(holdfast: Run, two_batches: None, folder: Path) -> None:
    where = ("--pipeline", "papers", "--batch", "march", "-o", "my bad.json", "--", "-bad")
    (command,) = pasted(holdfast, "doc", "pack", *where)
    assert "'my bad.json'" in command
