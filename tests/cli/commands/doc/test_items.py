"""`holdfast doc items`: items that were set aside are listed and tried again, over all documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine.api import opened
from tests.cli.conftest import Run

SCANS = """
import holdfast
from pathlib import Path

scans = holdfast.Pipeline("scans")


@scans.step
def pages(doc):
    return [1, 2, 3]


@scans.step(over=pages, failure_rate=1.0, retry=holdfast.Retry(attempts=1))
def read(doc, page):
    if page == 2 and not Path("mended").exists():
        raise TimeoutError(f"page {page} of {doc.key}")
    return f"page {page}"


@scans.step
def count(doc):
    return len(doc.output(read))
"""


@pytest.fixture
def scanned(holdfast: Run, folder: Path) -> None:
    """Two documents that are done, each with one item that was set aside."""
    (folder / "scans.py").write_text(SCANS)
    assert holdfast("run", "scans.py", "docs").exit_code == 0


def listed(holdfast: Run, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(holdfast("doc", "items", "list", "--json", *words).stdout)["items"]
    return found


@pytest.mark.usefixtures("scanned")
def test_items_are_listed_with_the_commands_that_help(holdfast: Run) -> None:
    told = holdfast("doc", "items", "list").stdout
    assert "2 items are set aside:" in told
    assert "read[1]" in told
    assert "TimeoutError: page 2 of " in told
    assert "holdfast doc items redrive " in told


@pytest.mark.usefixtures("scanned")
def test_the_list_is_narrowed_by_key_step_class_and_text(holdfast: Run) -> None:
    keys = [item["key"] for item in listed(holdfast)]
    assert len(keys) == 2
    assert [item["key"] for item in listed(holdfast, keys[0])] == keys[:1]
    assert [item["position"] for item in listed(holdfast, "*b.txt", "--step", "read")] == [1]
    assert len(listed(holdfast, "--error", "TimeoutError", "--text", "PAGE 2")) == 2
    assert listed(holdfast, "--text", "page 3") == listed(holdfast, "--step", "count") == []
    assert json.loads(holdfast("doc", "items", "list", "--json", "--limit", "1").stdout)["more"] is True


@pytest.mark.usefixtures("scanned")
def test_redriven_items_are_tried_again_and_later_steps_follow(holdfast: Run, folder: Path) -> None:
    (folder / "mended").touch()
    would = holdfast("doc", "items", "redrive", "--all", "--reason", "the scanner is back", "--dry-run")
    assert would.stdout == "2 items would be tried again; nothing was changed.\n"
    done = holdfast("doc", "items", "redrive", "*a.txt", "--who", "ann", "--reason", "the scanner is back")
    assert done.stdout == "1 item of 1 document will be tried again.\n"
    assert holdfast("run", "scans.py").exit_code == 0
    (left,) = listed(holdfast)
    assert left["key"].endswith("b.txt")
    with opened("sqlite:///holdfast.db") as store:
        (a,) = [one for one in store.documents("scans") if one.key.endswith("a.txt")]
        assert ("count", "3") in [(step, kept) for step, _, kept in store.items(a.id)]
        assert [(entry.verb, entry.who) for entry in store.journal(a.id)][-1:] == [("rewind", "ann")]


@pytest.mark.usefixtures("scanned")
def test_items_of_a_batch_that_is_on_hold_are_not_changed(holdfast: Run) -> None:
    holdfast("doc", "items", "redrive", "--position", "1", "--reason", "again")
    holdfast("doc", "pause", "--all", "--reason", "wait")
    assert holdfast("doc", "items", "redrive", "--all", "--reason", "again").stdout == (
        "0 items of 0 documents will be tried again.\n"
    )


@pytest.mark.usefixtures("scanned")
def test_a_redrive_needs_to_be_told_which_items(holdfast: Run) -> None:
    refused = holdfast("doc", "items", "redrive", "--reason", "again")
    assert refused.exit_code == 2
    assert "say which items" in refused.stderr


def test_without_items_it_says_so(holdfast: Run) -> None:
    holdfast("run", "papers.py", "docs")
    assert holdfast("doc", "items", "list").stdout == "No items are set aside.\n"
