"""`holdfast watch`: a real process that watches a folder in which files are added, changed and deleted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any

import pytest

from holdfast.cli.commands.watch import _SourceWatch
from holdfast.core.errors import StoreError
from holdfast.core.model import WorkerRecord
from holdfast.engine import api
from holdfast.engine.budget import Budget
from holdfast.observe.events import Listener, WorkerStarted
from holdfast.observe.report import Report
from holdfast.pipelines import rag
from holdfast.pipelines.rag.ingest.intake import ScanOptions
from tests.cli.conftest import Run, Start
from tests.support.polling import TIME_LIMIT, wait_until
from tests.support.services.embeddings import OllamaService
from tests.support.services.local_service import Answer, HttpRequest

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
    """A process that watches, and its output."""

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
        """Wait for a line that contains these words."""
        try:
            while True:
                self.said.append(self._lines.get(timeout=TIME_LIMIT))
                if words in self.said[-1]:
                    return
        except Empty:
            raise AssertionError(f"it did not say {words!r}, but {self.said}") from None

    def stop(self) -> tuple[int, str]:
        """Send Ctrl-C. Return the exit code and the output."""
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Wait for the end. Return the exit code and the output."""
        code = self.process.wait(timeout=TIME_LIMIT)
        self._reader.join(timeout=TIME_LIMIT)
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
        process.wait(timeout=TIME_LIMIT)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def until_found(*keys: str) -> None:
    """Wait until exactly these documents are found, and no work is left: search by words finds them earlier."""
    wait_until(FOUND, lambda found: found == sorted(keys))
    wait_until("select key from hf_documents where state in ('waiting', 'running')", lambda left: not left)


def test_new_changed_moved_and_deleted_files_are_followed(letters: Path, start: Start, holdfast: Run) -> None:
    with watching(start, "letters") as watch:
        watch.until_said("letters: 1 new")
        until_found("tides.txt")
        (letters / "anchors.md").write_text("An anchor of twenty kilos holds.")
        watch.until_said("letters: 1 new")
        until_found("anchors.md", "tides.txt")
        (letters / "anchors.md").write_text("An anchor of thirty kilos holds better.")
        watch.until_said("letters: 1 changed")
        wait_until("select 1 from rag_words where text like '%thirty%'", bool)
        (letters / "anchors.md").rename(letters / "ground.md")
        watch.until_said("letters: 1 moved")
        until_found("ground.md", "tides.txt")
        (letters / "tides.txt").unlink()
        watch.until_said("letters: 1 deleted")
        until_found("ground.md")
        code, said = watch.stop()
    assert code == 130
    assert said.startswith("Watching letters; stop with Ctrl-C.\n")
    assert "Stopped by Ctrl-C." in said
    assert "thirty kilos" in holdfast("search", "anchor").output


def test_changed_settings_are_applied(letters: Path, start: Start, holdfast: Run) -> None:
    with watching(start, "letters") as watch:
        watch.until_said("letters: 1 new")
        until_found("tides.txt")
        assert holdfast("collection", "configure", "documents", "--embedder", "hash:32").exit_code == 0
        watch.until_said("The settings of documents changed; documents are updated to them.")
        wait_until("select searched from rag_collection", lambda searched: searched == [None])
        (letters / "anchors.md").write_text("An anchor of twenty kilos holds.")
        until_found("anchors.md", "tides.txt")
        code, _ = watch.stop()
    assert code == 130
    assert "anchors.md" in holdfast("search", "anchor", "--meaning").output


def test_a_folder_that_is_away_or_empty_keeps_what_it_had(letters: Path, start: Start) -> None:
    with watching(start, "letters") as watch:
        until_found("tides.txt")
        letters.rename("away")
        watch.until_said("letters: could not be reached, so its documents stay in the index: ")
        letters.mkdir()
        watch.until_said("letters: the source is empty now; its documents (1) stay in the index")
        until_found("tides.txt")
        letters.rmdir()
        Path("away").rename(letters)
        (letters / "anchors.md").write_text("An anchor holds.")
        watch.until_said("letters: 1 new, 1 unchanged")
        until_found("anchors.md", "tides.txt")
        _, said = watch.stop()
    assert said.count("letters: the source is empty now") == 1
    assert "deleted" not in said.replace("If its files were really deleted", "")


