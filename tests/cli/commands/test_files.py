from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, sql

LOAD = ("files", "load", "a.csv", "--table", "event", "--min-age", "1ms")


@pytest.fixture
def records(folder: Path) -> Path:
    path = folder / "a.csv"
    path.write_text("id,name\n1,Ann\n2\n3,Cy\n")
    return path


def test_records_are_loaded_and_counted(holdfast: Run, records: Path) -> None:
    result = holdfast(*LOAD, "--max-failed", "1")
    assert result.exit_code == 0
    assert "Records in event: 3 read, 0 filtered, 2 rows, 1 set aside." in result.stdout
    assert sql("select id, name from event order by id") == [(1, "Ann"), (3, "Cy")]
    assert "3 read, 0 filtered, 2 rows, 1 set aside" in holdfast("files", "status").stdout


def test_too_many_bad_records_end_with_code_1(holdfast: Run, records: Path) -> None:
    result = holdfast(*LOAD)
    assert result.exit_code == 1
    assert "more than 10% of the records" in holdfast("files", "failed").stdout
    (again,) = [line for line in result.stdout.splitlines() if line.startswith("  again: holdfast ")]
    assert again.endswith(" --retry")
    result = holdfast(*again.split()[2:], "--max-failed", "50%")
    assert result.exit_code == 0
    assert sql("select id, name from event order by id") == [(1, "Ann"), (3, "Cy")]


def test_an_export_is_corrected_and_loaded(holdfast: Run, records: Path) -> None:
    holdfast(*LOAD, "--max-failed", "1")
    holdfast("files", "failed", "--export", "bad.jsonl")
    (record,) = map(json.loads, Path("bad.jsonl").read_text().splitlines())
    assert (record["line"], record["offset"], record["raw"]) == (3, 14, "2\n")
    Path("bad.jsonl").write_text(json.dumps(record | {"raw": "2,Ben"}))
    result = holdfast("files", "retry", "--table", "event", "--mended", "bad.jsonl")
    assert "1 record loaded" in result.stdout
    assert sql("select id, name from event order by id") == [(1, "Ann"), (2, "Ben"), (3, "Cy")]


def test_a_transform_is_the_first_source(holdfast: Run, records: Path) -> None:
    Path("t.py").write_text("def upper(record):\n    return {'name': record['name'].upper()}\n")
    result = holdfast("files", "load", "t.py", *LOAD[2:], "--max-failed", "50%", "--json")
    assert result.exit_code == 0
    assert sql("select name from event order by name") == [("ANN",), ("CY",)]


def test_a_watch_ends_with_its_budget(holdfast: Run, records: Path) -> None:
    result = holdfast(*LOAD, "--max-failed", "1", "--watch", "--budget", "1s")
    assert "its time is up" in result.stdout
    assert sql("select count(*) from event") == [(2,)]


def test_a_dry_run_says_what_would_happen(holdfast: Run, records: Path) -> None:
    result = holdfast(*LOAD, "--dry-run", "--json")
    assert json.loads(result.stdout)["columns"] == {"id": "integer", "name": "text"}
    assert json.loads(result.stdout)["counts"]["set_aside"] == 1


@pytest.mark.parametrize(("option", "value"), [("--max-failed", "many"), ("--after", "burn"), ("--type", "id=float9")])
def test_a_wrong_value_is_refused_with_a_sentence(holdfast: Run, records: Path, option: str, value: str) -> None:
    result = holdfast(*LOAD, option, value)
    assert result.exit_code == 2
    assert value in result.stderr
