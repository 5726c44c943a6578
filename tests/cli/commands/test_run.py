from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import holdfast as holdfast_library
from tests.cli.conftest import Run, Start, sql


def test_a_folder_is_worked_through_and_the_summary_says_so(holdfast: Run) -> None:
    result = holdfast("run", "papers.py", "docs")
    assert result.exit_code == 0
    assert "submitted: 2 new, 0 changed, 0 unchanged" in result.stdout
    assert "2 documents done" in result.stdout
    assert "All 2 are done." in result.stdout


def test_running_it_again_does_nothing_and_a_changed_file_starts_again(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    assert "0 new, 0 changed, 2 unchanged" in holdfast("run", "papers.py", "docs").stdout
    (folder / "docs" / "a.txt").write_text("longer than before")
    assert "0 new, 1 changed, 1 unchanged" in holdfast("run", "papers.py", "docs").stdout


def test_without_documents_it_continues_with_what_is_in_the_store(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    assert "2 documents done" in holdfast("run", "papers.py").stdout


def test_without_documents_the_function_of_the_file_gives_them(holdfast: Run, folder: Path) -> None:
    with (folder / "papers.py").open("a") as file:
        file.write("\ndef documents():\n    yield 'one', {'n': 1}\n    yield 'two', {'n': 2}\n")
    assert "submitted: 2 new" in holdfast("run", "papers.py").stdout


def test_an_error_in_the_documents_of_the_file_is_shown_with_their_line(holdfast: Run, folder: Path) -> None:
    with (folder / "papers.py").open("a") as file:
        file.write("\ndef documents():\n    yield 'one', None\n    raise LookupError('no more')\n")
    result = holdfast("run", "papers.py")
    assert result.exit_code == 2
    assert "documents() of papers.py failed" in result.stderr
    assert "raise LookupError('no more')" in result.stderr
    assert "holdfast/cli" not in result.stderr


def test_an_empty_store_says_that_there_is_nothing(holdfast: Run) -> None:
    result = holdfast("run", "papers.py")
    assert result.exit_code == 0
    assert "has no documents yet" in result.stdout


def test_dead_letters_give_exit_code_1_and_the_command_that_shows_them(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad one.txt").write_text("x")
    result = holdfast("run", "papers.py", "docs", "--store", "sqlite:///my.db")
    assert result.exit_code == 1
    assert "docs/bad one.txt at judge: ValueError: docs/bad one.txt is not readable" in result.stdout
    assert "holdfast show 'docs/bad one.txt' --store sqlite:///my.db" in result.stdout
    assert "holdfast dead list --pipeline papers --store sqlite:///my.db" in result.stdout


def test_dead_letters_of_an_earlier_run_still_give_exit_code_1(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    assert holdfast("run", "papers.py", "docs").exit_code == 1


def test_json_is_one_line_per_event_with_a_summary_at_the_end(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    result = holdfast("run", "papers.py", "docs", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert {"failed", "progress", "summary"} <= {line["event"] for line in lines}
    summary = lines[-1]
    assert summary["event"] == "summary"
    assert summary["submitted"] == {"new": 3, "changed": 0, "unchanged": 0}
    assert summary["balance"]["done"] == 2
    assert summary["balance"]["balances"] is True
    assert summary["dead_letters"][0]["key"] == f"{Path.cwd()}/docs/bad.txt"
    assert summary["exit_code"] == result.exit_code == 1


def test_what_bodies_print_does_not_spoil_json(holdfast: Run, folder: Path) -> None:
    (folder / "loud.py").write_text(
        "import holdfast\nloud = holdfast.Pipeline('loud')\n@loud.step\ndef say(doc):\n    print('hello')\n"
    )
    result = holdfast("run", "loud.py", "docs", "--json")
    assert [json.loads(line)["event"] for line in result.stdout.splitlines()][-1] == "summary"
    assert "hello" in result.stderr


def test_options_may_stand_before_the_command(holdfast: Run, folder: Path) -> None:
    assert holdfast("--store", "sqlite:///other.db", "run", "papers.py", "docs").exit_code == 0
    assert (folder / "other.db").exists()
    assert not (folder / "holdfast.db").exists()


def test_the_store_can_be_named_in_the_environment(holdfast: Run, folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", "sqlite:///env.db")
    holdfast("run", "papers.py", "docs")
    assert (folder / "env.db").exists()


def test_bodies_learn_the_store_from_the_environment(holdfast: Run, folder: Path) -> None:
    (folder / "asks.py").write_text(
        "import holdfast, os\nasks = holdfast.Pipeline('asks')\n@asks.step\ndef ask(doc):\n"
        "    return os.environ['HOLDFAST_STORE']\n"
    )
    holdfast("run", "asks.py", "docs/a.txt", "--store", "sqlite:///x.db")
    told = holdfast("show", "docs/a.txt", "--items", "--store", "sqlite:///x.db").stdout
    assert 'ask  "sqlite:///x.db"' in told


def test_a_named_batch_is_the_only_one_worked_on(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs/a.txt", "--batch", "march")
    holdfast("run", "papers.py", "docs/b.txt", "--batch", "april")
    batches = json.loads(holdfast("status", "--json").stdout)["pipelines"][0]["batches"]
    assert [(one["batch"], one["waiting"], one["done"]) for one in batches] == [("march", 1, 0), ("april", 0, 1)]


def test_memory_is_good_for_one_run(holdfast: Run) -> None:
    assert "2 documents done" in holdfast("run", "papers.py", "docs", "--store", "memory://").stdout


def test_a_budget_stops_the_work_and_says_how_to_continue(holdfast: Run, folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import holdfast, time\nslow = holdfast.Pipeline('slow')\n@slow.step\ndef count(doc, cursor=0):\n"
        "    for number in range(cursor, 1000):\n        time.sleep(0.01)\n        yield number\n"
    )
    result = holdfast("run", "slow.py", "docs/a.txt", "--budget", "300ms")
    assert result.exit_code == 0
    assert "Stopped: its time is up; everything is saved, 1 document left." in result.stdout
    assert "  holdfast run slow.py docs/a.txt --budget 300ms" in result.stdout


def test_failures_are_shown_one_a_line_and_at_most_twenty(holdfast: Run, folder: Path) -> None:
    for number in range(30):
        (folder / "docs" / f"bad{number}.txt").write_text("x")
    lines = holdfast("run", "papers.py", "docs").stdout.splitlines()
    assert len([line for line in lines if line.startswith("dead: docs/bad")]) == 20
    assert "More failures are counted, not shown." in lines
    assert any("30 dead letters, the newest 5:" in line for line in lines)


def test_submit_says_what_is_new_changed_and_unchanged(holdfast: Run) -> None:
    assert holdfast("submit", "papers.py", "docs").stdout == "submitted: 2 new, 0 changed, 0 unchanged\n"
    answer = json.loads(holdfast("submit", "papers.py", "docs", "--json").stdout)
    assert answer == {"new": 0, "changed": 0, "unchanged": 2}


EXITS = """
import sys
import holdfast

exits = holdfast.Pipeline("exits")

@exits.step(retry=holdfast.Retry(attempts=1))
def one(doc):
    return 1

@one.effect
def write(tx, doc, value):
    sys.exit(0)
"""


def test_an_effect_that_exits_does_not_end_the_run_as_if_all_were_fine(holdfast: Run, folder: Path) -> None:
    (folder / "exits.py").write_text(EXITS)
    result = holdfast("run", "exits.py", "docs")
    assert result.exit_code != 0
    assert "SystemExit" in result.output


@pytest.mark.parametrize("words", [("run", "papers.py", "docs"), ("work", "papers.py", "--drain")])
def test_a_worker_that_others_exit_from_is_an_error_of_the_pipeline(
    holdfast: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def drain(*_: object, **__: object) -> None:
        sys.exit(0)

    monkeypatch.setattr("holdfast.engine.api.drain", drain)
    result = holdfast(*words)
    assert result.exit_code == 2
    assert "something called sys.exit (SystemExit: 0) inside the worker" in result.stderr
    assert "in drain" in result.stderr


def test_a_prepare_that_exits_is_an_error_of_the_pipeline(holdfast: Run, folder: Path) -> None:
    with (folder / "papers.py").open("a") as file:
        file.write("\ndef prepare(tx):\n    raise SystemExit\n")
    result = holdfast("run", "papers.py", "docs")
    assert result.exit_code == 2
    assert "something called sys.exit (SystemExit) inside prepare()" in result.stderr


MENDED = """
import os
import holdfast

mended = holdfast.Pipeline("mended")


@mended.step(retry=holdfast.Retry(attempts=1))
def judge(doc):
    if not os.path.exists("mended"):
        raise ValueError("broken")
"""


def test_after_a_mend_the_command_that_is_shown_tries_dead_letters_again(holdfast: Run, folder: Path) -> None:
    (folder / "mended.py").write_text(MENDED)
    first = holdfast("run", "mended.py", "docs")
    assert "  again: holdfast run mended.py --retry\n" in first.stdout
    (folder / "mended").touch()
    again = holdfast("run", "mended.py", "--retry")
    assert again.exit_code == 0
    assert "2 dead letters are tried again.\n" in again.stdout
    assert "All 2 are done." in again.stdout
    assert "There are no dead letters to try again.\n" in holdfast("run", "mended.py", "--retry").stdout


def test_retry_of_one_batch_leaves_the_others(holdfast: Run, folder: Path) -> None:
    (folder / "mended.py").write_text(MENDED)
    for batch in ("march", "april"):
        holdfast("run", "mended.py", "docs/a.txt", "--batch", batch)
    (folder / "mended").touch()
    again = holdfast("run", "mended.py", "--batch", "march", "--retry")
    assert "1 dead letter is tried again.\n" in again.stdout


def test_dead_letters_follow_a_renamed_step_and_are_tried_again_there(holdfast: Run, folder: Path) -> None:
    (folder / "mended.py").write_text(MENDED)
    holdfast("run", "mended.py", "docs")
    renamed = MENDED.replace('("mended")', '("mended", renamed={"judge": "weigh"})', 1).replace("judge(", "weigh(")
    (folder / "mended.py").write_text(renamed)
    (folder / "mended").touch()
    again = holdfast("run", "mended.py", "--retry").stdout
    assert "2 dead letters are at weigh, which was called judge: --retry tries them again there." in again
    assert "All 2 are done." in again


def test_a_run_without_work_says_so(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert "Nothing to do. All 2 are done.\n" in holdfast("run", "papers.py", "docs").stdout


def test_a_run_that_does_nothing_after_an_edit_says_how_to_redo_what_is_done(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    assert "newer" not in holdfast("run", "papers.py", "docs").stdout
    source = (folder / "papers.py").read_text()
    (folder / "papers.py").write_text(source.replace("return len(", "return 1 + len("))
    said = holdfast("run", "papers.py", "docs").stdout
    assert (
        "papers.py is newer than the documents that are done. They stay as they are. If a step would now give another "
        "result, raise its version=, then redo them: holdfast doc rewind --stale papers.py\n"
    ) in said
    (folder / "docs" / "new.txt").write_text("x")
    assert "newer" not in holdfast("run", "papers.py", "docs").stdout, "there was something to do"


def test_a_run_whose_documents_are_all_cancelled_does_not_say_that_they_are_done(holdfast: Run, folder: Path) -> None:
    holdfast("submit", "papers.py", "docs")
    with holdfast_library.open("sqlite:///holdfast.db") as store:
        ids = store.select("papers")
        store.cancel(ids[:1], who="ann", reason="wrong")
        one = holdfast("run", "papers.py").stdout
        store.cancel(store.select("papers"), who="ann", reason="wrong")
        both = store.count("papers", state="cancelled")
    assert "All is done. 1 more is cancelled.\n" in one
    assert both == 1


def test_all_cancelled_is_said_so(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    with holdfast_library.open("sqlite:///holdfast.db") as store:
        store.cancel(store.select("papers"), who="ann", reason="wrong")
    said = holdfast("run", "papers.py").stdout
    assert "Nothing to do. All 2 are cancelled.\n" in said
    assert "done." not in said


def test_a_run_in_memory_suggests_no_command_that_would_find_nothing(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    said = holdfast("run", "papers.py", "docs", "--store", "memory://").stdout
    assert "docs/bad.txt at judge: ValueError" in said
    assert "show" not in said
    assert "dead list" not in said
    assert "memory:// is lost now. To keep the work, to look at it and to go on: --store sqlite:///holdfast.db" in said


def test_what_changed_in_the_file_is_said_before_the_work(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    source = (folder / "papers.py").read_text()
    (folder / "papers.py").write_text(source.replace("retry=ONCE", "retry=ONCE, version=2"))
    said = holdfast("run", "papers.py").stdout
    assert "papers changed since the last run: judge changed: version 1 -> 2.\n" in said
    redo = "holdfast doc rewind --stale papers.py"
    assert (
        f"The work of 2 documents is stale (judge changed: version 1 -> 2) and stays as it is. To redo it: {redo}"
        in said
    )


@pytest.mark.parametrize("words", [("submit", "papers.py", "docs"), ("work", "papers.py", "--drain")])
def test_submit_and_work_say_too_what_changed(holdfast: Run, folder: Path, words: tuple[str, ...]) -> None:
    holdfast("run", "papers.py", "docs")
    source = (folder / "papers.py").read_text()
    (folder / "papers.py").write_text(source.replace("retry=ONCE", "retry=ONCE, version=2"))
    assert "papers changed since the last run: judge changed: version 1 -> 2.\n" in holdfast(*words).output


STOPPED = """
import os
import sqlite3

import holdfast

stopped = holdfast.Pipeline("stopped")


@stopped.step(commit_every=1)
def extract(doc, cursor=0):
    for number in range(cursor, 9):
        if number == 6 and not os.path.exists("goes on"):
            db = sqlite3.connect("holdfast.db")
            while db.execute("select count(*) from hf_items").fetchone()[0] < 3:
                pass  # commits are made in another thread
            os.kill(os.getpid(), 9)
        yield number
"""


def test_a_refused_pipeline_does_not_say_that_work_goes_on(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs/a.txt")
    holdfast("submit", "papers.py", "docs/b.txt")
    papers = folder / "papers.py"
    papers.write_text(papers.read_text().replace("extract", "read"))
    for command in (("run", "papers.py"), ("work", "papers.py", "--drain"), ("work", "papers.py", "--processes", "2")):
        result = holdfast(*command)
        assert result.exit_code == 2
        assert "no longer has the steps at which documents are" in result.stderr
        assert "done before" not in result.stdout


def test_a_run_after_a_kill_says_what_it_resumes(holdfast: Run, folder: Path, start: Start) -> None:
    (folder / "stopped.py").write_text(STOPPED)
    killed = start("run", "stopped.py", "docs/a.txt")
    killed.communicate(timeout=60)
    assert killed.returncode == -9
    (folder / "goes on").touch()
    kept = sql("select count(*) from hf_items")[0][0]
    assert isinstance(kept, int)
    assert kept > 0
    said = holdfast("run", "stopped.py").stdout
    assert f"1 document, going on at item {kept + 1} of step extract of docs/a.txt\n" in said
    assert "All is done." in said


def test_hints_in_errors_name_the_command_as_it_was_called(holdfast: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_COMMAND", "./hf")
    assert "create one with `./hf run`" in holdfast("status").stderr
    assert "submit some with `./hf run` or `./hf submit`" in holdfast("run", "papers.py").stdout
