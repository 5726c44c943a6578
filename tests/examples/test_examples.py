"""Examples are tests: each is run as its docstring says, and must print what it promises."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
ALL = sorted(EXAMPLES.glob("*.py"))


def run(folder: Path, *arguments: str | Path, **environment: str) -> str:
    """Run Python with these arguments and return its output."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_an_example_says_what_it_shows_and_how_to_run_it(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert f"examples/{path.name}" in docstring, "the docstring must have the command that runs the example"


def test_a_cursor_that_expired_begins_anew_and_one_that_did_not_goes_on(tmp_path: Path) -> None:
    output = run(tmp_path, EXAMPLES / "own_cursor.py")
    assert output.count("search") == 2
    assert "rewind: the cursor of fetch is" in output
    assert "stored: 100 records" in output


def test_a_renamed_step_is_refused_then_declared(tmp_path: Path) -> None:
    output = run(tmp_path, EXAMPLES / "renamed_step.py")
    assert "1 at 'tidy', such as 'a'" in output
    assert "Pipeline('notes', renamed={'tidy': 'normalise'})" in output
    assert output.count("fetch runs") == 1
    assert "THE TEXT OF A" in output


def test_a_gate_waits_for_a_person(tmp_path: Path) -> None:
    output = run(tmp_path, EXAMPLES / "review_gate.py")
    assert "boat: gate approval: a person has to decide" in output
    assert "boat: what should the letter say?" in output
    assert "done=2, dead=1" in output
    assert "We offer 100 for boat. Yours truly. Signed for Ada." in output
    assert "We offer 9 for oar. Signed for Ada." in output


def test_being_throttled_costs_no_attempt_and_nothing_is_printed_twice(tmp_path: Path) -> None:
    output = run(tmp_path, EXAMPLES / "throttled.py")
    assert "20 done" in output
    assert "20 labels" in output


def test_the_word_statistics_find_the_copies_among_the_letters(tmp_path: Path) -> None:
    database = tmp_path / "letters.db"
    command = ("-m", "holdfast", "run", EXAMPLES / "word_statistics.py", EXAMPLES / "letters")
    run(tmp_path, *command, "--store", f"sqlite:///{database}", OCR_SECONDS="0")
    output = run(tmp_path, EXAMPLES / "word_statistics.py", database)
    assert "24 letters, 240 pages, 100609 words" in output
    assert "letter_04.txt and letter_22.txt" in output
    assert output.count("near-duplicates") == 3


def test_the_letters_are_what_their_maker_writes() -> None:
    sys.path.insert(0, str(EXAMPLES))
    try:
        import write_letters
    finally:
        sys.path.remove(str(EXAMPLES))
    kept = {path.name: path.read_text(encoding="utf-8") for path in (EXAMPLES / "letters").iterdir()}
    assert kept == write_letters.letters()


def test_account_numbers_never_reach_the_index(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="document search needs the extra rag")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "bill.txt").write_text("Please pay to our bank account number DE89 3704 0044 0532 0130 00.")
    output = run(tmp_path, EXAMPLES / "redaction.py", "letters")
    assert "bill.txt, page 1: Please pay to our bank account number ███" in output
    assert "0532" not in output


def test_an_embedder_of_ones_own_finds_misspelt_words(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="document search needs the extra rag")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "anchors.txt").write_text("An anchor in the sand holds.")
    (tmp_path / "letters" / "tides.txt").write_text("The spring tide comes twice a month.")
    output = run(tmp_path, EXAMPLES / "own_embedder.py", "letters")
    assert output.splitlines()[1].startswith("anchors.txt, page 1: An anchor in the sand")


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_an_app_loads_an_api_into_a_table_through_sqlalchemy(
    tmp_path: Path, request: pytest.FixtureRequest, database: str
) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    if database == "postgresql":
        url = str(request.getfixturevalue("postgres_url")).replace("postgresql:", "postgresql+psycopg:")
    output = run(tmp_path, EXAMPLES / "embedded_app.py", DATABASE_URL=url)
    assert "submitted: {'new': 1, 'changed': 0}" in output
    assert "pequod: done with 4 sailors" in output
    assert "the API was asked for: first page, p2, p2, p3" in output
