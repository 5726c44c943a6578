"""A terminal executes no escape sequence from a capsule, whoever wrote it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast.cli.app import app
from holdfast.cli.output import print_line, print_lines, styled
from holdfast.core.formatting import CONTROL_CHARS
from tests.cli.conftest import Run

HOSTILE = "\x1b]0;pwned\x07\x1b[31mred\x1b[2J\x9b1A\r\u202egnp\x00"
FORGED = "\nFORGED: all is well"
OURS = re.compile("\x1b\\[(?:[012]|3[1-3])m|[\n\t]")
"""Our own styles, and line ends."""
ASKING = (
    *(["show", "{key}"], ["show", "{key}", "--items"], ["explain", "{key}"], ["dead", "show", "{key}"]),
    *(
        ["dead", "list"],
        ["status"],
        ["review", "list"],
        ["explain", "--batch", "{batch}"],
        ["batch", "reconcile", "papers"],
    ),
    *(
        ["batch", "reconcile", "papers", "{batch}"],
        ["doc", "orphans"],
        ["store", "metrics", "--once"],
        ["batch", "cleanup", "--dry-run"],
    ),
    *(["pipeline", "check", "papers.py"], ["plan", "papers.py"], ["dead", "redrive", "{key}", "--reason", "x"]),
    *(
        ["batch", "seal", "papers", "{batch}"],
        ["batch", "close", "papers", "{batch}"],
        ["run", "papers.py"],
        ["doc", "pack", "{key}"],
    ),
)


def places_of(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Return the places of texts in a capsule."""
    if isinstance(value, str):
        yield path
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places_of(inner, *path, name)


def with_more(capsule: Any, path: tuple[Any, ...], more: str) -> Any:
    """Return a capsule with more text at one place."""
    changed = inside = copy.deepcopy(capsule)
    for name in path[:-1]:
        inside = inside[name]
    inside[path[-1]] += more
    return changed


@pytest.fixture
def capsule(holdfast: Run, folder: Path) -> Any:
    """An accepted dead letter, with every field filled."""
    (folder / "docs" / "bad.txt").write_text("x")
    holdfast("run", "papers.py", "docs")
    holdfast("dead", "accept", "docs/bad.txt", "--reason", "cannot be read")
    holdfast("doc", "pack", "docs/bad.txt", "-o", "cap.json")
    found = json.loads((folder / "cap.json").read_text())
    found["asides"] = [{"step": "judge", "position": 0, "tries": 1, "error": {"kind": "E", "message": "m"}}]
    return found


def answers(folder: Path, capsule: Any) -> Iterator[tuple[str, str]]:
    """Return the output of all commands about a capsule, if it can be loaded."""
    for left in (*folder.glob("new.db*"), *folder.glob("hostile.json")):
        left.unlink()
    (folder / "hostile.json").write_text(json.dumps(capsule))
    yield from _answer(["doc", "load", "hostile.json"])
    for words in ASKING if (folder / "new.db").exists() else ():
        names = {"key": capsule["document"]["key"], "batch": capsule["document"]["batch"]}
        yield from _answer([word.format(**names) for word in words])


def _answer(words: list[str]) -> Iterator[tuple[str, str]]:
    for more in ([], ["--json"]):
        told = CliRunner().invoke(app, [*words, *more, "--store", "sqlite:///new.db"], color=True)
        assert told.exception is None or isinstance(told.exception, SystemExit), (words, told.exception)
        yield " ".join(words + more), told.output


def test_a_terminal_executes_no_text_of_a_capsule(folder: Path, capsule: Any) -> None:
    changed = [with_more(capsule, path, HOSTILE) for path in places_of(capsule)]
    assert len(changed) > 30
    for one in changed:
        for words, said in answers(folder, one):
            found = CONTROL_CHARS.search(OURS.sub("", said)) or re.search("\x1b\\[31mred", said)
            assert not found, f"{words!a} says {found[0]!a}: {said!a}"


@pytest.mark.parametrize("field", ["fingerprint", "accepted_by", "reason", "error", "batch", "key"])
def test_no_field_of_a_document_forges_a_line(folder: Path, capsule: Any, field: str) -> None:
    for words, said in answers(folder, with_more(capsule, ("document", field), FORGED)):
        assert "\nFORGED" not in said, words


@pytest.mark.parametrize("field", ["verb", "who"])
def test_no_field_of_the_journal_forges_a_line(folder: Path, capsule: Any, field: str) -> None:
    for words, said in answers(folder, with_more(capsule, ("journal", 0, field), FORGED)):
        assert "\nFORGED" not in said, words


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_terminal_executes_no_document_key_in_a_log(folder: Path, form: str) -> None:
    (folder / "docs" / f"bad{FORGED}\x1b]0;pwned\x07\x9b1A.txt").write_text("x")
    told = CliRunner().invoke(app, ["run", "papers.py", "docs", "--log", form], color=True)
    assert "pwned" in told.stderr
    assert "\nFORGED" not in told.output
    assert not CONTROL_CHARS.search(OURS.sub("", told.output))


def test_our_own_styles_are_printed(capfd: pytest.CaptureFixture[str]) -> None:
    print_lines(f"{styled('a', fg='red', bold=True)}\tb\nc")
    assert capfd.readouterr().out == "a\tb\nc\n", "a pipe has no styles"


def test_escape_sequences_of_others_are_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    print_line("\x1b[31ma\x9b\r\n\x07", bold=True)
    assert capfd.readouterr().out == "\ufffd[31ma" + 4 * "\ufffd" + "\n"
