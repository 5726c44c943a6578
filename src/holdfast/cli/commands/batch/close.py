"""`holdfast batch close`: close a batch whose documents have all ended, and run its closing steps."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.exit_codes import BY_SIGNAL, CHECK_FAILED
from holdfast.cli.interrupt import StartedWorkers, exit_now, exit_on_second_signal, resumable
from holdfast.cli.observe_options import observe_options, open_listeners
from holdfast.cli.options import common_options, who_and_optional_reason
from holdfast.cli.output import print_json, print_line
from holdfast.cli.param_types import ShareType
from holdfast.cli.pipeline_loader import LoadedPipeline, load_pipeline
from holdfast.cli.run_loop import add_resume_hint, call_prepare, convert_system_exit
from holdfast.cli.store_access import open_existing_store
from holdfast.cli.ui.progress import SIGNALS
from holdfast.core.batches import CLOSING, BatchReport
from holdfast.core.close_refusal import CloseRefusal
from holdfast.core.errors import CloseRefused
from holdfast.core.formatting import format_count, one_line
from holdfast.core.model import DocumentStatus
from holdfast.core.suggested_commands import REASON_ARGS, command_args
from holdfast.observe.events import BatchCleaned, Event, Stopping
from holdfast.ops import close_batch
from holdfast.stores.protocol import Store


@click.command()
@click.argument("pipeline")
@click.argument("batch")
@who_and_optional_reason()
@click.option(
    "--tolerate",
    type=ShareType(),
    help="Share of documents that may be dead letters that nobody accepted, such as 5%. [default: the pipeline's]",
)
@click.option("--seal", is_flag=True, help="Seal the batch first, if it is open.")
@click.option(
    "--cleanup",
    is_flag=True,
    help="Delete the documents of the batch when its closing steps have ended. Its report and its journal stay.",
)
@observe_options
@common_options
@click.pass_obj
@resumable
def close(
    cli: CliContext,
    /,
    *,
    pipeline: str,
    batch: str,
    who: str,
    reason: str,
    tolerate: float | None,
    seal: bool,
    cleanup: bool,
    **observe: Any,
) -> None:
    """Close a batch permanently, save its report, and run its closing steps.

    PIPELINE is a Python file or module, as for `holdfast run`. It has the closing steps. BATCH is a batch of it.

    The batch must be sealed and must balance. All its documents must have ended, and its dead letters must be accepted.
    If something is missing, the command says what. If the closing steps or the cleanup are interrupted, run the
    command again to continue. The batch stays closed, with the same report.
    """
    cli.export_store_url()
    loaded = load_pipeline(pipeline)
    name = loaded.pipeline.name
    with open_existing_store(cli) as store, add_resume_hint(cli, "batch", "close", pipeline, batch):
        call_prepare(loaded, store)
        sealed = seal and store.seal(name, batch, who=who, reason=reason)
        stop = _CloseOutcome()
        try:
            decision: dict[str, Any] = {"who": who, "reason": reason, "tolerate": tolerate}
            options = {"batch": batch, "cleanup": cleanup, **decision}
            report = _close(cli, loaded, store, stop, options=options, observe=observe)
        except CloseRefused as refusal:
            sealing = "\nIt is sealed now: it accepts no more documents." if sealed else ""
            raise CliError(_format_refusal(cli, refusal.refusal) + sealing, code=CHECK_FAILED) from refusal
        last = close_batch.closing_document(store, name, batch)
        next_commands = close_batch.resume_commands(store, last, file=pipeline) if last else []
    if cli.json:
        cleaned = {"documents": stop.documents, "items": stop.items} if cleanup else None
        fields = {"report": report, "closing": _closing_as_json(last), "stopped_by": stop.reason}
        print_json(fields | {"cleaned": cleaned})
    else:
        _print_result(cli, report, last, stop, next_commands)
    if last is not None and last.state != "done":
        raise click.exceptions.Exit(stop.exit_code)


class _CloseOutcome:
    """A listener that keeps the signal that stopped the closing steps, and what was cleaned up."""

    def __init__(self) -> None:
        self.reason = ""
        self.documents = self.items = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stopping):
            self.reason = event.reason
        elif isinstance(event, BatchCleaned):
            self.documents, self.items = event.documents, event.items

    @property
    def exit_code(self) -> int:
        """The exit code if the closing steps are not done."""
        return BY_SIGNAL.get(self.reason, CHECK_FAILED)


def _close(
    cli: CliContext,
    loaded: LoadedPipeline,
    store: Store,
    stop: _CloseOutcome,
    *,
    options: dict[str, Any],
    observe: dict[str, Any],
) -> BatchReport:
    """Close the batch with all listeners. A second Ctrl-C gives the closing steps back and does not wait for them."""
    workers = StartedWorkers()
    with exit_on_second_signal(cli), convert_system_exit("the closing steps"), open_listeners(observe) as observers:
        try:
            return close_batch.close(loaded.pipeline, store, listeners=(workers, stop, *observers), **options)
        except KeyboardInterrupt:
            if not workers.retire(store):
                exit_now(cli)
            raise


def _format_refusal(cli: CliContext, refusal: CloseRefusal) -> str:
    """Return why the batch cannot be closed, with a command for each reason."""
    batch = ("--pipeline", refusal.pipeline, "--batch", refusal.batch)
    seal = cli.command(*command_args(("batch", "seal"), refusal.pipeline, refusal.batch))
    reasons = [
        (refusal.unsealed(), f"{seal}   # or close it with --seal"),
        (refusal.unbalanced(), cli.command(*command_args(("batch", "reconcile"), refusal.pipeline, refusal.batch))),
        (refusal.unfinished(), cli.command("explain", *batch)),
        (refusal.unaccepted(), cli.command("dead", "redrive", *batch, *REASON_ARGS)),
        (refusal.unaccepted() and "  or accept them:", cli.command("dead", "accept", *batch, *REASON_ARGS)),
    ]
    return "\n".join([refusal.headline(), *[f"  {reason}\n    {command}" for reason, command in reasons if reason]])


def _closing_as_json(last: DocumentStatus | None) -> dict[str, Any] | None:
    if last is None:
        return None
    return {"state": last.state, "step": last.checkpoint.step, "reason": last.reason}


def _print_result(
    cli: CliContext,
    report: BatchReport,
    last: DocumentStatus | None,
    stop: _CloseOutcome,
    next_commands: list[tuple[str, ...]],
) -> None:
    counts = report.in_all
    parts = [f"{counts.done:,} done"]
    parts += [f"{counts.dead:,} dead, {counts.accepted:,} of them accepted"] if counts.dead else []
    parts += [f"{counts.cancelled:,} cancelled"] if counts.cancelled else []
    print_line(
        f"Batch {report.batch} of {report.pipeline} was closed by {report.closed_by}: "
        f"{format_count(report.expected, 'document')}, {', '.join(parts)}."
    )
    if last is not None and last.state == "done":
        print_line("Its closing steps are done.")
    elif last is not None and stop.reason:
        by = SIGNALS.get(stop.reason, stop.reason)
        print_line(
            f"Its closing steps were stopped by {by}{_at(last)}; everything is saved. Run the same command again:"
        )
        print_line(f"  {cli.same_command('batch', 'close', report.pipeline, report.batch)}")
    elif last is not None:
        print_line(f"Its closing steps are not done: {last.state}{_at(last)}: {one_line(last.reason)}")
        show: tuple[str, ...] = command_args(("show",), report.batch, options=("--pipeline", report.pipeline + CLOSING))
        for command in [show, *next_commands]:
            print_line(f"  {cli.command(*command)}")
    if stop.documents:
        print_line(f"{format_count(stop.documents, 'document')} cleaned up.")
    write = ("--report", f"{report.batch}.html")
    html = command_args(("batch", "reconcile"), report.pipeline, report.batch, options=write)
    print_line(f"To write the report: {cli.command(*html)}")


def _at(last: DocumentStatus) -> str:
    return f" at {last.checkpoint.step}" if last.checkpoint.step else ""
