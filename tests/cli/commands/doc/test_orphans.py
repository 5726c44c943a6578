from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.stores.protocol import Store
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing import ManualClock
from holdfast.testing.conformance.base import StoreHarness
from tests.cli.conftest import Run


@pytest.fixture
def night(folder: Path) -> Iterator[StoreHarness]:
    """Documents of a worker that died three hours ago: two in the batch march, one in april."""
    clock = ManualClock(datetime.now(UTC) - timedelta(hours=3))
    store = SqliteStore(f"sqlite:///{folder}/holdfast.db", clock=clock)
    harness = StoreHarness(store, clock)
    harness.submit("a", "b")
    harness.submit("c", batch="april")
    harness.keep(harness.claim()[0], "1", "2")
    yield harness
    store.close()


def states(store: Store) -> list[str]:
    return [one.state for key in "abc" for one in store.find(key)]


def test_orphans_are_listed_with_where_and_why(holdfast: Run, night: StoreHarness) -> None:
    told = holdfast("doc", "orphans").stdout
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert lines[0].startswith("papers/march/a at step extract, item 2 ann (silent) worker ann is silent since ")
    assert len(lines) == 4
    assert lines[3].startswith("3 orphans. To requeue them")
    assert "holdfast doc orphans --strategy requeue --reason ..." in lines[3]
    assert states(night.store) == ["running"] * 3


def test_nothing_is_an_orphan_within_the_grace(holdfast: Run, night: StoreHarness) -> None:
    told = holdfast("doc", "orphans", "papers", "--grace", "4h").stdout
    assert told.startswith("No orphans older than 4 h 00 min.\n3 younger orphans; to list: ")
    assert "3 orphans." in holdfast(*shlex.split(told.splitlines()[1].partition("holdfast ")[2])).stdout
    assert "No orphans" in holdfast("doc", "orphans", "--grace", "4h", "--strategy", "fail", "--reason", "x").stdout
    assert states(night.store) == ["running"] * 3


def test_resolved_orphans_are_notified(holdfast: Run, night: StoreHarness, folder: Path) -> None:
    command = ("doc", "orphans", "--strategy", "review", "--reason", "strange", "--notify", "command:tee notified.json")
    holdfast(*command, "--notify-on", "orphan_resolution")
    notified = json.loads((folder / "notified.json").read_text())
    assert (notified["event"], notified["strategy"], notified["count"]) == ("orphan_resolution", "review", 3)
    assert {document["batch"] for document in notified["documents"]} == {"march", "april"}
    assert notified["text"].startswith("papers: orphans kept for review: 3 documents: march/a at extract")


def test_orphans_that_are_kept_for_review_are_easy_to_find(holdfast: Run, night: StoreHarness) -> None:
    holdfast("doc", "orphans", "--strategy", "review", "--reason", "strange", "--batch", "march")
    told = holdfast("review", "list", "--orphans").stdout
    assert "2 documents wait for a decision:" in told
    assert "kept for review: worker ann is silent since" in told
    assert "(strange) (cursor 2, 0 attempts, 0 crashes, 1 loss)" in told
    listed = json.loads(holdfast("review", "list", "--json").stdout)["documents"]
    facts = {one["key"]: (one["orphan"], one["cursor"], one["losses"], one["worked_by"]) for one in listed}
    assert facts == {"a": (True, 2, 1, "ann"), "b": (True, None, 1, "ann")}
    dead = holdfast("dead", "list").stdout
    assert dead.splitlines() == [
        "There are no dead letters.",
        "2 orphans are kept for review, not dead: holdfast review list --orphans",
    ]
    assert json.loads(holdfast("dead", "list", "--json").stdout)["orphans_for_review"] == 2
    assert "orphan" not in holdfast("dead", "list", "--pipeline", "papers", "--batch", "april").stdout


def test_a_strategy_needs_a_reason(holdfast: Run, night: StoreHarness) -> None:
    result = holdfast("doc", "orphans", "papers", "--strategy", "fail")
    assert result.exit_code == 2
    assert "give a reason for the journal with --reason" in result.stderr
    assert states(night.store) == ["running"] * 3


@pytest.mark.parametrize(
    ("strategy", "state"), [("requeue", "waiting"), ("fail", "dead"), ("review", "paused")], ids=str
)
def test_a_strategy_resolves_the_orphans_of_a_batch(
    holdfast: Run, night: StoreHarness, strategy: str, state: str
) -> None:
    words = (
        "doc",
        "orphans",
        "papers",
        "--batch",
        "march",
        "--strategy",
        strategy,
        "--who",
        "cat",
        "--reason",
        "night",
    )
    assert "2 of 2 orphans are now" in holdfast(*words).stdout
    assert states(night.store) == [state, state, "running"]
    (entry,) = night.store.journal(night.document("a").id)
    assert (entry.verb, entry.who, entry.detail["reason"]) == ("reclaim", "cat", "night")
    assert (entry.detail["was"], entry.detail["state"]) == ("running", state)
    assert "No orphans" in holdfast(*words).stdout


