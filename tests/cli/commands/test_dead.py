from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.stores import open_store
from tests.cli.conftest import Run


@pytest.fixture
def letters(holdfast: Run, folder: Path) -> None:
    """Two dead letters, bad-1.txt and bad-2.txt, and two documents that are done."""
    for number in (1, 2):
        (folder / "docs" / f"bad-{number}.txt").write_text("x")
    assert holdfast("run", "papers.py", "docs").exit_code == 1


def mend(folder: Path) -> None:
    pipeline = folder / "papers.py"
    pipeline.write_text(pipeline.read_text().replace('if "bad" in name:', "if False:"))


@pytest.mark.usefixtures("letters")
def test_dead_letters_are_listed_with_the_commands_that_help(holdfast: Run) -> None:
    told = holdfast("dead", "list").stdout
    assert "2 dead letters:" in told
    assert "default/docs/bad-1.txt  at judge" in told
    assert "ValueError: docs/bad-1.txt is not readable" in told
    assert "holdfast dead redrive docs/bad-" in told


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize(("accepted", "left"), [("1", "2"), ("2", "1")])
def test_the_commands_that_help_are_about_a_letter_that_nobody_accepted(
    holdfast: Run, accepted: str, left: str
) -> None:
    holdfast("dead", "accept", f"docs/bad-{accepted}.txt", "--reason", "lost at sea")
    assert f"holdfast dead accept docs/bad-{left}.txt" in holdfast("dead", "list").stdout


@pytest.mark.usefixtures("letters")
def test_the_list_is_narrowed_by_class_text_and_step(holdfast: Run) -> None:
    def found(*words: str) -> int:
        return int(json.loads(holdfast("dead", "list", "--json", *words).stdout)["total"])

    assert found() == 2
    assert found("--error", "ValueError") == 2
    assert found("--error", "KeyError") == 0
    assert found("--text", "BAD-2") == 1
    assert found("--step", "extract") == 0
    assert found("--idle", "1h") == 0
    assert found("docs/bad-1.txt") == 1


def test_without_dead_letters_it_says_so(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert holdfast("dead", "list").stdout == "There are no dead letters.\n"


@pytest.mark.usefixtures("letters")
def test_one_is_shown_with_its_traceback_and_payload(holdfast: Run) -> None:
    told = holdfast("dead", "show", "docs/bad-1.txt", "--items").stdout
    assert 'raise ValueError(f"{name} is not readable")' in told
    assert f'{{"path":"{Path.cwd()}/docs/bad-1.txt"}}' in told
    assert 'extract[4]  {"number":4}' in told


@pytest.mark.usefixtures("letters")
def test_only_dead_letters_are_shown(holdfast: Run) -> None:
    result = holdfast("dead", "show", "docs/a.txt")
    assert result.exit_code == 2
    assert "docs/a.txt is not a dead letter: it is done" in result.stderr


@pytest.mark.usefixtures("letters")
def test_a_redriven_letter_continues_from_where_it_stopped(holdfast: Run, folder: Path) -> None:
    mend(folder)
    told = holdfast("dead", "redrive", "docs/bad-1.txt", "--reason", "mended", "--who", "ann").stdout
    assert told == "1 document redriven.\n"
    assert holdfast("run", "papers.py").exit_code == 1  # the other one
    story = json.loads(holdfast("show", "docs/bad-1.txt", "--json").stdout)
    assert story["state"] == "done"
    assert story["checkpoint"]["generation"] == 0
    (line,) = [line for line in story["journal"] if line["verb"] == "redrive"]
    assert (line["who"], line["detail"]["reason"]) == ("ann", "mended")
    assert (line["detail"]["was"], line["detail"]["state"]) == ("dead", "waiting")


@pytest.mark.usefixtures("letters")
def test_a_rate_makes_them_due_one_after_the_other(holdfast: Run) -> None:
    assert holdfast("dead", "redrive", "--all", "--rate", "6/min", "--reason", "slowly").exit_code == 0
    store = open_store("sqlite:///holdfast.db")
    try:
        first, second = sorted(one.due_at for one in store.documents("papers", state="waiting") if one.due_at)
    finally:
        store.close()
    assert (second - first).total_seconds() == 10


@pytest.mark.usefixtures("letters")
def test_a_dry_run_counts_and_changes_nothing(holdfast: Run) -> None:
    told = holdfast("dead", "redrive", "--error", "ValueError", "--reason", "x", "--dry-run").stdout
    assert told == "2 documents would be redriven; nothing was changed.\n"
    assert json.loads(holdfast("dead", "list", "--json").stdout)["total"] == 2


@pytest.mark.usefixtures("letters")
def test_what_is_accepted_is_shown_and_closes(holdfast: Run) -> None:
    assert holdfast("dead", "accept", "--text", "readable", "--reason", "lost at sea", "--who", "ann").exit_code == 0
    assert "accepted by ann: ValueError" in holdfast("dead", "list").stdout
    again = holdfast("dead", "accept", "docs/bad-1.txt", "--reason", "again")
    assert "0 documents accepted.\n1 document not changed: not dead, or already accepted.\n" in again.stdout
    assert holdfast("batch", "close", "papers.py", "default", "--seal", "--reason", "all is in").exit_code == 0


@pytest.mark.usefixtures("letters")
def test_a_reason_is_asked_for_and_so_is_which(holdfast: Run) -> None:
    assert "Missing option '--reason'" in holdfast("dead", "redrive", "--all").stderr
    result = holdfast("dead", "redrive", "--reason", "x")
    assert result.exit_code == 2
    assert "say which documents: give their keys" in result.stderr


@pytest.mark.parametrize("rate", ["fast", "0/s", "5"])
def test_a_wrong_rate_is_refused(holdfast: Run, rate: str) -> None:
    holdfast("run", "papers.py", "docs")
    assert "write 50/s or 10/min" in holdfast("dead", "redrive", "--all", "--rate", rate, "--reason", "x").stderr


def test_the_list_says_how_many_documents_wait_for_a_decision_instead(holdfast: Run, folder: Path) -> None:
    (folder / "asks.py").write_text(
        "import holdfast\nasks = holdfast.Pipeline('asks')\n@asks.step\ndef read(doc):\n"
        "    raise holdfast.Pause('which line?')\n"
    )
    holdfast("run", "asks.py", "docs/a.txt")
    line = "1 document waits for a decision, not dead: holdfast review list"
    assert line in holdfast("dead", "list").stdout.splitlines()
    narrowed = holdfast("dead", "list", "--pipeline", "asks").stdout.splitlines()
    assert f"{line} --pipeline asks" in narrowed
    assert json.loads(holdfast("dead", "list", "--json").stdout)["undecided"] == 1
