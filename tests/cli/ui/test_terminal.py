"""The output on a terminal and in a pipe."""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Start

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(*words: str, columns: int = 100) -> tuple[int, str]:
    """Run the command line on a pseudo terminal. Return its exit code and its output."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS=str(columns), LINES="30")
        os.execv(sys.executable, [sys.executable, "-m", "holdfast", *words])
    written = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not part:
            break
        written += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), written.decode()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("columns", [60, 100])
def test_a_terminal_gets_a_bar_steps_failures_and_a_summary(folder: Path, columns: int) -> None:
    (folder / "docs" / "bad.txt").write_text("x")
    code, written = on_a_terminal("run", "papers.py", "docs", columns=columns)
    seen = CONTROL.sub("", written)
    assert code == 1
    assert "━━" in seen
    assert "3/3" in seen
    assert re.search(r"extract\s+[━╸╺]+\s+15 items kept", seen)
    assert "✗ docs/bad.txt at judge: ValueError" in seen
    assert "2 documents done" in seen
    assert "holdfast show docs/bad.txt" in seen
    assert "\x1b[?25l" not in written, "the cursor is never hidden, so a kill cannot leave it hidden"


def test_a_pipe_gets_plain_lines(folder: Path, start: Start) -> None:
    out, _ = start("run", "papers.py", "docs").communicate(timeout=30)
    assert "\x1b" not in out
    assert "━" not in out
    assert "2 of 2 documents (100%): 2 done" in out


def test_what_bodies_print_appears_above_the_bar(folder: Path) -> None:
    (folder / "loud.py").write_text(
        "import holdfast, time\nloud = holdfast.Pipeline('loud')\n@loud.step\ndef say(doc):\n"
        "    print('hello from', doc.key[-10:])\n    time.sleep(0.5)\n"
    )
    _, written = on_a_terminal("run", "loud.py", "docs")
    assert "hello from docs/a.txt" in CONTROL.sub("", written)
