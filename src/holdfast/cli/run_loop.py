"""Run a worker from the command line: show progress, stop on signals, and print a summary at the end."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.interrupt import StartedWorkers, exit_now, exit_on_second_signal
from holdfast.cli.observe_options import open_listeners, split_observe_options
from holdfast.cli.pipeline_loader import LoadedPipeline, user_frames
from holdfast.cli.shown_keys import shown_key
from holdfast.cli.ui.progress import Display, JsonDisplay, Progress
from holdfast.cli.ui.progress_counts import ProgressCounts
from holdfast.cli.ui.summary import RunSummary
from holdfast.core.errors import StoreError
from holdfast.core.model import SubmitResult
from holdfast.engine import api
from holdfast.engine.budget import Budget
from holdfast.engine.file_documents import Submittable
from holdfast.observe.events import Event, Scanned, describe_findings
from holdfast.observe.report import Report
from holdfast.ops.run_notices import change_notices, edit_notice, resume_notice
from holdfast.stores.protocol import Store


def run_worker(
    cli: CliContext,
    work: Callable[..., Report],
    loaded: LoadedPipeline,
    store: Store,
    *,
    progress: Progress,
    budget: Budget,
    options: dict[str, Any],
) -> Report:
    """Call `work` (`api.work` or `api.drain`) and show its progress.

    A second Ctrl-C gives all documents back and raises KeyboardInterrupt.
    """
    workers = StartedWorkers()
    observe, options = split_observe_options(options)
    with exit_on_second_signal(cli), convert_system_exit("the worker"), open_listeners(observe) as observers:
        listeners = (workers, progress.counts, ScanMessages(progress.display), *observers)
        try:
            return work(loaded.pipeline, store, budget=budget, listeners=listeners, **options)
        except KeyboardInterrupt:
            if not workers.retire(store):
                progress.display.close()
                exit_now(cli)  # closing the store would wait for the same lock
            raise
        except (MemoryError, OSError, RuntimeError):  # a limit of the system: nothing is wrong with the documents
            workers.retire(store)
            raise


class ScanMessages:
    """A listener that shows what a scan found."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def __call__(self, event: Event) -> None:
        if isinstance(event, Scanned) and not event.findings.is_empty:
            self._display.show_message(f"scan of {event.pipeline}: {describe_findings(event.findings)}")


@contextmanager
def convert_system_exit(where: str) -> Iterator[None]:
    """Turn a sys.exit in the user's code into an error. Even with exit code 0, the work is not finished."""
    try:
        yield
    except SystemExit as error:
        frames = "".join(traceback.format_list(user_frames(error.__traceback__))).rstrip()
        call = "".join(traceback.format_exception_only(error)).strip()
        raise CliError(
            f"something called sys.exit ({call}) inside {where}, so it stopped; what was committed is safe. "
            f"Raise an error there instead, and run the command again:\n{frames}"
        ) from error


def call_prepare(loaded: LoadedPipeline, store: Store) -> None:
    """Call `prepare(tx)` of the pipeline's file, if there is one. It creates the tables that effects write to."""
    if loaded.prepare is not None:
        with convert_system_exit("prepare()"), store.transaction() as tx:
            loaded.prepare(tx)


def change_messages(cli: CliContext, loaded: LoadedPipeline, store: Store, *, batch: str | None = None) -> list[str]:
    """Return what changed in the pipeline since its last run. Call it before the pipeline is declared."""
    return change_notices(loaded.pipeline, store, redo=_redo_command(cli, loaded), batch=batch)


def edit_message(cli: CliContext, loaded: LoadedPipeline, store: Store, *, batch: str | None) -> str:
    """Return a sentence if the pipeline's file is newer than what is done. Empty if it is not, or if it is unknown."""
    if loaded.file is None:
        return ""
    return edit_notice(store, loaded.pipeline.name, loaded.file, redo=_redo_command(cli, loaded), batch=batch)


def _redo_command(cli: CliContext, loaded: LoadedPipeline) -> str:
    return cli.command("doc", "rewind", "--stale", loaded.spec)


def show_resumed_work(progress: Progress, store: Store) -> None:
    """Read the counts, and show what is done already and where the work goes on, if there is work left."""
    counts = progress.counts
    counts.recount()
    if counts.remaining:
        message = resume_notice(
            store,
            counts.pipeline,
            batch=counts.batch,
            total=counts.total,
            done=counts.done,
            nouns=counts.nouns,
            shown=shown_key,
        )
        if message:
            progress.display.show_message(message)


def submit_documents(
    loaded: LoadedPipeline,
    store: Store,
    *,
    batch: str,
    documents: Iterator[Submittable],
    counts: ProgressCounts,
    options: Mapping[str, Any],
) -> SubmitResult:
    """Submit documents and count them, for the progress display. Log what was submitted, if the options say so."""
    counts.submitting = True
    try:
        with open_listeners({name: options[name] for name in ("log", "log_level", "labels")}) as listeners:
            source = _count(documents, counts)
            return api.submit(loaded.pipeline, store, batch=batch, documents=source, listeners=listeners)
    finally:
        counts.submitting = False


def _count(documents: Iterator[Submittable], counts: ProgressCounts) -> Iterator[Submittable]:
    for document in documents:
        counts.submitted += 1
        yield document


def print_summary_and_exit(
    cli: CliContext, summary: RunSummary, progress: Progress, submitted: SubmitResult | None = None
) -> None:
    """Print the summary and end the command with its exit code."""
    if isinstance(progress.display, JsonDisplay):
        progress.display.write_event("summary", **summary.as_json(submitted))
    else:
        summary.print(cli)
    raise click.exceptions.Exit(summary.exit_code)


@contextmanager
def add_resume_hint(cli: CliContext, *command: str) -> Iterator[None]:
    """Add to errors of the store which command continues the work when the problem is solved."""
    try:
        yield
    except StoreError as error:
        raise type(error)(
            f"{str(error).rstrip('.')}. What was committed is safe; when the problem is solved, continue with: "
            f"{cli.same_command(*command)}"
        ) from error


def format_redriven(number: int) -> str:
    """Return how many dead letters are tried again."""
    if not number:
        return "There are no dead letters to try again."
    return "1 dead letter is tried again." if number == 1 else f"{number:,} dead letters are tried again."


def format_submit_result(result: SubmitResult) -> str:
    """Return the counts of a submit as one line."""
    return f"submitted: {result.new:,} new, {result.changed:,} changed, {result.unchanged:,} unchanged"
