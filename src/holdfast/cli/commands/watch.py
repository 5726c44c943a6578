"""`holdfast watch`: keep a collection up to date with its sources."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import click

from holdfast.cli.context import CliContext
from holdfast.cli.interrupt import resumable
from holdfast.cli.observe_options import observe_options
from holdfast.cli.options import (
    collection_option,
    common_options,
    metadata_option,
    processes_option,
    source_options,
    worker_options,
)
from holdfast.cli.param_types import DurationType
from holdfast.cli.pipeline_loader import LoadedPipeline
from holdfast.cli.run_loop import add_resume_hint, print_summary_and_exit, run_worker
from holdfast.cli.store_access import open_persistent_store
from holdfast.cli.ui.ingest_output import (
    CHANGE_KINDS,
    NO_DOCUMENTS_HINT,
    collection_counts,
    format_ingest,
    print_skipped,
    source_args,
)
from holdfast.cli.ui.progress import Display, Progress, TextDisplay, show_progress
from holdfast.cli.ui.progress_counts import ProgressCounts
from holdfast.cli.ui.summary import RunSummary
from holdfast.engine import api
from holdfast.engine.budget import Budget, stopping_on_signals
from holdfast.observe.events import Event, Listener, WorkerStarted
from holdfast.observe.report import Report
from holdfast.pipelines.rag.collections.library import INGEST_THREADS, Library
from holdfast.pipelines.rag.collections.metadata import Metadata
from holdfast.pipelines.rag.extract.readers import preload_parsers
from holdfast.pipelines.rag.index.qdrant.protocol import QdrantUnavailable
from holdfast.pipelines.rag.ingest.file_changes import FileChange
from holdfast.pipelines.rag.ingest.intake import ALL_CHANGE_KINDS, ScanOptions, SourceEmpty
from holdfast.pipelines.rag.ingest.watcher import SourceSnapshot, Watcher
from holdfast.pipelines.rag.values import DEFAULT_COLLECTION
from holdfast.sources import SkippedPath, parse_source

SETTINGS_CHANGED = "settings_changed"
"""The code for why a worker is stopped and another one is started for the same collection."""


@click.command()
@click.argument("sources", nargs=-1, required=True)
@collection_option
@click.option(
    "--every", type=DurationType(), default="2s", show_default=True, help="Time between two scans of SOURCES."
)
@source_options
@metadata_option
@processes_option
@worker_options(threads=INGEST_THREADS, threads_shown="one more than cores")
@observe_options
@common_options
@click.pass_obj
@resumable
def watch(
    cli: CliContext,
    /,
    *,
    sources: tuple[str, ...],
    collection: str,
    every: timedelta,
    ignore: tuple[str, ...],
    flat: bool,
    allow_private: bool,
    follow_symlinks: bool,
    metadata: Metadata | None,
    budget: timedelta | None,
    **options: Any,
) -> None:
    """Keep folders searchable while their files change. Stop with Ctrl-C.

    SOURCES are as for `holdfast ingest`. A file that is being written is ingested when it no longer changes. If a
    source cannot be reached, or is suddenly empty, this is reported, and its documents stay in the index.
    """
    scan = ScanOptions(
        ignore=ignore,
        recursive=not flat,
        allow_private=allow_private,
        follow_symlinks=follow_symlinks,
        metadata=metadata,
    )
    collection_args = ["--collection", collection] if collection != DEFAULT_COLLECTION else []
    args = (*sources, *collection_args, *source_args(scan))
    limit = Budget(budget)
    with open_persistent_store(cli) as store, add_resume_hint(cli, "watch", *args):
        report, announced = Report(), False
        while True:
            library = Library(store, collection, allow_private=allow_private, follow_symlinks=follow_symlinks)
            counts = collection_counts(library, threads=options["threads"])
            worker_limit = Budget(within=limit)
            with _show_changes(cli, counts, worker_limit) as progress, stopping_on_signals(worker_limit):
                watch = _SourceWatch(cli, library, scan, progress=progress, limit=worker_limit)
                watchers = [watch.watcher(source) for source in sources]
                library.prepare(processes=options["processes"])
                counts.recount()
                if not announced:
                    progress.display.show_message(f"Watching {', '.join(sources)}; stop with Ctrl-C.")
                    announced = True
                preload_parsers(pdfs=True)
                with watch.scanning(watchers, every) as work:
                    loaded = LoadedPipeline(library.pipeline, library.collection.name)
                    report += run_worker(
                        cli, work, loaded, store, progress=progress, budget=worker_limit, options=options
                    )
            if worker_limit.reason != SETTINGS_CHANGED:
                break
            progress.display.show_message(f"The settings of {collection} changed; documents are updated to them.")
        summary = RunSummary(
            store,
            library.pipeline.name,
            None,
            report=report,
            stopped_by=worker_limit.reason,
            resume_command=cli.same_command("watch", *args),
            withdrawn=counts.withdrawn,
            retry_command=cli.command("ingest", *args, "--retry"),
            empty_hint=NO_DOCUMENTS_HINT,
        )
        print_summary_and_exit(cli, summary, progress)


class _ChangesDisplay(TextDisplay):
    """Plain lines about changes. Counts are shown only while there is work to do."""

    def show_counts(self, counts: ProgressCounts) -> None:
        if counts.remaining:
            super().show_counts(counts)


@contextmanager
def _show_changes(cli: CliContext, counts: ProgressCounts, limit: Budget) -> Iterator[Progress]:
    """Show changes as plain lines, also on a terminal, because progress bars would never end. With --json, as usual."""
    if cli.json:
        with show_progress(cli, counts, limit) as progress:
            yield progress
        return
    with Progress(_ChangesDisplay(), counts, limit) as progress:
        yield progress


class _SourceWatch:
    """Scan the sources again and again, in a thread, and submit their changes, while a worker processes them."""

    def __init__(
        self, cli: CliContext, library: Library, scan: ScanOptions, *, progress: Progress, limit: Budget
    ) -> None:
        self._cli = cli
        self._library = library
        self._scan = scan
        self._progress = progress
        self._limit = limit
        self._end = threading.Event()
        self._error: BaseException | None = None
        self._must_finish_index = True
        self._show_all_counts: set[str] = set()
        """Sources whose next scan is shown with all counts: those that are new here, or were unreachable."""
        self._unreadable: dict[str, list[tuple[str, str]]] = {}

    @property
    def _display(self) -> Display:
        return self._progress.display

    def watcher(self, spec: str) -> Watcher:
        """Return a watcher for a source. Raise an error if the source does not exist and never did."""

        def report(skipped: SkippedPath) -> None:
            if skipped.key:
                print_skipped([(skipped.key, skipped.why)], self._display)
            else:
                self._display.show_message(
                    f"{spec}: could not be reached, so its documents stay in the index: {skipped.why}"
                )
                self._show_all_counts.add(spec)  # when it is reachable again

        self._show_all_counts.add(spec)
        source = parse_source(spec)
        self._library.trust_source(source)  # before child processes start: they know only the sources of that time
        scan = partial(self._scan.list, store=self._library.store)
        return Watcher(source, look=scan, report=report)

    @contextmanager
    def scanning(self, watchers: Sequence[Watcher], every: timedelta) -> Iterator[Callable[..., Report]]:
        """Return a replacement for `api.work` that also starts the scanning thread.

        An error in the thread stops the worker and is raised at the end of the block.
        """
        thread = threading.Thread(target=self._run, args=(watchers, every), name="holdfast-scan", daemon=True)

        def start_thread(event: Event) -> None:
            is_this_process = isinstance(event, WorkerStarted) and event.worker.pid == os.getpid()
            if is_this_process and thread.ident is None:
                thread.start()  # not earlier: the worker forks, and closes the connections of the store

        def work(*args: Any, listeners: Sequence[Listener], **options: Any) -> Report:
            return api.work(*args, listeners=(*listeners, start_thread), **options)

        try:
            yield work
        finally:
            self._end.set()
        if thread.ident is not None:
            thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, watchers: Sequence[Watcher], every: timedelta) -> None:
        try:
            while not self._limit.is_over():
                if self._library.is_outdated():
                    self._limit.stop(SETTINGS_CHANGED)
                    return
                for watcher in watchers:
                    if snapshot := watcher.poll():
                        self._submit(watcher, snapshot)
                self._finish_index_if_idle()
                if self._end.wait(min(every.total_seconds(), self._limit.remaining)):
                    return
        except _Stopped:
            return
        except BaseException as error:  # noqa: BLE001 - `scanning` raises it in the main thread
            self._error = error
            self._limit.stop("the sources cannot be scanned")

    def _submit(self, watcher: Watcher, snapshot: SourceSnapshot) -> None:
        """Submit the changes of a source, and show them."""
        spec = watcher.source.spec
        try:
            ingest = self._library.submit_snapshot(watcher.source, snapshot, self._scan, report=self._stop_if_over)
        except SourceEmpty as refusal:
            command = self._cli.command("ingest", spec)
            self._display.show_message(f"{spec}: {refusal}. If its files were really deleted, run: {command}")
            return
        watcher.report_again(file.key for file in ingest.unreadable)
        unreadable = [(file.key, file.why) for file in ingest.unreadable]
        kinds = ALL_CHANGE_KINDS if spec in self._show_all_counts else CHANGE_KINDS
        if spec in self._show_all_counts or any(ingest.counts[kind] for kind in CHANGE_KINDS):
            self._display.show_message(f"{spec}: {format_ingest(ingest, kinds)}")
            self._progress.counts.recount()
            self._must_finish_index = True
        known = self._unreadable.get(spec, ())
        print_skipped([file for file in unreadable if file not in known], self._display)
        self._show_all_counts.discard(spec)
        self._unreadable[spec] = unreadable

    def _stop_if_over(self, _: FileChange) -> None:
        """Stop in the middle of a source if the command is to end. The next command finds the rest."""
        if self._limit.is_over():
            raise _Stopped

    def _finish_index_if_idle(self) -> None:
        """Finish the index when all documents are processed."""
        if not self._must_finish_index or self._library.store.balance(self._library.collection.name).open:
            return
        try:
            self._library.finish_indexing()
            self._library.switch_if_complete()
        except QdrantUnavailable as error:
            self._display.show_message(f"{error}; it is tried again after the next change")
        self._must_finish_index = False


class _Stopped(Exception):
    """The command ends while the changes of a source are submitted."""
