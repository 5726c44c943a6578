"""`holdfast watch`: a real process beside a folder in which files come, change and go."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import pytest

from tests.cli.conftest import Run, Start
from tests.cli.waiting import PATIENCE, until

pytest.importorskip("numpy", reason="document search needs the extra rag")

FOUND = "select d.key from rag_document d where d.version is not null order by 1"


@pytest.fixture
def letters(folder: Path, holdfast: Run) -> Path:
    letters = folder / "letters"
    letters.mkdir()
    (letters / "tides.txt").write_text("The spring tide comes twice a month.")
    assert holdfast("collection", "create", "documents", "--embedder", "hash:64").exit_code == 0
    return letters


class Watching:
    """A process that watches, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def until_said(self, words: str) -> None:
        """Waits for a line that has these words."""
        try:
            while True:
                self.said.append(self._lines.get(timeout=PATIENCE))
                if words in self.said[-1]:
                    return
        except Empty:
            raise AssertionError(f"it did not say {words!r}, but {self.said}") from None

    def stop(self) -> tuple[int, str]:
        """Presses Ctrl-C, and gives the exit code and all that was said."""
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Waits for the end, and gives the exit code and all that was said."""
        code = self.process.wait(timeout=PATIENCE)
        self._reader.join(timeout=PATIENCE)
        while not self._lines.empty():
            self.said.append(self._lines.get())
        return code, "\n".join(self.said)


@contextmanager
def watching(start: Start, *words: str) -> Iterator[Watching]:
    process = start("watch", *words, "--every", "100ms")
    try:
        yield Watching(process)
    finally:
        process.kill()
        process.wait(timeout=PATIENCE)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def until_found(*keys: str) -> None:
    """Waits until exactly these documents can be found, and nothing is left to do: by words they are found before."""
    until(FOUND, lambda found: found == sorted(keys))
    until("select key from hf_documents where state in ('waiting', 'running')", lambda left: not left)


def test_what_comes_changes_moves_and_goes_is_followed(letters: Path, start: Start, holdfast: Run) -> None:
    with watching(start, "letters") as watch:
        watch.until_said("letters: 1 new")
        until_found("tides.txt")
        (letters / "anchors.md").write_text("An anchor of twenty kilos holds.")
        watch.until_said("letters: 1 new")
        until_found("anchors.md", "tides.txt")
        (letters / "anchors.md").write_text("An anchor of thirty kilos holds better.")
        watch.until_said("letters: 1 changed")
        until("select 1 from rag_words where text like '%thirty%'", bool)
        (letters / "anchors.md").rename(letters / "ground.md")
        watch.until_said("letters: 1 moved")
        until_found("ground.md", "tides.txt")
        (letters / "tides.txt").unlink()
        watch.until_said("letters: 1 deleted")
        until_found("ground.md")
        code, said = watch.stop()
    assert code == 130
    assert "Stopped by Ctrl-C." in said
    assert "thirty kilos" in holdfast("search", "anchor").output


def test_a_folder_that_is_away_or_empty_keeps_what_it_had(letters: Path, start: Start) -> None:
    with watching(start, "letters") as watch:
        until_found("tides.txt")
        letters.rename("away")
        watch.until_said("letters: away, and what it had stays in the index: ")
        letters.mkdir()
        watch.until_said("letters: nothing is there any more; what it had (1) stays in the index")
        until_found("tides.txt")
        letters.rmdir()
        Path("away").rename(letters)
        (letters / "anchors.md").write_text("An anchor holds.")
        watch.until_said("letters: 1 new")
        until_found("anchors.md", "tides.txt")
        _, said = watch.stop()
    assert said.count("letters: nothing is there any more") == 1
    assert "deleted" not in said.replace("If its files were deleted", "")


def test_failures_are_told_as_they_come_and_at_the_end(letters: Path, start: Start) -> None:
    with watching(start, "letters") as watch:
        until_found("tides.txt")
        (letters / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing of use")
        watch.until_said("dead: broken.pdf at extract: ")
        code, said = watch.stop()
    assert code == 130
    assert "again:    holdfast ingest letters --retry" in said


def test_several_sources_are_watched_and_patterns_left_out(letters: Path, start: Start) -> None:
    (letters.parent / "notes").mkdir()
    (letters.parent / "notes" / "wind.txt").write_text("Wind from the west.")
    (letters.parent / "notes" / "old.bak").write_text("Old.")
    with watching(start, "letters", "notes", "--ignore", "*.bak") as watch:
        watch.until_said("notes: 1 new")
        until_found("tides.txt", "wind.txt")
        (letters.parent / "notes" / "rain.txt").write_text("Rain.")
        watch.until_said("notes: 1 new")
        until_found("rain.txt", "tides.txt", "wind.txt")
        assert watch.stop()[0] == 130


def test_programs_are_told_in_json(letters: Path, start: Start) -> None:
    with watching(start, "letters", "--json") as watch:
        watch.until_said('{"event":"notice","text":"letters: 1 new"}')
        until_found("tides.txt")
        code, said = watch.stop()
    last = json.loads(said.splitlines()[-1])
    assert (last["event"], last["report"]["done"], last["exit_code"], code) == ("summary", 1, 130, 130)


def test_it_ends_when_its_time_is_up(letters: Path, holdfast: Run) -> None:
    holdfast("ingest", "letters")
    said = holdfast("watch", "letters", "--budget", "100ms")
    assert said.exit_code == 0
    assert "Stopped: its time is up." in said.output


def test_dead_letters_are_its_exit_code(letters: Path, holdfast: Run) -> None:
    (letters / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing of use")
    holdfast("ingest", "letters")
    assert holdfast("watch", "letters", "--budget", "100ms").exit_code == 1


def test_a_source_that_was_never_there_is_refused_at_once(letters: Path, holdfast: Run) -> None:
    said = holdfast("watch", "lettres")
    assert said.exit_code == 2
    assert "there is no file or folder lettres" in said.output