class Slow(OllamaService):
    """Return vectors of long texts only after a signal of the test."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.told = Event(), Event()

    def answer(self, asked: HttpRequest) -> Answer:
        if any("long" in text for text in asked.json["input"]):
            self.asked.set()
            self.told.wait(TIME_LIMIT)
        return super().answer(asked)


def test_what_comes_while_documents_are_worked_on_is_taken_in(
    letters: Path, start: Start, holdfast: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Slow() as service:
        monkeypatch.setenv("OLLAMA_HOST", service.url)
        holdfast("collection", "create", "slow", "--embedder", f"ollama:{service.model}")
        (letters / "tides.txt").write_text("A long text.")
        with watching(start, "letters", "--collection", "slow") as watch:
            assert service.asked.wait(TIME_LIMIT)
            (letters / "anchors.md").write_text("An anchor holds.")
            watch.until_said("letters: 1 new")
            wait_until(FOUND, lambda found: found == ["anchors.md", "tides.txt"])
            assert not service.told.is_set()
            service.told.set()
            until_found("anchors.md", "tides.txt")
            assert watch.stop()[0] == 130


def test_it_is_stopped_while_documents_are_worked_on(
    letters: Path, start: Start, holdfast: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Slow() as service:
        monkeypatch.setenv("OLLAMA_HOST", service.url)
        holdfast("collection", "create", "slow", "--embedder", f"ollama:{service.model}")
        (letters / "tides.txt").write_text("A long text.")
        with watching(start, "letters", "--collection", "slow") as watch:
            assert service.asked.wait(TIME_LIMIT)
            watch.process.terminate()
            watch.until_said("Stopping at the next item")
            service.told.set()
            code, said = watch.ended()
    assert code == 143
    assert "Stopped by SIGTERM" in said


def test_an_error_of_the_scanning_thread_ends_the_command(
    letters: Path, holdfast: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("holdfast.pipelines.rag.collections.library.Library.submit_snapshot", broken)
    said = holdfast("watch", "letters", "--every", "10ms")
    assert said.exit_code == 3
    assert "the disk is full. What was committed is safe" in said.output


def test_it_takes_the_observe_options(letters: Path, start: Start) -> None:
    with watching(start, "letters", "--log", "json") as watch:
        until_found("tides.txt")
        assert watch.stop()[0] == 130
        assert watch.process.stderr is not None
        events = [json.loads(line)["event"] for line in watch.process.stderr.read().splitlines()]
    assert (events[0], events[-1]) == ("started", "stopped")
    assert events.count("started") == 1


def test_failures_are_shown_as_they_come_and_at_the_end(letters: Path, start: Start) -> None:
    with watching(start, "letters") as watch:
        until_found("tides.txt")
        (letters / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing of use")
        watch.until_said("dead: broken.pdf at extract: ")
        code, said = watch.stop()
    assert code == 130
    assert "again: holdfast ingest letters --retry" in said


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


def test_output_for_programs_is_json(letters: Path, start: Start) -> None:
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


def test_a_source_that_does_not_answer_is_reported_and_the_others_are_followed(letters: Path, start: Start) -> None:
    with watching(start, "http://127.0.0.1:1/x.pdf", "letters", "--allow-private") as watch:
        watch.until_said("http://127.0.0.1:1/x.pdf: could not be reached, so its documents stay in the index: ")
        until_found("tides.txt")
        assert watch.stop()[0] == 130


def test_no_scan_starts_before_all_processes_have_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked process may report its start while the first one still forks and closes the connections of the store."""
    looks: list[str] = []
    limits = Budget()

    class Recorder:
        def poll(self) -> None:
            looks.append(said[-1])
            limits.stop("seen enough")

    said: list[str] = []

    def work(*, listeners: Sequence[Listener]) -> Report:
        for whose, pid in (("a copy", os.getpid() + 1), ("the first", os.getpid())):
            said.append(whose)
            for listen in listeners:
                listen(WorkerStarted(WorkerRecord(1, "w", "here", pid, "", timedelta(0)), "p"))
            for thread in [one for one in threading.enumerate() if one.name == "holdfast-scan"]:
                thread.join()
        return Report()

    monkeypatch.setattr(api, "work", work)
    monkeypatch.setattr(rag.Library, "is_outdated", lambda _: False)
    nothing: Any = None
    library = object.__new__(rag.Library)
    looker = _SourceWatch(nothing, library, ScanOptions(), progress=nothing, limit=limits)
    looker._must_finish_index = False
    watchers: Any = [Recorder()]
    with looker.scanning(watchers, timedelta(seconds=1)) as begin:
        begin(listeners=())
    assert looks == ["the first"]
