"""`holdfast watch`: keeps a collection up to date with its sources."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import click
from msgspec.structs import asdict

from holdfast.cli.asked import Asked, common
from holdfast.cli.counts import Counts
from holdfast.cli.in_collection import in_collection
from holdfast.cli.intake import NEWS, NOUNS, how_to_look, tell_left_out, told
from holdfast.cli.libraries import loaded_from
from holdfast.cli.progress import Display, JsonLines, Lines, Progress, showing
from holdfast.cli.stores import store_that_lasts
from holdfast.cli.summary import Summary
from holdfast.cli.working import Duration, closed, going_on_later, how_to_work, worked
from holdfast.engine import api
from holdfast.engine.budget import Budget, stopping_on_signals
from holdfast.engine.report import Report
from holdfast.pipelines.rag.ingest import KINDS, Looking, NothingThere
from holdfast.pipelines.rag.library import Library
from holdfast.pipelines.rag.sources import Missed, source_of
from holdfast.pipelines.rag.watching import Glance, Watcher


@click.command()
@click.argument("sources", nargs=-1, required=True)
@in_collection
@click.option(
    "--every", type=Duration(), default="2s", show_default=True, help="How long to wait between two looks at SOURCES."
)
@how_to_look
@how_to_work
@common
@click.pass_obj
def watch(
    asked: Asked,
    /,
    *,
    sources: tuple[str, ...],
    collection: str,
    every: timedelta,
    ignore: tuple[str, ...],
    flat: bool,
    allow_private: bool,
    budget: timedelta | None,
    **how: Any,
) -> None:
    """Keeps documents searchable while files come, change and go, until Ctrl-C.

    SOURCES are what `holdfast ingest` takes. A file that is still being written is taken in when it came to rest. A
    source that is away, or empty all at once, is told of, and what it had stays in the index.
    """
    words = ("watch", *sources, *(["--collection", collection] if collection != "documents" else []))
    looking = Looking(ignore=ignore, recursive=not flat, allow_private=allow_private)
    limits = Budget(budget)
    with store_that_lasts(asked) as store, going_on_later(asked, *words):
        library = Library(store, collection, allow_private=allow_private)
        counts = Counts(library.pipeline, store, batch=None, hands=how["threads"], nouns=NOUNS)
        counts.items = library.tally
        with _telling(asked, counts, limits) as progress, stopping_on_signals(limits):
            keeper = _Keeper(asked, library, looking, progress=progress, limits=limits, how=how)
            report = keeper.keep(sources, every)
        retry = asked.command("ingest", *words[1:], "--retry")
        goes_on = asked.same_command(*words)
        name = library.pipeline.name
        summary = Summary(store, name, None, report=report, stopped_by=limits.reason, goes_on=goes_on, retry=retry)
        closed(asked, summary, progress)


class _News(Lines):
    """Lines about what changed. How far it is, is worth one only while there is much to do."""

    def picture(self, counts: Counts) -> None:
        if counts.remaining:
            super().picture(counts)


@contextmanager
def _telling(asked: Asked, counts: Counts, limits: Budget) -> Iterator[Progress]:
    """Tells of changes in lines, also on a terminal: bars would stand there for ever. Programs are told as ever."""
    if asked.json:
        with showing(asked, counts, limits) as progress:
            yield progress
        return
    with Progress(_News(), counts, limits) as progress:
        yield progress


class _Keeper:
    """Looks at sources in turn, takes in what became of them, and works until it can be found."""

    def __init__(
        self,
        asked: Asked,
        library: Library,
        looking: Looking,
        *,
        progress: Progress,
        limits: Budget,
        how: dict[str, Any],
    ) -> None:
        self._asked = asked
        self._library = library
        self._looking = looking
        self._progress = progress
        self._limits = limits
        self._how = how
        self._report = Report()
        self._first: set[str] = set()
        self._unreadable: dict[str, list[tuple[str, str]]] = {}

    @property
    def _display(self) -> Display:
        return self._progress.display

    def keep(self, sources: Sequence[str], every: timedelta) -> Report:
        """Keeps the collection up to date until it is time to stop. Tells all that was done."""
        watchers = [self._watcher(word) for word in sources]
        self._first = set(sources)
        self._library.make_ready()
        changed = True  # what an earlier run left is worked on first
        while True:
            for watcher in watchers:
                glance = watcher.look()
                if glance is not None and not self._limits.is_over():
                    changed |= self._take(watcher, glance)
            if changed and not self._limits.is_over():
                self._work()
            changed = False
            if self._waited(every):
                return self._report

    def _watcher(self, word: str) -> Watcher:
        def tell(missed: Missed) -> None:
            if missed.key:
                tell_left_out([(missed.key, missed.why)], self._display)
            else:
                self._display.say(f"{word}: away, and what it had stays in the index: {missed.why}")

        return Watcher(source_of(word), look=self._looking.list, report=tell)

    def _take(self, watcher: Watcher, glance: Glance) -> bool:
        """Takes in what became of a source. Answers whether there is anything to work on."""
        word = watcher.source.word
        try:
            intake = self._library.take_glance(watcher.source, glance, self._looking)
        except NothingThere as refusal:
            command = self._asked.command("ingest", word)
            self._display.say(f"{word}: {refusal}. If its files were deleted, say so: {command}")
            return False
        watcher.doubt(one.key for one in intake.unreadable)
        unreadable = [(one.key, one.why) for one in intake.unreadable]
        if word in self._first or any(intake.counts[kind] for kind in NEWS):
            self._display.say(f"{word}: {told(intake.counts, KINDS if word in self._first else NEWS)}")
        tell_left_out([one for one in unreadable if one not in self._unreadable.get(word, ())], self._display)
        self._first.discard(word)
        self._unreadable[word] = unreadable
        return bool(intake.counts["new"] or intake.counts["changed"] or intake.counts["moved"])

    def _work(self) -> None:
        counts = self._progress.counts
        counts.recount()
        loaded = loaded_from(self._library)
        report = worked(
            self._asked,
            api.drain,
            loaded,
            self._library.store,
            progress=self._progress,
            budget=self._limits,
            how=self._how,
        )
        if not self._limits.is_over():
            self._library.settle()
        self._report = _together(self._report, report)
        if isinstance(self._display, JsonLines):
            self._display.picture(counts)

    def _waited(self, every: timedelta) -> bool:
        """Waits for the next look. Answers whether it is time to stop instead."""
        asked_to_stop = threading.Event()
        self._limits.on_stop = asked_to_stop.set
        if not self._limits.is_over():
            asked_to_stop.wait(min(every.total_seconds(), self._limits.remaining))
        return self._limits.is_over()


def _together(one: Report, other: Report) -> Report:
    """Adds two reports up. Why the work stopped, the last one knows."""
    both = asdict(other)
    return Report(**{name: both[name] + value for name, value in asdict(one).items() if name != "stopped_by"})
