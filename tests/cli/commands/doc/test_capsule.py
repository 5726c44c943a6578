from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

MENDED = "if 'bad' in name and False:"


@pytest.fixture
def dead(holdfast: Run, folder: Path) -> Path:
    """A dead letter in holdfast.db, packed into bad.txt.capsule.json."""
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    result = holdfast("doc", "pack", "docs/bad.txt")
    assert result.exit_code == 0
    assert "packed docs/bad.txt (dead) into bad.txt.capsule.json" in result.stdout
    return folder / "bad.txt.capsule.json"


NEW = ("--store", "sqlite:///new.db")


def test_a_dead_letter_loads_as_a_dead_letter_with_its_journal(holdfast: Run, dead: Path) -> None:
    loaded = holdfast("doc", "load", dead.name, *NEW)
    assert loaded.exit_code == 0
    assert "loaded docs/bad.txt of pipeline papers, dead, with 5 items" in loaded.stdout
    told = json.loads(holdfast("show", "docs/bad.txt", "--items", "--json", *NEW).stdout)
    original = json.loads(holdfast("show", "docs/bad.txt", "--items", "--json").stdout)
    assert told["journal"].pop()["verb"] == "load"
    elsewhere = {"id": 0, "worked_by": None}  # its worker did not come along; the journal has its name
    assert told | {"id": 0} == original | elsewhere
    assert "load      at judge: from a capsule that holdfast" in holdfast("show", "docs/bad.txt", *NEW).stdout
    assert "1 = 0 + 1" in " ".join(holdfast("status", *NEW).stdout.split())


def test_it_runs_there_when_it_is_redriven(holdfast: Run, dead: Path, folder: Path) -> None:
    loaded = holdfast("doc", "load", dead.name, "--redrive", "--who", "ann", "--reason", "mended", *NEW)
    assert "waiting" in loaded.stdout
    papers = folder / "papers.py"
    papers.write_text(papers.read_text().replace('if "bad" in name:', MENDED))
    assert holdfast("run", "papers.py", *NEW).exit_code == 0
    told = json.loads(holdfast("show", "docs/bad.txt", "--json", *NEW).stdout)
    assert told["state"] == "done"
    line = next(line for line in told["journal"] if line["verb"] == "redrive")
    assert (line["who"], line["detail"]["reason"]) == ("ann", "mended")


def test_a_store_that_is_not_empty_takes_no_capsule_in(holdfast: Run, dead: Path) -> None:
    before = holdfast("status", "--json").stdout
    result = holdfast("doc", "load", dead.name)
    assert result.exit_code == 2
    assert "sqlite:///holdfast.db is not empty" in result.stderr
    assert holdfast("status", "--json").stdout == before


def test_a_capsule_is_loaded_once(holdfast: Run, dead: Path) -> None:
    assert holdfast("doc", "load", dead.name, *NEW).exit_code == 0
    assert holdfast("doc", "load", dead.name, *NEW).exit_code == 2


def test_a_file_that_is_no_capsule_makes_no_store(holdfast: Run, folder: Path) -> None:
    result = holdfast("doc", "load", "papers.py", *NEW)
    assert result.exit_code == 2
    assert "this is not a valid capsule" in result.stderr
    assert not (folder / "new.db").exists()


def test_a_file_that_is_there_is_not_overwritten(holdfast: Run, dead: Path) -> None:
    before = dead.read_bytes()
    result = holdfast("doc", "pack", "docs/bad.txt")
    assert result.exit_code == 2
    assert "exists already" in result.stderr
    assert dead.read_bytes() == before
    assert holdfast("doc", "pack", "docs/bad.txt", "-o", "other.json").exit_code == 0


def test_only_its_owner_may_read_it(dead: Path) -> None:
    assert dead.stat().st_mode & 0o077 == 0


def test_a_key_with_a_path_in_it_does_not_choose_where_the_file_goes(holdfast: Run, folder: Path) -> None:
    (folder / "one.jsonl").write_text('{"key": "../../sly name;.pdf", "payload": 1}\n')
    holdfast("submit", "papers.py", "-", stdin=(folder / "one.jsonl").read_text())
    packed = json.loads(holdfast("doc", "pack", "../../sly name;.pdf", "--json").stdout)
    assert packed["file"] == "sly_name_.pdf.capsule.json"


def test_stdout_takes_it_too(holdfast: Run, dead: Path) -> None:
    printed = holdfast("doc", "pack", "docs/bad.txt", "-o", "-").stdout
    assert json.loads(printed)["document"] == json.loads(dead.read_text())["document"]


def test_answers_are_json_when_asked_for(holdfast: Run, dead: Path) -> None:
    said = json.loads(holdfast("doc", "load", dead.name, "--json", *NEW).stdout)
    assert (said["was"], said["state"], said["items"]) == ("dead", "dead", 5)
