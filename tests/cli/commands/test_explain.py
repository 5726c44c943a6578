from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_a_document_is_explained(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    told = holdfast("explain", "docs/b.txt").stdout
    assert "It waits for a worker at step extract" in told
    assert "1 document comes before it" in told
    assert "No worker is alive: start one with `holdfast work PIPELINE.py`." in told


def test_a_dead_letter_is_explained_with_commands_for_the_same_store(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs", "--store", "sqlite:///other.db")
    told = holdfast("explain", "docs/bad.txt", "--store", "sqlite:///other.db").stdout
    assert "ValueError: docs/bad.txt is not readable" in told
    assert "`holdfast dead redrive docs/bad.txt --reason ... --store sqlite:///other.db`" in told


def test_a_batch_is_explained(holdfast: Run, folder: Path) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs", "--batch", "march")
    told = holdfast("explain", "--batch", "march").stdout
    assert told.startswith("2 of 3 documents of batch march are done, and nothing is open any more.")
    assert f"1 is a dead letter at step judge, with ValueError ({Path.cwd()}/docs/bad.txt" in told


def test_the_pipeline_of_a_batch_may_be_named_or_its_file(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    begins = "0 of 2 documents of batch march are done"
    for words in (["papers"], ["papers.py"], ["--pipeline", "papers"]):
        assert holdfast("explain", "--batch", "march", *words).stdout.startswith(begins)


def test_a_document_comes_before_a_pipeline_of_its_name(holdfast: Run, folder: Path) -> None:
    (folder / "papers").write_text("x")
    holdfast("submit", "papers.py", "papers", "--batch", "march")
    assert "It waits for a worker" in holdfast("explain", "papers", "--batch", "march").stdout


def test_json_has_sentences_and_facts(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs", "--batch", "march")
    answer = json.loads(holdfast("explain", "docs/a.txt", "--json").stdout)
    assert (answer["cause"], answer["ahead"], answer["key"]) == ("due", 0, f"{Path.cwd()}/docs/a.txt")
    assert answer["sentences"][0].startswith("It waits for a worker")
    answer = json.loads(holdfast("explain", "--batch", "march", "--json").stdout)
    assert answer["causes"][0]["documents"] == 2
    assert answer["balance"]["balances"] is True


def test_an_unknown_document_or_batch_is_reported(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs")
    assert "say what to explain" in holdfast("explain").stderr
    assert "there is no document 'a.txt'" in holdfast("explain", "a.txt").stderr
    assert "has no batch 'may'" in holdfast("explain", "--batch", "may").stderr
    assert "has no batch 'may'; it has: default" in holdfast("explain", "--batch", "may", "papers").stderr


def test_an_ambiguous_key_or_batch_lists_the_commands(holdfast: Run, folder: Path) -> None:
    (folder / "other.py").write_text(
        (folder / "papers.py").read_text().replace('Pipeline("papers")', 'Pipeline("other")')
    )
    for pipeline in ("papers.py", "other.py"):
        holdfast("submit", pipeline, "docs", "--batch", "march")
    assert "holdfast explain docs/a.txt --pipeline other --batch march" in holdfast("explain", "docs/a.txt").stderr
    assert "holdfast explain --batch march --pipeline other" in holdfast("explain", "--batch", "march").stderr


def test_one_open_document_is_shown_in_the_singular(holdfast: Run) -> None:
    holdfast("submit", "papers.py", "docs/a.txt")
    said = " ".join(holdfast("explain", "papers", "--batch", "default").stdout.split())
    assert "and 1 is still open. To see it: " in said
