"""`holdfast watch`: keeps a collection up to date with its sources."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import click

from holdfast.cli.asked import Asked, common
from holdfast.cli.counts import Counts
from holdfast.cli.eyes import how_to_watch
from holdfast.cli.in_collection import in_collection
from holdfast.cli.intake import BEGINS, NEWS, counts_of, same_look, tell_left_out, told_of
from holdfast.cli.libraries import loaded_from
from holdfast.cli.looking import how_to_look, what_is_said
from holdfast.cli.progress import Display, Lines, Progress, showing
from holdfast.cli.stores import store_that_lasts
from holdfast.cli.summary import Summary
from holdfast.cli.working import Duration, closed, going_on_later, how_to_work, in_processes, worked
from holdfast.engine import api
from holdfast.engine.budget import Budget, stopping_on_signals
from holdfast.engine.events import Enlisted, Event, Listener
from holdfast.engine.report import Report
from holdfast.pipelines.rag.changes import Change
from holdfast.pipelines.rag.index.qdrant.points import QdrantAway
from holdfast.pipelines.rag.ingest import KINDS, Looking, NothingThere
from holdfast.pipelines.rag.library import HANDS, Library
from holdfast.pipelines.rag.metadata import Metadata
from holdfast.pipelines.rag.reading import warm
from holdfast.pipelines.rag.sources import Missed, source_of
from holdfast.pipelines.rag.watching import Glance, Watcher

OTHER_SETTINGS = "the settings changed"
"""Why a worker stops that another one follows, for the same collection."""


@click.command()
@click.argument("sources", nargs=-1, required=True)
@in_collection
@click.option(
    "--every", type=Duration(), default="2s", show_default=True, help="How long to wait between two looks at SOURCES."
)
@how_to_look
@what_is_said
@in_processes
@how_to_work(threads=HANDS, shown="one more than cores")
@how_to_watch
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
    metadata: Metadata | None,
    budget: timedelta | None,
    **how: Any,
) -> None:
    """Keeps documents searchable while files come, change and go, until Ctrl-C.

    SOURCES are what `holdfast ingest` takes. A file that is still being written is taken in when it came to rest. A
    source that is away, or empty all at once, is told of, and what it had stays in the index.
    """
    looking = Looking(ignore=ignore, recursive=not flat, allow_private=allow_private, metadata=metadata)
    where = ["--collection", collection] if collection != "documents" else []
    words = ("watch", *sources, *where, *same_look(looking))
    limits = Budget(budget)
    with store_that_lasts(asked) as store, going_on_later(asked, *words):
        report = Report()
        while True:
            library = Library(store, collection, allow_private=allow_private)
            counts = counts_of(library, hands=how["threads"])
            turn = Budget(within=limits)
            with _telling(asked, counts, turn) as progress, stopping_on_signals(turn):
                looker = _Looker(asked, library, looking, progress=progress, limits=turn)
                watchers = [looker.watcher(word) for word in sources]
                library.make_ready(processes=how["processes"])
                counts.recount()
                warm(pdfs=True)
                with looker.looking(watchers, every) as work:
                    loaded = loaded_from(library)
                    report += worked(asked, work, loaded, store, progress=progress, budget=turn, how=how)
            if turn.reason != OTHER_SETTINGS:
                break
            progress.display.say(f"The settings of {collection} changed: what they change is made anew.")
        retry = asked.command("ingest", *words[1:], "--retry")
        goes_on = asked.same_command(*words)
        name = library.pipeline.name
        stopped_by = turn.reason
        summary = Summary(
            store, name, None, report=report, stopped_by=stopped_by, goes_on=goes_on, retry=retry, begins=BEGINS
        )
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


class _Looker:
    """Looks at sources in turn and takes in what became of them, in a thread of its own, while a worker works."""

    def __init__(self, asked: Asked, library: Library, looking: Looking, *, progress: Progress, limits: Budget) -> None:
        self._asked = asked
        self._library = library
        self._looking = looking
        self._progress = progress
        self._limits = limits
        self._over = threading.Event()
        self._trouble: BaseException | None = None
        self._unsettled = True
        self._told_in_full: set[str] = set()
        """The sources of which the next look is told in full: those that are new here, or were away."""
        self._unreadable: dict[str, list[tuple[str, str]]] = {}

    @property
    def _display(self) -> Display:
        return self._progress.display

    def watcher(self, word: str) -> Watcher:
        """Gives what watches a source. One that was never there is refused."""

        def tell(missed: Missed) -> None:
            if missed.key:
                tell_left_out([(missed.key, missed.why)], self._display)
            else:
                self._display.say(f"{word}: away, and what it had stays in the index: {missed.why}")
                self._told_in_full.add(word)  # when it is there again

        self._told_in_full.add(word)
        source = source_of(word)
        self._library.admit(source)  # before children are born, who know only what was admitted by then
        look = partial(self._looking.list, store=self._library.store)
        return Watcher(source, look=look, report=tell)

    @contextmanager
    def looking(self, watchers: Sequence[Watcher], every: timedelta) -> Iterator[Callable[..., Report]]:
        """Gives a way to work during which somebody looks. Trouble of whoever looks ends the work, and is raised."""
        thread = threading.Thread(target=self._look, args=(watchers, every), name="holdfast-look", daemon=True)

        def begin(event: Event) -> None:
            ours = isinstance(event, Enlisted) and event.worker.pid == os.getpid()
            if ours and thread.ident is None:
                thread.start()  # not before: the worker forks, and closes what is open in the store

        def work(*what: Any, listeners: Sequence[Listener], **how: Any) -> Report:
            return api.work(*what, listeners=(*listeners, begin), **how)

        try:
            yield work
        finally:
            self._over.set()
        if thread.ident is not None:
            thread.join()
        if self._trouble is not None:
            raise self._trouble

    def _look(self, watchers: Sequence[Watcher], every: timedelta) -> None:
        try:
            while not self._limits.is_over():
                if self._library.is_outdated():
                    self._limits.stop(OTHER_SETTINGS)
                    return
                for watcher in watchers:
                    if glance := watcher.look():
                        self._take(watcher, glance)
                self._settle()
                if self._over.wait(min(every.total_seconds(), self._limits.remaining)):
                    return
        except _Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._trouble = error
            self._limits.stop("its sources cannot be looked at")

    def _take(self, watcher: Watcher, glance: Glance) -> None:
        """Takes in what became of a source."""
        word = watcher.source.word
        try:
            intake = self._library.take_glance(watcher.source, glance, self._looking, tell=self._go_on)
        except NothingThere as refusal:
            command = self._asked.command("ingest", word)
            self._display.say(f"{word}: {refusal}. If its files were deleted, say so: {command}")
            return
        watcher.doubt(one.key for one in intake.unreadable)
        unreadable = [(one.key, one.why) for one in intake.unreadable]
        if word in self._told_in_full or any(intake.counts[kind] for kind in NEWS):
            self._display.say(f"{word}: {told_of(intake, KINDS if word in self._told_in_full else NEWS)}")
            self._progress.counts.recount()
            self._unsettled = True
        tell_left_out([one for one in unreadable if one not in self._unreadable.get(word, ())], self._display)
        self._told_in_full.discard(word)
        self._unreadable[word] = unreadable

    def _go_on(self, _: Change) -> None:
        """What was not taken in yet is seen by the next command, so nobody who wants to stop waits for it."""
        if self._limits.is_over():
            raise _Stopped

    def _settle(self) -> None:
        """Puts the index in order whenever all work is done."""
        if not self._unsettled or self._library.store.balance(self._library.collection.name).open:
            return
        try:
            self._library.settle()
            self._library.swap_if_complete()
        except QdrantAway as trouble:
            self._display.say(f"{trouble}; the next change tries again")
        self._unsettled = False


class _Stopped(Exception):
    """It was time to stop in the middle of taking a source in."""
