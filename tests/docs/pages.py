"""Pages as tests: their blocks, run in order, in a folder of their own.

python    run, all blocks of a page sharing their names; one that begins with `# name.py` is saved as that file instead
output    what the block before it prints; `...` stands for anything
console   each line after `$ ` is run by bash; lines below it are its output, `[3]` the exit code when it is not 0
sql       run on the one SQLite database in the folder
sh        set-up with `./hf`, `make` or `git`: run by .ci/run, not here
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
        return f"{named(self.page)}:{self.line}"


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(page, text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in FENCE.finditer(text)]


class Reader:
    """Somebody who does all that a page shows, from its top to its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "__page__"}
        self.printed = ""

    def follow(self, block: Block) -> None:
        match block.kind:
            case "python":
                self._run(block)
            case "output":
                assert_like(self.printed, block.text, str(block))
            case "console":
                self._type(block)
            case "sql":
                self._ask(block)

    def _run(self, block: Block) -> None:
        if saved := re.match(r"# (\w+\.py)\n", block.text):
            (self.folder / saved[1]).write_text(block.text, encoding="utf-8")
            return
        code = compile("\n" * block.line + block.text, str(block.page), "exec")
        with redirect_stdout(io.StringIO()) as out:
            exec(code, self.names)
        self.printed = out.getvalue()

    def _type(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            while command.endswith("\\"):
                more, _, expected = expected.partition("\n")
                command = command[:-1] + more
            code = 0
            if ended := re.search(r"^\[(\d+)\]\n?\Z", expected, re.MULTILINE):
                code, expected = int(ended[1]), expected[: ended.start()]
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
            ended_with = done.returncode if done.returncode >= 0 else 128 - done.returncode  # as a shell tells it
            assert ended_with == code, f"{block}: $ {command} ended with {ended_with}:\n{done.stdout}"
            if expected.strip():
                assert_like(done.stdout, expected, f"{block}: $ {command}")

    def _ask(self, block: Block) -> None:
        (database,) = self.folder.glob("*.db")
        with closing(sqlite3.connect(database)) as db:
            rows = db.execute(block.text).fetchall()
        assert rows, f"{block} finds nothing"
        self.printed = "\n".join("|".join(map(str, row)) for row in rows)


def environment() -> dict[str, str]:
    """The environment of a reader's shell: with `holdfast` and `python` of these tests, and nothing of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST", "PYTEST", "COV"))}
    return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}", "COLUMNS": "100"}


def assert_like(got: str, expected: str, where: str) -> None:
    """Compares loosely: `...` stands for anything, and blanks at the ends of lines do not count."""
    wanted = tidy(expected)
    pattern = ".*?".join(re.escape(part) for part in re.split(r"\.\.\.", wanted))
    assert re.fullmatch(pattern, tidy(got), re.DOTALL), f"{where} shows\n{wanted}\nbut it is\n{tidy(got)}"


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
