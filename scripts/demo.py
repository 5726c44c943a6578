"""Make the sample documents searchable, kill that on the way, go on, and search: `./hf demo` runs this.

    python scripts/demo.py [DATABASE]

It runs the commands that it shows, in the current folder. Ctrl-C stops it, and the next run goes on. The database is
demo.db beside the folder of this script, unless another one is named.
"""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import holdfast
from holdfast.pipelines import rag

HOME = Path(__file__).resolve().parent.parent
FOLDER = HOME / "examples" / "harbour"
SURVEY = "survey_of_the_quays.pdf"
PAGES = 32
KILL_AFTER = 12
"""How many pages of the survey are stored when the process is killed."""
POLL_SECONDS = 0.02
STOPPED = 130
"""The exit code after Ctrl-C."""
QUESTIONS = ("which bollard must not be used", "how can we end the charter", "is the crane insured against storm")
SHOW_CURSOR = "\x1b[?25h"
WIDTH = 100


class Demo:
    """The parts of the demo. It stops at the first command that does not succeed."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.program = os.environ.get("HOLDFAST_COMMAND") or "holdfast"
        self.store = f"sqlite:///{near(database)}"
        self.ingest = ("ingest", near(FOLDER), "--store", self.store)
        self.interrupted = False
        signal.signal(signal.SIGINT, self._note_interrupt)  # a terminal also sends it to the command, which stops

    def _note_interrupt(self, *_: object) -> None:
        self.interrupted = True

    def run(self) -> int:
        """Run the demo. Return its exit code."""
        before = self.stored_pages()
        explain(
            f"{near(FOLDER)} has the papers of a harbour company: contracts, letters, e-mail, minutes, and a survey of "
            f"{PAGES} scanned pages. This demo makes them searchable. On the way, it kills the process and goes on. "
            "It takes half a minute. You can also press Ctrl-C, and run it again."
        )
        show_heading("Make the folder searchable")
        process = self.start(*self.ingest)
        if before < KILL_AFTER and self.kill(process):
            before = self.stored_pages()
            show_heading("Killed, as by a power failure")
            show(f"$ kill -KILL {process.pid}", f"{before} of {PAGES} pages of {SURVEY} are stored.")
            show_heading("The same command goes on")
            process = self.start(*self.ingest)
        if code := process.wait():
            return self.stop(code)
        if before < PAGES:
            show(f"{SURVEY}: {self.stored_pages()} pages, each stored once. {before} of them were not read again.")
        show_heading("Search")
        for question in QUESTIONS:
            code = self.start("search", question, "--limit", "1", "--store", self.store).wait()
            if code or self.interrupted:
                return self.stop(code or STOPPED)
            show(f"    Open: {self.address_of_answer(question)}", "")
        self.show_next_commands()
        return 0

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Show a command and start it."""
        show(f"$ {shlex.join((self.program, *arguments))}")
        return subprocess.Popen([sys.executable, "-m", "holdfast", *arguments])

    def kill(self, process: subprocess.Popen[bytes]) -> bool:
        """Kill an ingest in the middle of the survey. Return False if it ended before, or Ctrl-C was pressed."""
        while self.stored_pages() < KILL_AFTER:
            if self.interrupted or process.poll() is not None:
                return False
            time.sleep(POLL_SECONDS)
        process.kill()
        was_killed = process.wait() == -signal.SIGKILL
        if sys.stdout.isatty():
            sys.stdout.write(f"{SHOW_CURSOR}\n")
        return was_killed

    def stop(self, code: int) -> int:
        """Show how to go on after Ctrl-C. Return the exit code."""
        if code == STOPPED:
            pages = f"{self.stored_pages()} of {PAGES} pages of {SURVEY} are stored."
            show("", f"{pages} To go on with the demo:", f"  {self.program} demo")
        return code

    def stored_pages(self) -> int:
        """Return how many pages of the survey are stored. The tables of a store can be read with SQL."""
        query = "select count(*) from hf_items where step = 'extract' and key like ?"
        try:
            with closing(sqlite3.connect(f"{self.database.as_uri()}?mode=ro", uri=True)) as db:
                (pages,) = db.execute(query, [f"%{SURVEY}"]).fetchone()
        except sqlite3.OperationalError:  # the ingest has not created it yet
            return 0
        return int(pages)

    def address_of_answer(self, question: str) -> str:
        """Return the address of the page that answers a question. Browsers open a PDF at that page."""
        with holdfast.open(f"sqlite:///{self.database}") as store:
            (best,) = rag.Library(store).search(question, limit=1)
        name, _, attachment = best.key.partition("#")  # an attachment is opened with its message
        page = f"#page={best.page}" if best.kind == "pdf" and not attachment else ""
        return Path(best.source, name).as_uri() + page

    def show_next_commands(self) -> None:
        """Show what can be done next."""
        show_heading("Next")
        for meaning, words in (
            ("Ask something else:", ("search", "your question", "--store", self.store)),
            ("Search in a browser:", ("serve", "--store", self.store)),
            ("Make a folder of yours searchable:", ("ingest", "YOUR_FOLDER")),
        ):
            show(meaning, f"  {shlex.join((self.program, *words))}")
        show("Begin this demo again:", f"  rm -r {shlex.quote(near(self.database))}*")


def near(path: Path) -> str:
    """Return a path relative to the current folder if it is inside, else an absolute one."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def explain(text: str) -> None:
    """Print a paragraph."""
    show(*textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False))


def show_heading(text: str) -> None:
    """Print a heading, bold on a terminal."""
    is_bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    show("", f"\x1b[1m{text}\x1b[0m" if is_bold else text, "")


def show(*lines: str) -> None:
    """Print lines at once: the commands write to the same terminal."""
    print(*lines, sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(Demo(Path(sys.argv[1]).resolve() if sys.argv[1:] else HOME / "demo.db").run())
