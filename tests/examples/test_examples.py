"""Examples are tests: each is run as its docstring says, and has to come out as it promises."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
ALL = sorted(EXAMPLES.glob("*.py"))


def run(folder: Path, *words: str | Path, **environment: str) -> str:
    """Runs Python with these words and gives what it prints."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
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
    words = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert f"examples/{path.name}" in words, "its docstring gives the command that runs it"


def test_a_cursor_that_expired_begins_anew_and_one_that_did_not_goes_on(tmp_path: Path) -> None:
    said = run(tmp_path, EXAMPLES / "own_cursor.py")
    assert said.count("search") == 2
    assert "rewind: the cursor of fetch is" in said
    assert "kept: 100 records" in said


def test_a_renamed_step_is_refused_then_declared(tmp_path: Path) -> None:
    said = run(tmp_path, EXAMPLES / "renamed_step.py")
    assert "1 at 'tidy', such as 'a'" in said
    assert "Pipeline('notes', renamed={'tidy': 'normalise'})" in said
    assert said.count("fetch runs") == 1
    assert "THE TEXT OF A" in said


def test_a_gate_waits_for_a_person(tmp_path: Path) -> None:
    said = run(tmp_path, EXAMPLES / "review_gate.py")
    assert "boat: gate approval: a person has to decide" in said
    assert "boat: what shall the letter say?" in said
    assert "done=2, dead=1" in said
    assert "We offer 100 for boat. Yours truly. Signed for Ada." in said
    assert "We offer 9 for oar. Signed for Ada." in said


def test_being_throttled_costs_no_attempt_and_nothing_is_printed_twice(tmp_path: Path) -> None:
    said = run(tmp_path, EXAMPLES / "throttled.py")
    assert "20 done" in said
    assert "20 labels" in said


def test_the_demo_finds_the_copies_among_the_letters(tmp_path: Path) -> None:
    database = tmp_path / "demo.db"
    words = ("-m", "holdfast.cli", "run", EXAMPLES / "word_statistics.py", EXAMPLES / "letters")
    run(tmp_path, *words, "--store", f"sqlite:///{database}", OCR_SECONDS="0")
    said = run(tmp_path, EXAMPLES / "word_statistics.py", database)
    assert "24 letters, 240 pages, 100609 words" in said
    assert "letter_04.txt and letter_22.txt" in said
    assert said.count("near-duplicates") == 3


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
    said = run(tmp_path, EXAMPLES / "redaction.py", "letters")
    assert "bill.txt, page 1: Please pay to our bank account number ███" in said
    assert "0532" not in said


def test_an_embedder_of_ones_own_finds_misspelt_words(tmp_path: Path) -> None:
    pytest.importorskip("numpy", reason="document search needs the extra rag")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "anchors.txt").write_text("An anchor in the sand holds.")
    (tmp_path / "letters" / "tides.txt").write_text("The spring tide comes twice a month.")
    said = run(tmp_path, EXAMPLES / "own_embedder.py", "letters")
    assert said.splitlines()[1].startswith("anchors.txt, page 1: An anchor in the sand")
