from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.stores import open_store
from tests.cli.conftest import Run


def rewrite(folder: Path, *changes: tuple[str, str]) -> None:
    """Change the pipeline's file."""
    text = (folder / "papers.py").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "papers.py").write_text(text)


def raised(folder: Path) -> None:
    """Increase the version of extract."""
    rewrite(folder, ("@papers.step\ndef extract", "@papers.step(version=2)\ndef extract"))


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def everything(path: Path) -> str:
    """Return a hash of everything in a database."""
    with closing(sqlite3.connect(path)) as db:
        return hashlib.sha256("\n".join(db.iterdump()).encode()).hexdigest()


@pytest.mark.parametrize("command", ["plan", "pipeline check"])
def test_a_store_that_is_not_there_is_not_made(holdfast: Run, folder: Path, command: str) -> None:
    result = holdfast(*command.split(), "papers.py")
    assert result.exit_code == 0
    assert "does not have" in result.stdout
    assert "everything is new" in result.stdout
    assert not list(folder.glob("holdfast.db*"))


@pytest.mark.parametrize("command", ["plan", "pipeline check"])
def test_a_database_of_somebody_else_is_left_as_it_is(holdfast: Run, folder: Path, command: str) -> None:
    with closing(sqlite3.connect(folder / "holdfast.db")) as db:
        db.execute("create table mine (x)")
    before = (folder / "holdfast.db").read_bytes()
    assert "everything is new" in holdfast(*command.split(), "papers.py").stdout
    assert (folder / "holdfast.db").read_bytes() == before
    assert [path.name for path in folder.glob("holdfast.db*")] == ["holdfast.db"]


@pytest.mark.parametrize("command", ["plan", "pipeline check"])
def test_an_empty_postgresql_database_stays_empty(holdfast: Run, postgres_url: str, command: str) -> None:
    import psycopg

    assert "everything is new" in holdfast(*command.split(), "papers.py", "--store", postgres_url).stdout
    with psycopg.connect(postgres_url) as db:
        assert db.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone() == (0,)


def test_plans_are_shown_on_postgresql(holdfast: Run, folder: Path, postgres_url: str) -> None:
    holdfast("run", "papers.py", "docs", "--store", postgres_url)
    raised(folder)
    told = lines(holdfast("plan", "papers.py", "--store", postgres_url).stdout)
    assert "2 documents from extract on: extract changed: version 1 -> 2" in told


@pytest.mark.parametrize("command", ["plan", "pipeline check"])
def test_memory_has_nothing_to_look_ahead_in(holdfast: Run, command: str) -> None:
    assert holdfast(*command.split(), "papers.py", "--store", "memory://").exit_code == 2


