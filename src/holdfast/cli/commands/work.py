"""`holdfast work`: run a worker, or several worker processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import replace

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.document_work import work_on_document
from holdfast.cli.exit_codes import BY_SIGNAL, DEAD_LETTERS, OK, SOURCE_UNREACHABLE, STORE_ERROR, USAGE_ERROR
from holdfast.cli.interrupt import resumable
from holdfast.cli.observe_options import args_for_process, observe_options
from holdfast.cli.options import batch_option, common_options, worker_options
from holdfast.cli.output import print_json
from holdfast.cli.pipeline_loader import LoadedPipeline, load_pipeline
from holdfast.cli.run_loop import (
    add_resume_hint,
    change_messages,
    print_summary_and_exit,
    run_worker,
    show_resumed_work,
)
from holdfast.cli.scan_options import maintenance_scan, scan_args, scan_options, split_scan_options
from holdfast.cli.store_access import open_persistent_store, require_batch_to_drain, warn_if_batch_unknown
from holdfast.cli.ui.progress import Progress, show_progress
from holdfast.cli.ui.progress_counts import FailedAttempt, ProgressCounts
from holdfast.cli.ui.summary import RunSummary
from holdfast.engine import api
from holdfast.engine.budget import Budget, stopping_on_signals
from holdfast.engine.settings import DEFAULT_PROCESSES
from holdfast.observe.report import Report
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.engine.worker_processes import CommandProcess, Exit

MAX_QUICK_DEATHS = 5
"""After this many deaths in a row, each soon after the start, another process is not started."""

FINISHED = (OK, DEAD_LETTERS, SOURCE_UNREACHABLE, *BY_SIGNAL.values())
"""Exit codes of a worker process that has no more work, waits no longer for a service, or was stopped."""

EXIT_EVENT = "exit"
"""The last line of a worker process that ends by itself. Without it, a body has ended the process, with any code."""


@click.command()
@click.argument("pipeline")
@batch_option
@click.option("--drain", is_flag=True, help="End when no work is left.")
@click.option("--key", help="Work on the one document with this key, then end. For queues: see the exit codes below.")
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=DEFAULT_PROCESSES,
    show_default=True,
    help="Number of worker processes. They stop together, and one that dies is replaced.",
)
@click.option("--supervised", is_flag=True, hidden=True, help="Stop when stdin ends, because the parent has ended.")
@worker_options()
@scan_options
@observe_options
@common_options
@click.pass_obj
@resumable
def work(
    cli: CliContext,
    /,
    *,
    pipeline: str,
    batch: str | None,
    key: str | None,
    processes: int,
    supervised: bool,
    **options: Any,
) -> None:
    """Process submitted documents. Stop with Ctrl-C; with --drain, stop when no work is left.

    PIPELINE is a Python file or module, as for `holdfast run`.

    Any number of workers can run at the same time, on this machine and on others. If one dies, the others take over
    its documents.

    From time to time, one of the workers scans the pipeline: it reports batches in which nothing moves, dead letters
    that nobody redrives or accepts, and running documents without a sign of life.
    """
    if supervised:
        _stop_with_parent()
    with _announce_exit() if supervised else nullcontext():
        _load_and_work(cli, pipeline, batch=batch, key=key, processes=processes, supervised=supervised, options=options)


def _load_and_work(
    cli: CliContext,
    pipeline: str,
    *,
    batch: str | None,
    key: str | None,
    processes: int,
    supervised: bool,
    options: dict[str, Any],
) -> None:
    cli.export_store_url()
    loaded = load_pipeline(pipeline)
    with open_persistent_store(cli) as store, add_resume_hint(cli, "work", pipeline):
        if key is not None:
            if processes > 1:
                raise CliError("--key works on one document, in one process: leave out --processes")
            work_on_document(cli, loaded, store, key, batch=batch, budget=options["budget"], options=options)
        if batch and not supervised:  # the parent process has checked it
            check_batch = require_batch_to_drain if options["drain"] else warn_if_batch_unknown
            check_batch(store, loaded.pipeline.name, batch)
        news = [] if supervised else change_messages(cli, loaded, store, batch=batch)
        if processes > 1:
            _work_in_processes(cli, loaded, store, processes=processes, batch=batch, news=news, options=options)
        else:
            _work(cli, loaded, store, batch=batch, news=news, **options)


@contextmanager
def _announce_exit() -> Iterator[None]:
    """Tell the parent process that this one ends by itself, with a result or with an error of its own."""
    try:
        yield
    finally:
        print_json({"event": EXIT_EVENT})


def _stop_with_parent() -> None:
    from holdfast.engine.crash_evidence import mark_supervised

    mark_supervised()

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="holdfast-parent", daemon=True).start()


def _work(
    cli: CliContext,
    loaded: LoadedPipeline,
    store: Store,
    *,
    batch: str | None,
    news: Sequence[str],
    drain: bool,
    budget: timedelta | None,
    **options: Any,
) -> None:
    """Work in this process."""
    scan, options = split_scan_options(options)
    limit = Budget(budget)
    counts = ProgressCounts(loaded.pipeline, store, batch=batch, threads=options["threads"])
    verb = api.drain if drain else api.work
    options |= {"batch": batch, "maintenance": maintenance_scan(scan)}
    with show_progress(cli, counts, limit) as progress:
        _show_news(progress, store, loaded, news)
        report = run_worker(cli, verb, loaded, store, progress=progress, budget=limit, options=options)
    summary = RunSummary(
        store,
        loaded.pipeline.name,
        batch,
        report=report,
        stopped_by=limit.reason,
        resume_command=cli.same_command("work", loaded.spec),
        retry_command=_retry_command(cli, loaded, batch),
    )
    print_summary_and_exit(cli, summary, progress)


# several processes


def _work_in_processes(
    cli: CliContext,
    loaded: LoadedPipeline,
    store: Store,
    *,
    processes: int,
    batch: str | None,
    news: Sequence[str],
    options: dict[str, Any],
) -> None:
    """Start worker processes, show the progress of all of them, print the summary and exit."""
    from holdfast.engine.crash_evidence import note_exit_of_child, notes_folder
    from holdfast.engine.worker_processes import CommandProcess, ProcessManager

    store.declare(loaded.pipeline.shape())  # a refused plan is reported once, here
    budget = Budget()
    counts = ProgressCounts(loaded.pipeline, store, batch=batch, threads=processes * options["threads"])
    counts.recount()
    done, dead = counts.done, counts.dead
    counts.recount_interval = 1.0  # this process gets no events of the workers
    began = monotonic()
    with show_progress(cli, counts, budget) as progress, stopping_on_signals(budget):
        _show_news(progress, store, loaded, news)
        output = _ProcessOutput(progress, budget)

        def start(number: int) -> CommandProcess:
            command = _process_command(loaded, batch, options, number)
            return CommandProcess(command, on_line=partial(output.add_line, number), on_death=note_death)

        note_death = partial(note_exit_of_child, notes_folder(store))

        numbers = range(1, processes + 1)
        with ProcessManager(
            start, numbers, budget=budget, restart=output.should_restart, interrupt_seconds=2.0
        ) as manager:
            manager.watch()
    if output.exit_code:
        reason = f"{budget.reason}; the others were stopped, and what was committed is safe"
        raise CliError(reason, code=output.exit_code)
    # done and dead are counted in the store, because a process that was killed reported nothing
    report = replace(
        sum(output.reports, Report()),
        done=counts.done - done,
        dead=counts.dead - dead,
        seconds=monotonic() - began,
        stopped_by="",
    )
    summary = RunSummary(
        store,
        loaded.pipeline.name,
        batch,
        report=report,
        stopped_by=budget.reason,
        resume_command=cli.same_command("work", loaded.spec, "--processes", str(processes)),
        retry_command=_retry_command(cli, loaded, batch),
    )
    print_summary_and_exit(cli, summary, progress)


def _retry_command(cli: CliContext, loaded: LoadedPipeline, batch: str | None) -> str:
    return cli.command("run", loaded.spec, *(["--batch", batch] if batch else []), "--retry")


def _show_news(progress: Progress, store: Store, loaded: LoadedPipeline, news: Sequence[str]) -> None:
    for message in news:
        progress.display.show_message(message)
    store.check(loaded.pipeline.shape())  # nothing goes on if the pipeline is refused
    show_resumed_work(progress, store)


def _process_command(loaded: LoadedPipeline, batch: str | None, options: dict[str, Any], number: int) -> list[str]:
    """Return the command of one process. It finds the store in HOLDFAST_STORE: others can read its command line."""
    command = [sys.executable, "-m", "holdfast", "work", loaded.spec, "--supervised", "--json"]
    command += ["--batch", batch] if batch else []
    command += ["--drain"] if options["drain"] else []
    for name in ("lease", "budget"):
        if options[name] is not None:
            command += [f"--{name}", f"{options[name].total_seconds()}s"]
    command += ["--threads", str(options["threads"]), "--concurrency", str(options["concurrency"])]
    return [*command, *scan_args(options), *args_for_process(options, number)]


class _ProcessOutput:
    """Read the output of the worker processes, and decide what happens when one of them ends."""

    def __init__(self, progress: Progress, budget: Budget) -> None:
        self._progress = progress
        self._budget = budget
        self._ending: set[int] = set()  # the numbers of the processes that end by themselves
        self.reports: list[Report] = []
        self.exit_code = OK

    def add_line(self, number: int, line: bytes) -> None:
        """Read one line of JSON: a failed attempt, the summary, or the end. Others are ignored."""
        with suppress(msgspec.MsgspecError):
            fields = msgspec.json.decode(line)
            event = fields.pop("event", "")
            if event == "failed":
                self._progress.counts.failures.append(msgspec.convert(fields, FailedAttempt))
            elif event == "summary":
                self.reports.append(msgspec.convert(fields["report"], Report))
            elif event == EXIT_EVENT:
                self._ending.add(number)

    def should_restart(self, exited: Exit) -> bool:
        """Return True if a process that has ended must be replaced. Stop all processes if starting one is pointless."""
        if self._budget.reason:
            return False
        ended_by_itself = exited.number in self._ending
        self._ending.discard(exited.number)
        if ended_by_itself and exited.code in FINISHED:
            return False
        if ended_by_itself and exited.code in (USAGE_ERROR, STORE_ERROR):
            self._fail(exited.code, f"worker process {exited.number} could not continue")
            return False
        if exited.quick_deaths >= MAX_QUICK_DEATHS:
            self._fail(STORE_ERROR, f"{exited} {exited.quick_deaths} times in a row, soon after its start")
            return False
        self._progress.display.show_message(f"{exited}; another one is started.")
        return True

    def _fail(self, code: int, reason: str) -> None:
        self.exit_code = code
        self._budget.stop(reason)