def test_only_what_is_named_is_taken(holdfast: Run, night: StoreHarness) -> None:
    how = ("--strategy", "requeue", "--reason", "night")
    assert "No orphans" in holdfast("doc", "orphans", "papers", "b", "--worker", "bob", *how).stdout
    assert states(night.store) == ["running"] * 3
    assert (
        "1 of 1 orphan is now waiting again."
        in holdfast("doc", "orphans", "papers", "b", "--worker", "ann", *how).stdout
    )
    assert states(night.store) == ["running", "waiting", "running"]
    assert "2 of 2 orphans are now" in holdfast("doc", "orphans", "--worker", "ann", *how).stdout


def test_what_is_advised_for_named_documents_is_about_them_only(holdfast: Run, night: StoreHarness) -> None:
    told = holdfast("doc", "orphans", "papers", "a", "--batch", "march", "--worker", "ann", "--grace", "1m").stdout
    advised = "holdfast doc orphans papers a --batch march --worker ann --grace 60s --strategy requeue --reason ..."
    assert told.splitlines()[-1].endswith(advised)


def test_who_decides_is_known_from_the_environment(
    holdfast: Run, night: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_WHO", "dan")
    holdfast("doc", "orphans", "--strategy", "requeue", "--reason", "night")
    assert night.store.journal(night.document("a").id)[0].who == "dan"


def test_a_dry_run_only_says_what_would_be_done(holdfast: Run, night: StoreHarness) -> None:
    told = holdfast("doc", "orphans", "--strategy", "fail", "--reason", "x", "--dry-run").stdout
    assert "3 orphans would be dead letters; nothing was done." in told
    assert states(night.store) == ["running"] * 3


def test_json_has_every_orphan(holdfast: Run, night: StoreHarness) -> None:
    answer = json.loads(holdfast("doc", "orphans", "papers", "--json").stdout)
    assert (answer["strategy"], answer["resolved"]) == (None, 0)
    first = answer["orphans"][0]
    assert (first["key"], first["step"], first["cursor"], first["now"]) == ("a", "extract", 2, "running")
    assert (first["sign"], first["worker_alive"]) == ("silent", False)
    answer = json.loads(holdfast("doc", "orphans", "papers", "--strategy", "review", "--reason", "x", "--json").stdout)
    assert answer["resolved"] == 3
    assert {one["now"] for one in answer["orphans"]} == {"paused"}


def test_json_counts_those_within_the_grace_as_the_text_does(holdfast: Run, night: StoreHarness) -> None:
    answer = json.loads(holdfast("doc", "orphans", "papers", "--grace", "4h", "--json").stdout)
    assert (answer["orphans"], answer["younger"]) == ([], 3)
    assert json.loads(holdfast("doc", "orphans", "papers", "--json").stdout)["younger"] == 0


def test_those_within_the_grace_are_shown_beside_older_ones(holdfast: Run, night: StoreHarness) -> None:
    night.clock.advance(timedelta(hours=2))
    night.submit("young")
    night.claim(worker=night.register_worker("bob"))
    told = holdfast("doc", "orphans", "papers").stdout
    assert "3 orphans." in told
    assert "1 younger orphan; to list: holdfast doc orphans papers --grace " in told
    answer = json.loads(holdfast("doc", "orphans", "papers", "--json").stdout)
    assert (len(answer["orphans"]), answer["younger"]) == (3, 1)


def test_more_orphans_than_a_person_reads_are_counted(holdfast: Run, night: StoreHarness) -> None:
    night.submit(*(f"n{number}" for number in range(60)))
    night.claim()
    told = holdfast("doc", "orphans", "papers").stdout
    assert "... and 13 more: holdfast doc orphans papers --json" in told
    assert "63 orphans." in told


def test_an_unknown_pipeline_is_refused(holdfast: Run, night: StoreHarness) -> None:
    assert "has no pipeline 'paper'" in holdfast("doc", "orphans", "paper").stderr
    assert "has no batch 'may'" in holdfast("doc", "orphans", "papers", "--batch", "may").stderr


def test_looking_does_not_make_a_store(holdfast: Run) -> None:
    assert holdfast("doc", "orphans").exit_code == 3


def test_reconcile_shows_how_many_of_the_running_are_orphaned(holdfast: Run, night: StoreHarness) -> None:
    assert "march: of the 2 running, 2 orphaned" in holdfast("batch", "reconcile", "papers").stdout


def test_reconcile_has_no_word_about_orphans_where_there_are_none(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    assert "orphaned" not in holdfast("batch", "reconcile", "papers").stdout


def test_one_orphan_is_shown_in_the_singular(holdfast: Run, night: StoreHarness) -> None:
    words = ("doc", "orphans", "papers", "--batch", "april", "--strategy", "requeue", "--reason", "night")
    assert "1 of 1 orphan is now waiting again." in holdfast(*words).stdout
