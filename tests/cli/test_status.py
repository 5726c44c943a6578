from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.engine.hosts import this_host
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import Desk
from tests.cli.conftest import Run


def test_a_batch_is_told_as_a_balance(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    lines = [" ".join(line.split()) for line in holdfast("status").stdout.splitlines()]
    assert "papers: extract → judge" in lines
    assert "batch expected = done + dead + cancelled + running + waiting + paused" in lines
    assert "default open 3 = 2 + 1 + 0 + 0 + 0 + 0 balances" in lines
    assert any(line.startswith("docs/bad.txt at judge") and "ValueError" in line for line in lines)
    assert "workers: none" in lines


def test_open_documents_are_counted_by_step(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    assert "march, at steps: extract 2" in holdfast("status", "papers").stdout


def test_status_needs_no_pipeline_file(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    (folder / "papers.py").unlink()
    assert holdfast("status", "papers").exit_code == 0


def test_a_pipelines_file_may_stand_for_its_name(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert holdfast("status", "papers.py").exit_code == 0


def test_an_unknown_pipeline_or_batch_lists_the_known(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    result = holdfast("status", "paper")
    assert result.exit_code == 2
    assert "has no pipeline 'paper' (did you mean 'papers'?); it has: papers" in result.stderr
    assert "has no batch 'march'; it has: default" in holdfast("status", "papers", "--batch", "march").stderr


def test_looking_does_not_make_a_store(holdfast: Run, folder: Path) -> None:
    result = holdfast("status")
    assert result.exit_code == 3
    assert "there is no store at sqlite:///holdfast.db" in result.stderr
    assert not list(folder.glob("holdfast.db*"))


def test_json_has_the_whole_of_it(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    answer = json.loads(holdfast("status", "--json").stdout)
    (pipeline,) = answer["pipelines"]
    assert pipeline["steps"] == ["extract", "judge"]
    assert pipeline["batches"][0]["balances"] is True
    assert pipeline["dead_letters"][0]["step"] == "judge"


def test_workers_are_told_with_since_when_they_live_and_what_they_hold(holdfast: Run, folder: Path) -> None:
    clock = ManualClock(datetime.now(UTC) - timedelta(seconds=10))
    with closing(SqliteStore(f"sqlite:///{folder}/holdfast.db", clock=clock)) as store:
        desk = Desk(store, clock)
        desk.submit("a", "b", "c")
        desk.claim(limit=2)
        bob = desk.enlist("bob")
        desk.finish(desk.claim_one(worker=bob))
    told = " ".join(holdfast("status").stdout.partition("workers:")[2].split())
    since = clock().astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert f"since {since} holds 2 documents 0 done, 0 dead " in told
    assert f"since {since} holds 0 documents 1 done, 0 dead " in told
    ann, bob = json.loads(holdfast("status", "--json").stdout)["workers"]
    assert (ann["name"], ann["holds"], bob["name"], bob["holds"]) == ("ann", 2, "bob", 0)
    assert (ann["done"], ann["dead"], bob["done"], bob["dead"]) == (0, 0, 1, 0)
    assert datetime.fromisoformat(ann["enlisted_at"]) == clock()


def test_a_dead_letter_is_as_old_as_its_death(holdfast: Run, folder: Path) -> None:
    clock = ManualClock(datetime.now(UTC) - timedelta(hours=3))
    with closing(SqliteStore(f"sqlite:///{folder}/holdfast.db", clock=clock)) as store:
        desk = Desk(store, clock)
        claim = desk.take_in()
        clock.advance(timedelta(hours=1))
        desk.bury(claim)
    assert "a at extract, 2 h 00 min ago: ValueError: not a page" in holdfast("status").stdout


def test_a_worker_that_is_gone_is_told_with_when_it_was_heard_last(holdfast: Run, folder: Path) -> None:
    clock = ManualClock(datetime.now(UTC) - timedelta(hours=2))
    with closing(SqliteStore(f"sqlite:///{folder}/holdfast.db", clock=clock)) as store:
        store.enlist(name="ann", host=this_host(), pid=os.getpid(), born="another", lease=timedelta(days=1))
    told = holdfast("status").stdout
    assert "gone, last heard 2 h 00 min ago; the next worker takes its documents" in told


def test_workers_that_are_gone_since_an_hour_are_counted_in_sum(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    assert holdfast("status").stdout.endswith("workers: none\n  gone in the last hour: 1 worker, 2 done, 1 dead\n")
    answer = json.loads(holdfast("status", "--json").stdout)
    assert (answer["workers"], answer["gone_in_the_last_hour"]) == ([], {"workers": 1, "done": 2, "dead": 1})


def test_a_password_in_the_url_is_not_shown(holdfast: Run) -> None:
    from holdfast.cli.asked import shown

    assert shown("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"
    assert shown("sqlite:///x.db") == "sqlite:///x.db"
