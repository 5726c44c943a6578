"""`seal`, `reconcile`, `close` and `cleanup`, as a person uses them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.ui.batch_report_html import render_batch_report
from holdfast.core.batches import BatchReport
from tests.cli.conftest import PAPERS, Run, sql

CLOSING = """

def prepare(tx):
    tx.execute("create table if not exists notices (batch text, done integer)")


@papers.closing(retry=ONCE)
def notify(doc):
    import pathlib
    if pathlib.Path("no-mail").exists():
        raise OSError("no mail today")
    return doc.payload["done"]


@notify.effect
def note(tx, doc, done):
    tx.execute("insert into notices values (?, ?)", (doc.key, done))
"""


def words(result: object) -> list[str]:
    return [" ".join(line.split()) for line in result.stdout.splitlines()]  # type: ignore[attr-defined]


@pytest.fixture
def bad(folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")


def test_reconcile_tells_both_sides_of_the_balance_and_ends_well(holdfast: Run, bad: None) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("batch", "reconcile", "papers")
    assert result.exit_code == 0
    assert "batch expected = done + dead + cancelled + running + waiting + paused" in words(result)
    assert "default open 3 = 2 + 1 + 0 + 0 + 0 + 0 balances" in words(result)
    assert words(result)[-2:] == ["default at step dead", "judge 1"]


def test_a_missing_document_is_named_and_the_command_fails(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    sql("delete from hf_document where key like '%/docs/b.txt'")
    result = holdfast("batch", "reconcile", "papers.py")
    assert result.exit_code == 1
    assert "DOES NOT BALANCE: 1 found" in result.stdout
    assert "default: 1 document missing, not deleted by holdfast:" in words(result)
    assert "docs/b.txt" in words(result)
    answer = json.loads(holdfast("batch", "reconcile", "papers", "--json").stdout)
    assert (answer["balances"], answer["batches"][0]["missing"]) == (False, [f"{Path.cwd()}/docs/b.txt"])


def test_a_document_that_came_from_nowhere_does_not_balance_either(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    sql("update hf_batch set expected = 1")
    result = holdfast("batch", "reconcile", "papers")
    assert result.exit_code == 1
    assert "default: 1 more than were ever submitted" in words(result)


def test_reconcile_of_an_unknown_batch_lists_the_known(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("batch", "reconcile", "papers", "defalt")
    assert result.exit_code == 2
    assert "did you mean 'default'?" in result.stderr


def test_a_report_is_written_for_programs(holdfast: Run, folder: Path, bad: None) -> None:
    holdfast("run", "papers.py", "docs")
    assert holdfast("batch", "reconcile", "papers", "--report", "report.json").exit_code == 0
    report = msgspec.json.decode((folder / "report.json").read_bytes(), type=BatchReport)
    assert report.is_whole
    assert (report.expected, report.in_all.dead, report.dead_letters[0].key) == (3, 1, f"{Path.cwd()}/docs/bad.txt")


def test_a_report_is_written_as_a_page_that_needs_nothing_else(holdfast: Run, folder: Path, bad: None) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("batch", "reconcile", "papers", "--report", "report.html")
    assert "The report is in report.html." in result.stdout
    page = (folder / "report.html").read_text()
    assert "ValueError: docs/bad.txt is not readable" in page
    assert "Nothing is missing: the count balances." in page
    assert not re.search(r"https?://|<script|src=|@import|url\(", page)


def test_a_page_shows_names_as_they_are_and_runs_nothing(holdfast: Run, folder: Path) -> None:
    holdfast("submit", "papers.py", "docs", "--batch", "<b>march</b>")
    holdfast("batch", "reconcile", "papers", "--report", "r.json")
    report = msgspec.json.decode((folder / "r.json").read_bytes(), type=BatchReport)
    page = render_batch_report(report)
    assert "<b>march</b>" not in page
    assert "&lt;b&gt;march&lt;/b&gt;" in page


def test_a_report_needs_one_batch_and_a_form(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs", "--batch", "march")
    assert "must end with .json or .html" in holdfast("batch", "reconcile", "papers", "--report", "r.pdf").stderr
    holdfast("run", "papers.py", "docs", "--batch", "april")
    result = holdfast("batch", "reconcile", "papers", "--report", "r.html")
    assert (result.exit_code, "name it after the pipeline. papers has: march, april" in result.stderr) == (2, True)


def test_a_sealed_batch_takes_no_more_and_says_who_sealed_it(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    sealed = holdfast("batch", "seal", "papers", "default", "--who", "cat", "--reason", "all in")
    assert "Batch default of papers is sealed with 2 documents." in sealed.stdout
    assert "Batch default of papers is already sealed." in holdfast("batch", "seal", "papers", "default").stdout
    assert holdfast("submit", "papers.py", "docs").exit_code == 0  # nothing is new
    refused = holdfast("submit", "papers.py", "papers.py")
    assert (refused.exit_code, "it takes no more documents" in refused.stderr) == (2, True)
    assert sql("select who, verb from hf_journal where batch_id is not null") == [("cat", "seal")]


def test_a_batch_with_another_number_of_documents_than_declared_stays_open(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    refused = holdfast("batch", "seal", "papers", "default", "--expect", "3")
    assert refused.exit_code == 1
    assert "has 2 documents, but 3 were declared" in refused.stderr
    assert holdfast("submit", "papers.py", "papers.py").exit_code == 0
    assert "is sealed with 3 documents" in holdfast("batch", "seal", "papers", "default", "--expect", "3").stdout


def test_a_batch_ends_at_its_deadline(holdfast: Run) -> None:
    submitted = holdfast("submit", "papers.py", "docs", "--deadline", "30d", "--at-deadline", "cancel")
    assert submitted.exit_code == 0
    assert "Documents of batch default that are still open at" in holdfast("batch", "reconcile", "papers").stdout
    sealed = holdfast("batch", "seal", "papers", "default", "--deadline", "1ms")
    assert "become dead letters." in sealed.stdout
    assert json.loads(holdfast("batch", "seal", "papers", "default", "--json").stdout)["deadline_at"]
    assert holdfast("work", "papers.py", "--drain").exit_code == 1
    assert "default sealed 2 = 0 + 2 + 0 + 0 + 0 + 0 balances" in words(holdfast("status"))
    assert sql("select distinct code, error from hf_document") == [("batch_deadline", "BatchDeadline")]
    listed = holdfast("batch", "reconcile", "papers", "default").stdout
    assert "The deadline of batch default has passed" in listed


def test_who_is_the_login_name_unless_the_environment_names_another(
    holdfast: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    holdfast("run", "papers.py", "docs")
    monkeypatch.setenv("HOLDFAST_WHO", "dan")
    holdfast("batch", "seal", "papers", "default")
    assert sql("select who from hf_journal where verb = 'seal'") == [("dan",)]


def test_a_refused_close_says_what_is_missing_and_changes_nothing(holdfast: Run, bad: None) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("batch", "close", "papers.py", "default")
    assert result.exit_code == 1
    assert "it is open: seal it first\n    holdfast batch seal papers default" in result.stderr
    assert f"1 dead letter not accepted: {Path.cwd()}/docs/bad.txt" in result.stderr
    assert "open" in holdfast("status").stdout


def test_a_batch_is_sealed_and_closed_within_a_tolerance(holdfast: Run, bad: None) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("batch", "close", "papers.py", "default", "--seal", "--tolerate", "34%", "--who", "cat")
    assert result.exit_code == 0
    said = "Batch default of papers was closed by cat: 3 documents, 2 done, 1 dead, 1 of them accepted."
    assert said in result.stdout
    assert "default closed 3 = 2 + 1 + 0 + 0 + 0 + 0 balances" in words(holdfast("status"))


@pytest.mark.parametrize("share", ["5", "-1%", "many", "101%"])
def test_an_impossible_share_is_refused(holdfast: Run, share: str) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("batch", "close", "papers.py", "default", f"--tolerate={share}")
    assert result.exit_code == 2
    assert "is not a share; write 5% or 0.05" in result.stderr


def test_closing_steps_run_once_and_again_only_where_they_stopped(holdfast: Run, folder: Path) -> None:
    (folder / "papers.py").write_text(PAPERS + CLOSING)
    (folder / "no-mail").touch()
    holdfast("run", "papers.py", "docs")
    result = holdfast("batch", "close", "papers.py", "default", "--seal")
    assert result.exit_code == 1
    assert "Its closing steps are not done: dead at notify: OSError: no mail today" in result.stdout
    status = holdfast("status").stdout
    assert "default is closed, its closing steps are dead at notify: OSError: no mail today" in status
    assert json.loads(holdfast("status", "--json").stdout)["pipelines"][0]["batches"][0]["closing"]["step"] == "notify"
    (folder / "no-mail").unlink()
    redrive = "holdfast dead redrive default --pipeline papers.closing --reason ..."
    assert f"{redrive}\n  holdfast batch close papers.py default\n" in result.stdout
    assert f"continue: {redrive}\n    continue: holdfast batch close PIPELINE.py default\n" in status
    kept = holdfast("batch", "cleanup", "--dry-run").stdout
    assert "papers/default is closed, but its closing steps have not ended: they are dead at notify" in kept
    assert redrive in kept
    assert json.loads(holdfast("batch", "cleanup", "--dry-run", "--json").stdout)["kept"][0]["closing"] == "dead"
    assert "1 document redriven" in holdfast(*redrive.split()[1:]).stdout
    for _ in range(2):
        again = holdfast("batch", "close", "papers.py", "default")
        assert (again.exit_code, "Its closing steps are done." in again.stdout) == (0, True)
    assert sql("select * from notices") == [("default", 2)]
    assert "closing steps" not in holdfast("status").stdout + holdfast("batch", "cleanup", "--dry-run").stdout


def test_a_close_cleans_up_if_it_is_asked_to(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("batch", "close", "papers.py", "default", "--seal", "--cleanup", "--who", "cat")
    assert (result.exit_code, "2 documents cleaned up." in result.stdout) == (0, True)
    again = json.loads(holdfast("batch", "close", "papers.py", "default", "--cleanup", "--json").stdout)
    assert (again["cleaned"], again["report"]["in_all"]["done"]) == ({"documents": 0, "items": 0}, 2)
    assert sql("select count(*) from hf_document") == [(0,)]
    assert sql("select who, verb from hf_journal") == [("cat", "seal"), ("cat", "close"), ("cat", "cleanup")]


def test_the_report_of_a_closed_batch_stays_when_it_was_cleaned_up(holdfast: Run, folder: Path, bad: None) -> None:
    holdfast("run", "papers.py", "docs")
    holdfast("batch", "close", "papers.py", "default", "--seal", "--tolerate", "1")
    holdfast("batch", "reconcile", "papers", "--report", "before.json")
    assert "3 documents would be cleaned up." in holdfast("batch", "cleanup", "--dry-run").stdout
    assert sql("select count(*) from hf_document") == [(3,)]
    assert "3 documents cleaned up." in holdfast("batch", "cleanup", "papers.py").stdout
    assert sql("select count(*) from hf_document") == sql("select count(*) from hf_item") == [(0,)]
    assert sql("select count(*) from hf_manifest") == [(0,)]
    result = holdfast("batch", "reconcile", "papers", "--report", "after.json")
    assert "default closed 3 = 2 + 1 + 0 + 0 + 0 + 0 balances" in words(result)
    assert (folder / "after.json").read_bytes() == (folder / "before.json").read_bytes()


def test_cleanup_keeps_what_is_not_old_enough(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert "0 documents cleaned up." in holdfast("batch", "cleanup").stdout
    answer = json.loads(holdfast("batch", "cleanup", "--older", "1ms", "--json").stdout)
    assert [(one["batch"], one["why"], one["documents"]) for one in answer["batches"]] == [("default", "finished", 2)]
    assert "submitted: 0 new, 0 changed, 2 unchanged" in holdfast("run", "papers.py", "docs").stdout


def test_stale_batches_are_listed_with_the_commands_that_end_them(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    result = holdfast("batch", "cleanup", "--stale", "1ms")
    said = words(result)
    assert any(re.fullmatch(r"papers/march is open, and nothing has moved for [\d.]+ s\.", line) for line in said)
    assert "2 open, see why: holdfast explain --pipeline papers --batch march" in said
    assert "close it: holdfast batch close PIPELINE.py march" in said
    assert sql("select count(*) from hf_document") == [(2,)]


def test_the_journal_of_a_batch_is_shown_with_who_did_what_and_why(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    holdfast("batch", "seal", "papers", "default", "--who", "cat", "--reason", "all in")
    holdfast("batch", "close", "papers.py", "default", "--who", "dan", "--reason", "the month is over")
    holdfast("batch", "cleanup", "papers", "--who", "eve")
    said = [line.split(" ", 2)[-1] for line in words(holdfast("batch", "reconcile", "papers", "default"))[-3:]]
    assert said[:2] == ["seal by cat all in", "close by dan the month is over"]
    assert said[2].startswith("cleanup by eve 2 documents, 12 items")
    journal = json.loads(holdfast("batch", "reconcile", "papers", "default", "--json").stdout)["journal"]
    assert [(line["verb"], line["who"]) for line in journal] == [("seal", "cat"), ("close", "dan"), ("cleanup", "eve")]
    assert journal[1]["detail"]["reason"] == "the month is over"


def test_listeners_get_events_of_a_close(holdfast: Run, folder: Path) -> None:
    (folder / "papers.py").write_text(PAPERS + CLOSING)
    holdfast("run", "papers.py", "docs")
    result = holdfast("batch", "close", "papers.py", "default", "--seal", "--log", "json")
    events = [json.loads(line) for line in result.stderr.splitlines()]
    (closed,) = [one for one in events if one["event"] == "closed"]
    assert (closed["pipeline"], closed["batch"], closed["documents"]) == ("papers", "default", 2)
    assert "started" in [one["event"] for one in events], "closing steps emit events too"


def test_a_user_without_a_name_is_known_by_number(holdfast: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.delenv("HOLDFAST_WHO", raising=False)
    monkeypatch.setattr("getpass.getuser", nameless)
    holdfast("run", "papers.py", "docs")
    holdfast("batch", "seal", "papers", "default")
    assert sql("select who from hf_journal where verb = 'seal'") == [(f"user {os.getuid()}",)]


DECISIONS = ["batch seal", "batch close", "batch cleanup", "doc orphans", "pipeline verify", "pipeline debug"]


@pytest.mark.parametrize("command", DECISIONS)
def test_every_decision_takes_who(holdfast: Run, command: str) -> None:
    said = " ".join(holdfast(*command.split(), "--help").stdout.split())
    assert "--who NAME Who does this; kept in the journal. [env: HOLDFAST_WHO; default: your login name]" in said


def test_a_refusal_says_that_the_batch_is_sealed_now(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    again = [holdfast("batch", "close", "papers.py", "default", "--seal") for _ in range(2)]
    assert [result.exit_code for result in again] == [1, 1]
    told = ["It is sealed now: it accepts no more documents." in result.stderr for result in again]
    assert told == [True, False]