def test_a_pipeline_that_the_store_does_not_know_is_new(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    rewrite(folder, ('Pipeline("papers")', 'Pipeline("letters")'))
    assert "everything is new, and starts at extract" in holdfast("plan", "papers.py", "--batch", "march").stdout


def test_documents_that_wait_are_shown_by_the_step_they_run_from(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    told = lines(holdfast("plan", "papers.py").stdout)
    assert "2 documents would run:" in told
    assert "from extract 2 documents" in told


def test_what_is_stale_is_shown_with_the_reason_and_the_command(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    rewrite(folder, ("@papers.step(retry=ONCE)", '@papers.step(retry=ONCE, settings={"strict": True})'))
    told = lines(holdfast("plan", "papers.py").stdout)
    assert 'changed since the last run: settings of judge changed: null -> {"strict":true}' in told
    assert "Nothing would run." in told
    assert "1 dead letter would not change: 1 at judge" in told
    assert "2 documents done, 0 of them with the current pipeline" in told
    assert "The work of 2 documents is stale, until it is redone:" in told
    assert 'settings of judge changed: null -> {"strict":true}' in told[-3]
    assert told[-2].startswith("redoes judge; reuses extract")
    assert told[-1] == "To redo it: holdfast doc rewind --stale papers.py"


def test_how_long_it_took_before_is_shown(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    with closing(open_store("sqlite:///holdfast.db")) as store:
        shape = store.shape("papers")
        assert shape is not None
        store.add_step_times(
            store.declare(shape), {"extract": (1_000_000, 10_000_000.0), "judge": (1_000_000, 500_000.0)}
        )
    raised(folder)
    assert "redoes extract, judge; reuses nothing (bodies took 21 s for as many before)" in lines(
        holdfast("plan", "papers.py").stdout
    )
    (folder / "docs" / "c.txt").write_text("c")
    holdfast("submit", "papers.py", "docs")
    told = lines(holdfast("plan", "papers.py").stdout)
    assert "1 document would run (bodies took 10 s for as many before):" in told
    assert "from extract 1 document extract took 10.0 s each" in told


def test_what_waits_for_people_is_shown(holdfast: Run, folder: Path) -> None:
    with (folder / "papers.py").open("a") as file:
        file.write('\npapers.gate("sign")\n')
    holdfast("run", "papers.py", "docs")
    assert "2 documents would wait for a person: 2 at sign" in lines(holdfast("plan", "papers.py").stdout)


def test_one_batch_can_be_asked_for(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs/a.txt", "--batch", "march")
    holdfast("run", "papers.py", "docs", "--batch", "april")
    raised(folder)
    assert "The work of 1 document is stale" in holdfast("plan", "papers.py", "--batch", "march").stdout
    result = holdfast("plan", "papers.py", "--batch", "may")
    assert result.exit_code == 2
    assert "has no batch 'may'" in result.stderr


def test_a_plan_that_would_be_refused_is_refused(holdfast: Run, folder: Path) -> None:
    holdfast("submit", "papers.py", "docs")
    rewrite(folder, ("def extract", "def pages"), ("doc.output(extract)", "doc.output(pages)"))
    result = holdfast("plan", "papers.py")
    assert result.exit_code == 2
    assert "2 at 'extract'" in result.stderr


@pytest.mark.parametrize("command", ["plan", "pipeline check"])
def test_looking_ahead_changes_nothing(holdfast: Run, folder: Path, command: str) -> None:
    holdfast("run", "papers.py", "docs")
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    before = everything(folder / "holdfast.db")
    raised(folder)
    assert holdfast(*command.split(), "papers.py").exit_code == 0
    rewrite(folder, ("def extract", "def pages"), ("doc.output(extract)", "doc.output(pages)"))
    assert holdfast(*command.split(), "papers.py").exit_code != 0
    rewrite(folder, ('Pipeline("papers")', 'Pipeline("papers", renamed={"extract": "pages"})'))
    assert holdfast(*command.split(), "papers.py").exit_code == 0
    assert everything(folder / "holdfast.db") == before


def test_json_has_the_whole_of_it(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    raised(folder)
    answer: dict[str, Any] = json.loads(holdfast("plan", "papers.py", "--json").stdout)
    assert answer["runs"] == {"extract": 2}
    assert answer["changes"] == ["extract changed: version 1 -> 2"]
    (stale,) = answer["stale"]
    assert (stale["to"], stale["documents"], stale["redone"]) == ("extract", 2, ["extract", "judge"])
    assert answer["redo"] == "holdfast doc rewind --stale papers.py"


def test_the_same_pipeline_is_the_same(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("pipeline", "check", "papers.py")
    assert (result.exit_code, result.stdout) == (
        0,
        "same: sqlite:///holdfast.db has papers as it is in the file\n",
    )
    assert json.loads(holdfast("pipeline", "check", "papers.py", "--json").stdout)["verdict"] == "same"


def test_new_steps_and_stale_work_are_compatible_and_named(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    raised(folder)
    with (folder / "papers.py").open("a") as file:
        file.write("\n@papers.step\ndef publish(doc):\n    return 1\n")
    result = holdfast("pipeline", "check", "papers.py")
    told = lines(result.stdout)
    assert result.exit_code == 0
    assert told[0] == "compatible: the documents of papers in sqlite:///holdfast.db can continue"
    assert told[1:3] == ["extract changed: version 1 -> 2", "publish is new"]
    assert "2 documents from extract on: extract changed: version 1 -> 2; publish is new" in told
    answer = json.loads(holdfast("pipeline", "check", "papers.py", "--json").stdout)
    assert (answer["verdict"], answer["stale"][0]["documents"]) == ("compatible", 2)


def test_a_refused_pipeline_shows_the_reasons(holdfast: Run, folder: Path) -> None:
    holdfast("submit", "papers.py", "docs")
    rewrite(folder, ("def extract", "def pages"), ("doc.output(extract)", "doc.output(pages)"))
    refused = holdfast("run", "papers.py").stderr.removeprefix("Error: ").strip()
    result = holdfast("pipeline", "check", "papers.py")
    assert result.exit_code == 1
    assert result.stdout.strip() == f"refused: {refused}"
    answer = json.loads(holdfast("pipeline", "check", "papers.py", "--json").stdout)
    assert (answer["verdict"], answer["message"]) == ("refused", refused)


@pytest.mark.parametrize("command", ["plan", "pipeline check"])
def test_a_step_that_may_have_been_renamed_is_shown_with_its_declaration(
    holdfast: Run, folder: Path, command: str
) -> None:
    holdfast("run", "papers.py", "docs")
    rewrite(folder, ("def extract", "def pages"), ("doc.output(extract)", "doc.output(pages)"))
    said = holdfast(*command.split(), "papers.py").stdout
    assert "If extract was only renamed, write Pipeline('papers', renamed={'extract': 'pages'})." in said


def test_a_renamed_step_is_compatible_and_nothing_is_stale(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    rewrite(
        folder,
        ("def extract", "def pages"),
        ("doc.output(extract)", "doc.output(pages)"),
        ('Pipeline("papers")', 'Pipeline("papers", renamed={"extract": "pages"})'),
    )
    result = holdfast("pipeline", "check", "papers.py")
    assert result.exit_code == 0
    assert lines(result.stdout)[1:] == ["extract is renamed to pages"]
    holdfast("run", "papers.py")
    assert holdfast("pipeline", "check", "papers.py").stdout.startswith("same:")


def test_documents_that_a_rename_moves_on_are_shown(holdfast: Run, folder: Path) -> None:
    holdfast("submit", "papers.py", "docs")
    text = (folder / "papers.py").read_text()
    start, stop = text.index("@papers.step\ndef extract"), text.index("@papers.step(retry")
    (folder / "papers.py").write_text(text[:start] + text[stop:])
    rewrite(folder, ('Pipeline("papers")', 'Pipeline("papers", renamed={"extract": "judge"})'))
    assert "documents at extract go on at judge" in holdfast("pipeline", "check", "papers.py").stdout
    assert "from judge 2 documents" in lines(holdfast("plan", "papers.py").stdout)


def test_documents_paused_for_a_time_are_shown_with_its_end(holdfast: Run, folder: Path) -> None:
    holdfast("submit", "papers.py", "docs")
    holdfast("doc", "pause", "docs/a.txt", "--for", "1h", "--reason", "the line is busy")
    due = json.loads(holdfast("show", "docs/a.txt", "--json").stdout)["due_at"]
    until = datetime.fromisoformat(due).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    told = lines(holdfast("plan", "papers.py").stdout)
    assert f"1 document would wait, until {until}: 1 at extract" in told
    assert not any("wait for people" in line for line in told)
    holdfast("doc", "pause", "docs/b.txt", "--reason", "somebody has to look")
    told = lines(holdfast("plan", "papers.py").stdout)
    assert "1 document would wait for a person: 1 at extract" in told
    said = json.loads(holdfast("plan", "papers.py", "--json").stdout)
    assert (said["people"], said["until"], said["wakes"]) == ({"extract": 1}, {"extract": 1}, [due, due])


GATED = """
import holdfast
from datetime import timedelta

offers = holdfast.Pipeline("offers")

@offers.step
def draft(doc):
    return doc.key

offers.gate("legal")
"""


def _gate_gets(folder: Path, within: str) -> None:
    timed = f'offers.gate("legal", within=timedelta({within}), otherwise="reject")'
    (folder / "offers.py").write_text(GATED.replace('offers.gate("legal")', timed))


def test_documents_at_a_gate_with_a_time_limit_are_shown_with_its_end(holdfast: Run, folder: Path) -> None:
    (folder / "offers.py").write_text(GATED)
    holdfast("run", "offers.py", "docs")
    _gate_gets(folder, "days=1")
    said = json.loads(holdfast("plan", "offers.py", "--json").stdout)
    assert (said["people"], said["until"], said["late"]) == ({}, {"legal": 2}, {})
    holdfast("run", "offers.py", "docs")
    assert json.loads(holdfast("plan", "offers.py", "--json").stdout)["wakes"] == said["wakes"]


def test_documents_that_would_be_decided_at_once_are_shown(holdfast: Run, folder: Path) -> None:
    (folder / "offers.py").write_text(GATED)
    holdfast("run", "offers.py", "docs")
    _gate_gets(folder, "microseconds=1")
    told = lines(holdfast("plan", "offers.py").stdout)
    decided = "2 documents would continue at once as otherwise= says, because nobody decided in time: 2 at legal"
    assert decided in told
    assert not any("would wait" in line for line in told)
    holdfast("run", "offers.py", "docs")
    assert json.loads(holdfast("dead", "list", "--json").stdout)["total"] == 2


def test_a_pause_whose_time_is_over_would_run(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    holdfast("doc", "pause", "docs/a.txt", "--for", "1ms", "--reason", "a moment")
    said = json.loads(holdfast("plan", "papers.py", "--json").stdout)
    assert (said["runs"], said["until"], said["wakes"]) == ({"extract": 2}, {}, None)
