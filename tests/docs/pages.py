"""Run the blocks of a page as a test, in order, in a temporary folder.

python    run; all blocks of a page share their names. A block that begins with `# name.py` is saved as that file
output    what the block before it prints; `...` matches anything
console   each line after `$ ` is run by bash; the lines below are its output; `[3]` is the exit code if it is not 0
sql       run on the one SQLite database in the folder
sh        set-up with `./hf` or `make`: run by .ci/run, not here
text      not code: trees, diagrams, messages
"""

from __future__ import annotations

import io
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = sorted([*(ROOT / name for name in TOP), *(ROOT / "docs").rglob("*.md")])
KINDS = ("python", "output", "console", "sql", "sh", "text")
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{page_name(self.page)}:{self.line}"


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(page, text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in FENCE.finditer(text)]


class PageRunner:
    """Run everything that a page shows, from top to bottom."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "__page__"}
        self.printed = ""

    def run(self, block: Block) -> None:
        match block.kind:
            case "python":
                self._run_python(block)
            case "output":
                assert_matches(self.printed, block.text, str(block))
            case "console":
                self._run_console(block)
            case "sql":
                self._run_sql(block)

    def _run_python(self, block: Block) -> None:
        if saved := re.match(r"# (\w+\.py)\n", block.text):
            (self.folder / saved[1]).write_text(block.text, encoding="utf-8")
            return
        code = compile("\n" * block.line + block.text, str(block.page), "exec", dont_inherit=True)  # as a user runs it
        with redirect_stdout(io.StringIO()) as out:
            exec(code, self.names)
        self.printed = out.getvalue()

    def _run_console(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            while command.endswith("\\"):
                more, _, expected = expected.partition("\n")
                command = command[:-1] + more
            code = 0
            if found := re.search(r"^\[(\d+)\]\n?\Z", expected, re.MULTILINE):
                code, expected = int(found[1]), expected[: found.start()]
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
                check=False,
            )
            exit_code = done.returncode if done.returncode >= 0 else 128 - done.returncode  # as a shell reports it
            assert exit_code == code, f"{block}: $ {command} exited with {exit_code}:\n{done.stdout}"
            if expected.strip():
                assert_matches(done.stdout, expected, f"{block}: $ {command}")

    def _run_sql(self, block: Block) -> None:
        (database,) = self.folder.glob("*.db")
        with closing(sqlite3.connect(database)) as db:
            rows = db.execute(block.text).fetchall()
        assert rows, f"{block} returns no rows"
        self.printed = "\n".join("|".join(map(str, row)) for row in rows)


def environment() -> dict[str, str]:
    """Return the environment of the shell: `holdfast` and `python` of these tests, and none of our variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST", "PYTEST", "COV"))}
    return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}", "COLUMNS": "100"}


def assert_matches(got: str, expected: str, where: str) -> None:
    """Compare: `...` matches anything, and blanks at the ends of lines are ignored."""
    wanted = strip_lines(expected)
    pattern = ".*?".join(re.escape(part) for part in re.split(r"\.\.\.", wanted))
    assert re.fullmatch(pattern, strip_lines(got), re.DOTALL), (
        f"{where} shows\n{wanted}\nbut the output is\n{strip_lines(got)}"
    )


def strip_lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
