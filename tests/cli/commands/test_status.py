from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.process_identity import this_host
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import StoreHarness
from tests.cli.conftest import Run


def test_a_batch_is_shown_as_a_balance(holdfast: Run, folder: Path) -> None:
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


def test_workers_are_shown_with_their_start_and_their_documents(holdfast: Run, folder: Path) -> None:
    clock = ManualClock(datetime.now(UTC) - timedelta(seconds=10))
    with closing(SqliteStore(f"sqlite:///{folder}/holdfast.db", clock=clock)) as store:
        harness = StoreHarness(store, clock)
        harness.submit("a", "b", "c")
        harness.claim(limit=2)
        bob = harness.register_worker("bob")
        harness.finish(harness.claim_one(worker=bob))
    told = " ".join(holdfast("status").stdout.partition("workers:")[2].split())
    since = clock().astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert f"since {since} holds 2 documents 0 done, 0 dead " in told
    assert f"since {since} holds 0 documents 1 done, 0 dead " in told
    ann, bob = json.loads(holdfast("status", "--json").stdout)["workers"]
    assert (ann["name"], ann["holds"], bob["name"], bob["holds"]) == ("ann", 2, "bob", 0)
    assert (ann["done"], ann["dead"], bob["done"], bob["dead"]) == (0, 0, 1, 0)
    assert datetime.fromisoformat(ann["registered_at"]) == clock()


def test_a_dead_letter_is_as_old_as_its_death(holdfast: Run, folder: Path) -> None:
    clock = ManualClock(datetime.now(UTC) - timedelta(hours=3))
    with closing(SqliteStore(f"sqlite:///{folder}/holdfast.db", clock=clock)) as store:
        harness = StoreHarness(store, clock)
        claim = harness.submit_and_claim()
        clock.advance(timedelta(hours=1))
        harness.make_dead(claim)
    assert "a at extract, 2 h 00 min ago: ValueError: not a page" in holdfast("status").stdout


def test_a_dead_worker_is_shown_with_its_last_heartbeat(holdfast: Run, folder: Path) -> None:
    clock = ManualClock(datetime.now(UTC) - timedelta(hours=2))
    with closing(SqliteStore(f"sqlite:///{folder}/holdfast.db", clock=clock)) as store:
        store.register_worker(name="ann", host=this_host(), pid=os.getpid(), born="another", lease=timedelta(days=1))
    told = holdfast("status").stdout
    assert "dead, last heartbeat 2 h 00 min ago; the next worker takes its documents" in told


def test_workers_that_ended_in_the_last_hour_are_counted(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    assert holdfast("status").stdout.endswith("workers: none\n  ended in the last hour: 1 worker, 2 done, 1 dead\n")
    answer = json.loads(holdfast("status", "--json").stdout)
    assert (answer["workers"], answer["gone_in_the_last_hour"]) == ([], {"workers": 1, "done": 2, "dead": 1})


def test_a_password_in_the_url_is_not_shown(holdfast: Run) -> None:
    from holdfast.core.passwords import hide_password

    assert hide_password("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"
    assert hide_password("sqlite:///x.db") == "sqlite:///x.db"
