from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.core.formatting import format_checkpoint, format_cursor, format_duration
from holdfast.core.model import Checkpoint, NewDocument, Output
from holdfast.core.plan import Shape, StepShape
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import StoreHarness
from tests.cli.conftest import Run

SHAPE = Shape(
    "p", (StepShape("chunk", "value"), StepShape("embed", "over", over="chunk"), StepShape("fetch", "stream"))
)
CHUNKS = [Output("chunk", 300, 0, None, None)]


def test_a_dead_letter_is_shown_with_its_traceback(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    told = holdfast("show", "docs/bad.txt").stdout
    assert "docs/bad.txt  in batch default of pipeline papers" in told
    assert "at step judge" in told
    assert "1 attempt, 0 crashes" in told
    assert f'{{"path":"{Path.cwd()}/docs/bad.txt"}}' in told
    assert "extract  5 items" in told
    assert "fail      at judge: ValueError: docs/bad.txt is not readable; was running, now dead  (by " in told
    assert 'raise ValueError(f"{name} is not readable")' in told


def test_a_document_is_shown_with_the_worker_that_had_it_last(holdfast: Run, folder: Path) -> None:
    clock = ManualClock(datetime.now(UTC))
    with closing(SqliteStore(f"sqlite:///{folder}/holdfast.db", clock=clock)) as store:
        harness = StoreHarness(store, clock)
        harness.finish(harness.submit_and_claim("a"))
        harness.submit_and_claim("b")
    assert "last held by  ann" in holdfast("show", "a").stdout
    assert "last held by" not in holdfast("show", "b").stdout
    assert json.loads(holdfast("show", "a", "--json").stdout)["worked_by"] == "ann"
    assert json.loads(holdfast("show", "b", "--json").stdout)["worked_by"] is None


RESTLESS = """
import holdfast

restless = holdfast.Pipeline("restless")
SOON = holdfast.Retry(base=holdfast_soon, ceiling=holdfast_soon)
seen = set()


def once(step):
    if step not in seen:
        seen.add(step)
        raise OSError(f"{step} is busy")


@restless.step(retry=SOON)
def first(doc):
    once("first")


@restless.step(retry=SOON)
def second(doc):
    once("second")
"""


def test_retries_are_counted_over_the_whole_life_of_a_document(holdfast: Run, folder: Path) -> None:
    soon = "__import__('datetime').timedelta(milliseconds=1)"
    (folder / "restless.py").write_text(RESTLESS.replace("holdfast_soon", soon))
    assert holdfast("run", "restless.py", "docs/a.txt").exit_code == 0
    shown = json.loads(holdfast("show", "docs/a.txt", "--json").stdout)
    assert (shown["retries"], shown["attempts"]) == (2, 0)
    assert "retries 2 in all" in " ".join(holdfast("show", "docs/a.txt").stdout.split())


def test_show_says_how_far_a_stream_is_and_how_many_items_it_said_it_has(holdfast: Run, folder: Path) -> None:
    (folder / "slow.py").write_text(
        "import holdfast\nslow = holdfast.Pipeline('slow')\n@slow.step(commit_every=1)\ndef pages(doc, cursor=0):\n"
        "    yield holdfast.total(120)\n    yield from range(6)\n    raise holdfast.Pause('may the rest be read?')\n"
    )
    holdfast("run", "slow.py", "docs/a.txt")
    shown = holdfast("show", "docs/a.txt").stdout
    assert "at step pages, item 6 of 120" in shown
    assert "6 of 120 items" in shown
    assert json.loads(holdfast("show", "docs/a.txt", "--json").stdout)["items_total"] == 120


def test_kept_items_are_printed_when_asked_for(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert 'extract[4]  {"number":4}' in holdfast("show", "docs/a.txt", "--items").stdout
    answer = json.loads(holdfast("show", "docs/a.txt", "--items", "--json").stdout)
    assert answer["items"][0] == {"step": "extract", "position": 0, "value": {"number": 0}}
    assert answer["state"] == "done"


def test_items_that_were_set_aside_are_shown_with_their_errors(holdfast: Run, folder: Path) -> None:
    (folder / "aside.py").write_text(
        "import holdfast\naside = holdfast.Pipeline('aside')\n@aside.step\ndef numbers(doc):\n"
        "    return list(range(20))\n"
        "@aside.step(over=numbers, retry=holdfast.Retry(attempts=1))\ndef halve(doc, number):\n"
        "    if number == 7:\n        raise ValueError('seven is odd')\n    return number / 2\n"
    )
    assert holdfast("run", "aside.py", "docs/a.txt").exit_code == 0
    told = holdfast("show", "docs/a.txt").stdout
    assert "halve, item 7, after 1 try: ValueError: seven is odd" in told
    assert "1 set aside" in told


def test_a_document_that_was_taken_over_is_shown_with_its_last_worker(holdfast: Run, folder: Path) -> None:
    clock = ManualClock(datetime.now(UTC) - timedelta(hours=3))
    with closing(SqliteStore(f"sqlite:///{folder}/holdfast.db", clock=clock)) as store:
        harness = StoreHarness(store, clock)
        harness.submit("a")
        harness.claim()
    holdfast("doc", "orphans", "papers", "--strategy", "fail", "--who", "cat", "--reason", "night")
    assert (
        "night; taken from ann; counts as a lost worker; was running, now dead  (by cat)"
        in holdfast("show", "a").stdout
    )


def test_a_renamed_document_is_shown_with_what_it_was_called(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    with closing(SqliteStore(f"sqlite:///{folder}/holdfast.db")) as store:
        moved = {f"{folder}/docs/a.txt": NewDocument(f"{folder}/docs/new/a.txt", {"path": f"{folder}/docs/new/a.txt"})}
        store.rename("papers", "default", moved, who="cat", reason="the file was moved")
    told = holdfast("show", "docs/new/a.txt").stdout
    assert f"rename    the file was moved; from {folder}/docs/a.txt to {folder}/docs/new/a.txt; still done" in told


def test_a_priority_is_shown_with_the_one_before(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    holdfast("doc", "priority", "10", "docs/a.txt", "--who", "cat", "--reason", "soon")
    said = holdfast("show", "docs/a.txt").stdout
    assert "soon; priority from 0 to 10; still waiting  (by cat)" in said


def test_what_was_cleaned_up_is_not_said_to_come_yet(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    holdfast("batch", "cleanup", "--older", "1ms")
    assert "kept: nothing; cleaned up at 20" in holdfast("show", "docs/a.txt").stdout
    explained = " ".join(holdfast("explain", "docs/a.txt").stdout.split())
    assert "its items were cleaned up at" in explained
    assert "What it kept" not in explained


REWINDS = """
import holdfast

rewinds = holdfast.Pipeline("rewinds")
calls = []

@rewinds.step
def extract(doc):
    return 1

@extract.verify
def is_there(doc):
    return calls.count("judge") > 1

@rewinds.step
def judge(doc):
    calls.append("judge")
    if len(calls) == 1:
        raise holdfast.RetryLater("busy", after=0.001)
"""


def test_a_rewind_is_shown_with_where_it_came_from_and_where_it_went(holdfast: Run, folder: Path) -> None:
    (folder / "rewinds.py").write_text(REWINDS)
    assert holdfast("run", "rewinds.py", "docs/a.txt").exit_code == 0
    told = holdfast("show", "docs/a.txt").stdout
    assert "rewind    from judge back to extract: the work of extract is gone  (by" in told


def test_the_path_may_be_written_another_way(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert holdfast("show", "./docs/a.txt").exit_code == 0


def test_an_unknown_key_suggests_near_ones(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("show", "a.txt")
    assert result.exit_code == 2
    assert "there is no document 'a.txt'" in result.stderr
    assert "similar keys: docs/a.txt" in result.stderr


def test_a_key_in_two_batches_lists_the_commands_that_tell_them_apart(holdfast: Run) -> None:
    for batch in ("march", "april"):
        holdfast("submit", "papers.py", "docs/a.txt", "--batch", batch)
    result = holdfast("show", "docs/a.txt")
    assert result.exit_code == 2
    assert "holdfast show docs/a.txt --pipeline papers --batch march   # waiting" in result.stderr
    assert holdfast("show", "docs/a.txt", "--batch", "april").exit_code == 0


def test_an_unknown_pipeline_lists_the_known(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert "it has: papers" in holdfast("show", "docs/a.txt", "--pipeline", "x").stderr


@pytest.mark.parametrize(
    ("step", "cursor", "words"),
    [
        (None, None, "past the last step"),
        ("embed", None, "at step embed"),
        ("embed", 128, "at step embed, item 128 of 300"),
        ("fetch", 1500, "at step fetch, item 1,500"),
        ("fetch", {"page": "x"}, 'at step fetch, cursor {"page":"x"}'),
        (
            "embed",
            {"next": 128, "done": [[192, 256]], "aside": [[130, 1]]},
            "at step embed, item 128 of 300, 64 beyond it done, 1 set aside",
        ),
    ],
)
def test_a_checkpoint_is_shown_in_words(step: str | None, cursor: object, words: str) -> None:
    assert format_checkpoint(Checkpoint(0, step, cursor, 3), SHAPE, CHUNKS) == words


@pytest.mark.parametrize("cursor", [{"next": "x"}, {"done": 5}, {"done": [[1]]}, {"done": ["ab"]}])
def test_a_damaged_cursor_is_shown_as_it_is(cursor: dict[str, object]) -> None:
    assert format_cursor("embed", cursor, SHAPE, CHUNKS) == f"cursor {json.dumps(cursor, separators=(',', ':'))}"


def test_a_damaged_document_is_shown_with_the_way_out(holdfast: Run, folder: Path) -> None:
    holdfast("submit", "papers.py", "docs")
    with closing(sqlite3.connect(folder / "holdfast.db")) as db, db:
        db.execute("update hf_document set cursor = '{', moves = 1 where key like '%/docs/a.txt'")
        db.execute("update hf_document set step_id = 4711 where key like '%/docs/b.txt'")
    holdfast("run", "papers.py", "docs")
    told = holdfast("show", "docs/a.txt").stdout
    assert "paused" in told
    assert "its cursor cannot be read" in told
    assert "then rewind it to extract" in told
    assert "at a step that the store does not know" in holdfast("show", "docs/b.txt").stdout
    assert holdfast("status").exit_code == 0


def test_a_step_that_is_gone_is_shown_by_its_cursor() -> None:
    assert format_cursor("gone", 5, None) == "item 5"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (42.4, "42 s"), (100, "1 min 40 s"), (5400, "1 h 30 min"), (400_000, "4 days")],
)
def test_a_duration_is_shown_as_a_person_writes_it(seconds: float, words: str) -> None:
    assert format_duration(seconds) == words
