from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run, sql

WHY = ("--reason", "because", "--who", "ann")


def story(holdfast: Run, key: str) -> Any:
    return json.loads(holdfast("show", key, "--json").stdout)


def states(holdfast: Run) -> dict[str, int]:
    (pipeline,) = json.loads(holdfast("status", "--json").stdout)["pipelines"]
    (batch,) = pipeline["batches"]
    return {state: batch[state] for state in ("waiting", "paused", "done", "cancelled") if batch[state]}


def test_documents_are_cancelled_by_batch_with_a_line_in_the_journal(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    assert holdfast("doc", "cancel", "--batch", "march", *WHY).stdout == "2 documents cancelled.\n"
    assert states(holdfast) == {"cancelled": 2}
    (line,) = story(holdfast, "docs/a.txt")["journal"]
    assert (line["verb"], line["who"]) == ("cancel", "ann")
    assert line["detail"] == {"reason": "because", "was": "waiting", "state": "cancelled"}
    assert "2 documents not changed: they have ended." in holdfast("doc", "cancel", "--batch", "march", *WHY).stdout


def test_paused_documents_wait_for_a_resume(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    assert holdfast("doc", "pause", "docs/a.txt", *WHY).stdout == "1 document paused.\n"
    holdfast("run", "papers.py")
    assert states(holdfast) == {"paused": 1, "done": 1}
    assert holdfast("doc", "resume", "--all", *WHY).stdout == "1 document resumed.\n"
    holdfast("run", "papers.py")
    assert states(holdfast) == {"done": 2}


def test_a_pause_for_a_while_ends_by_itself(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    assert holdfast("doc", "pause", "docs/a.txt", "--for", "10ms", *WHY).exit_code == 0
    holdfast("run", "papers.py")
    holdfast("run", "papers.py")
    assert states(holdfast) == {"done": 2}


def test_a_priority_is_given_and_told(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    assert holdfast("doc", "priority", "7", "docs/b.txt", *WHY).stdout == "1 document set to priority 7.\n"
    assert story(holdfast, "docs/b.txt")["priority"] == 7


def test_a_rewind_redoes_from_the_step_on_and_reuses_what_is_before(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    dry = holdfast("doc", "rewind", "--to", "judge", "--state", "done", "--dry-run", *WHY)
    assert dry.stdout == "2 documents would be rewound to judge; nothing was changed.\n"
    assert (
        holdfast("doc", "rewind", "--to", "judge", "--state", "done", *WHY).stdout == "2 documents rewound to judge.\n"
    )
    assert states(holdfast) == {"waiting": 2}
    holdfast("run", "papers.py")
    told = story(holdfast, "docs/a.txt")
    assert (told["state"], told["checkpoint"]["generation"]) == ("done", 1)
    assert {one["step"]: one["items"] for one in told["outputs"]} == {"extract": 5, "judge": 1}


def test_documents_that_stand_before_the_step_are_not_changed(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    told = holdfast("doc", "rewind", "docs/a.txt", "--to", "judge", *WHY).stdout
    assert told.startswith("0 documents rewound to judge.\n1 document not changed: they have not reached judge, or")


def test_a_rewind_needs_a_place_a_reason_and_a_step_that_is_there(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert "say where to go back to: --to STEP, or --stale" in holdfast("doc", "rewind", "--all", *WHY).stderr
    assert "give a reason for the journal" in holdfast("doc", "rewind", "--all", "--to", "judge").stderr
    assert (
        "has no step 'nowhere'; it has: extract, judge"
        in holdfast("doc", "rewind", "--all", "--to", "nowhere", *WHY).stderr
    )


def test_stale_work_is_redone_by_the_command_that_plan_names(holdfast: Run, folder: Path) -> None:
    holdfast("run", "papers.py", "docs")
    pipeline = folder / "papers.py"
    pipeline.write_text(pipeline.read_text().replace("@papers.step(retry=ONCE)", "@papers.step(retry=ONCE, version=2)"))
    command = holdfast("plan", "papers.py").stdout.splitlines()[-1].partition("holdfast ")[2].split()
    told = holdfast(*command).stdout
    assert "judge changed: version 1 -> 2" in told
    assert "2 documents rewound to judge.\n" in told
    holdfast("run", "papers.py")
    assert "version 1 -> 2" in str(story(holdfast, "docs/a.txt")["journal"])
    assert holdfast(*command).stdout == "No work of papers is stale.\n"


def test_an_ambiguous_key_lists_the_exact_commands(holdfast: Run) -> None:
    for batch in ("march", "april"):
        holdfast("submit", "papers.py", "docs/a.txt", "--batch", batch)
    result = holdfast("doc", "cancel", "docs/a.txt", *WHY)
    assert result.exit_code == 2
    assert "holdfast doc cancel docs/a.txt --pipeline papers --batch march   # waiting" in result.stderr
    assert holdfast("doc", "cancel", "docs/a.txt", "--batch", "april", *WHY).exit_code == 0


def test_decisions_are_reported_to_programs(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    answer = json.loads(holdfast("doc", "cancel", "--all", "--json", *WHY).stdout)
    assert (answer["changed"], answer["left_alone"]) == (2, 0)


GATED = """
import holdfast

gated = holdfast.Pipeline("gated")

@gated.step
def draft(doc):
    return doc.key

gated.gate("legal")
"""


def test_resuming_all_after_a_pause_decides_nothing_for_anybody(holdfast: Run, folder: Path) -> None:
    (folder / "gated.py").write_text(GATED)
    holdfast("run", "gated.py", "docs/a.txt")
    holdfast("submit", "gated.py", "docs/b.txt")
    assert "1 document paused.\n1 document not changed" in holdfast("doc", "pause", "--all", *WHY).stdout
    told = holdfast("doc", "resume", "--all", *WHY).stdout
    assert told == "1 document resumed.\n1 document waits for a decision: holdfast review list --pipeline gated\n"
    assert story(holdfast, "docs/a.txt")["checkpoint"]["step"] == "legal"
    assert holdfast("doc", "resume", "--step", "legal", *WHY).stdout == "1 document resumed.\n"
    assert story(holdfast, "docs/a.txt")["state"] == "done"


def test_what_is_on_hold_is_nothing_to_review(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    holdfast("doc", "pause", "--all", *WHY)
    assert holdfast("review", "list").stdout == "No document waits for a decision.\n"


def test_documents_are_named_or_described_and_not_both(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    result = holdfast("doc", "cancel", "docs/a.txt", "--state", "done", *WHY)
    assert result.exit_code == 2
    assert "give keys of documents, or --state, but not both" in result.stderr


def test_a_pattern_means_all_keys_like_it(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    assert holdfast("doc", "cancel", "*/b.*", *WHY).stdout == "1 document cancelled.\n"
    assert story(holdfast, "docs/b.txt")["state"] == "cancelled"


def test_a_dry_run_counts_what_would_really_change(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs/a.txt")
    holdfast("submit", "papers.py", "docs/b.txt")
    told = holdfast("doc", "cancel", "--all", "--dry-run", *WHY).stdout
    assert told == "1 document would be cancelled; nothing was changed. 1 would not be changed.\n"
    told = holdfast("doc", "rewind", "--all", "--to", "judge", "--dry-run", "--json", *WHY).stdout
    assert json.loads(told) == {"would_change": 1, "meant": 2}


def test_documents_of_a_closed_batch_are_not_changed_for_that_reason(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert holdfast("batch", "close", "papers.py", "default", "--seal", *WHY).exit_code == 0
    told = holdfast("doc", "rewind", "--all", "--to", "judge", *WHY).stdout
    assert told == "0 documents rewound to judge.\n2 documents not changed: their batch is closed.\n"
    assert holdfast("run", "papers.py", "docs").exit_code == 0  # all is unchanged


def test_stale_work_is_not_narrowed_by_what_would_be_ignored(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert (
        "--stale selects the documents itself" in holdfast("doc", "rewind", "docs/a.txt", "--stale", "papers.py").stderr
    )
    assert "has no batch 'nosuch'" in holdfast("doc", "rewind", "--stale", "papers.py", "--batch", "nosuch").stderr


def test_an_empty_reason_is_refused(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    assert (
        "it is written to the journal and must not be empty"
        in holdfast("doc", "cancel", "--all", "--reason", " ").stderr
    )


def test_numbers_and_durations_that_are_too_large_are_refused(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    assert holdfast("doc", "priority", "99999999999", "--all", *WHY).exit_code == 2
    assert "longer than 100 years" in holdfast("doc", "pause", "--all", "--for", "9999999d", *WHY).stderr


BILLS = """
import holdfast

bills = holdfast.Pipeline("bills")


@bills.step
def price(doc):
    return 5


@price.effect
def add(tx, doc, cents):
    tx.execute("insert into bill values (?, ?)", (doc.key, cents))


@price.undo
def remove(tx, doc):
    if doc.key.endswith("/docs/b.txt"):
        raise ValueError("it is paid")
    tx.execute("delete from bill where key = ?", (doc.key,))


def prepare(tx):
    tx.execute("create table if not exists bill (key text, cents integer)")
"""


def test_documents_that_are_done_are_cancelled_together_with_their_rows(holdfast: Run, folder: Path) -> None:
    (folder / "bills.py").write_text(BILLS)
    holdfast("run", "bills.py", "docs")
    undo = ("--undo", "bills.py", *WHY)
    dry = holdfast("doc", "cancel", "docs/a.txt", "--dry-run", *undo)
    assert dry.stdout == "1 document would be cancelled, and the rows of their effects removed; nothing was changed.\n"
    assert len(sql("select * from bill")) == 2
    told = holdfast("doc", "cancel", "docs/a.txt", *undo)
    assert (told.exit_code, told.stdout) == (0, "1 document cancelled, and the rows of their effects removed.\n")
    assert sql("select key from bill") == [(f"{Path.cwd()}/docs/b.txt",)]
    assert story(holdfast, "docs/a.txt")["journal"][-1]["verb"] == "withdraw"
    again = holdfast("doc", "cancel", "docs/a.txt", *undo).stdout
    assert "1 document not changed: they were cancelled before and have no rows, or" in again


def test_documents_whose_undo_fails_are_named_and_stay(holdfast: Run, folder: Path) -> None:
    (folder / "bills.py").write_text(BILLS)
    holdfast("run", "bills.py", "docs")
    told = holdfast("doc", "cancel", "--all", "--undo", "bills.py", *WHY)
    assert told.exit_code == 1
    assert told.stdout.startswith("1 document cancelled, and the rows of their effects removed.\n")
    assert (
        "1 document not changed: they were cancelled before and have no rows, or their rows could not be" in told.stdout
    )
    assert told.stderr == (
        f"{Path.cwd()}/docs/b.txt of default: the undo of step 'price' failed, so the document was not changed: "
        "ValueError: it is paid\n"
    )
    assert states(holdfast) == {"done": 1, "cancelled": 1}
    assert sql("select key from bill") == [(f"{Path.cwd()}/docs/b.txt",)]


def test_a_pipeline_that_cannot_remove_its_rows_cancels_nothing(holdfast: Run, folder: Path) -> None:
    (folder / "bills.py").write_text(BILLS.replace("@price.undo", "#"))
    holdfast("run", "bills.py", "docs")
    told = holdfast("doc", "cancel", "--all", "--undo", "bills.py", *WHY)
    assert told.exit_code == 2
    assert "the effect of price has no undo, so its rows cannot be removed; write one with @price.undo" in told.stderr
    assert states(holdfast) == {"done": 2}


def test_an_undo_of_another_pipeline_than_the_one_named_is_refused(holdfast: Run, folder: Path) -> None:
    (folder / "bills.py").write_text(BILLS)
    holdfast("run", "bills.py", "docs")
    told = holdfast("doc", "cancel", "--all", "--pipeline", "papers", "--undo", "bills.py", *WHY)
    assert told.exit_code == 2
    assert "--undo names the pipeline 'bills', and --pipeline names 'papers'" in told.stderr
