"""`holdfast batch cleanup`: delete what is no longer needed, in slices that do not block workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import click
import msgspec

from holdfast.cli.context import CliContext
from holdfast.cli.options import common_options, dry_run_option, who_option
from holdfast.cli.output import print_json, print_line, print_lines
from holdfast.cli.param_types import DurationType, format_duration_arg
from holdfast.cli.store_access import open_existing_store, require_batch, require_pipeline
from holdfast.core.batches import CLOSING, Reconciliation
from holdfast.core.formatting import format_count, format_duration, format_table, one_line
from holdfast.core.model import DocumentStatus
from holdfast.core.suggested_commands import PIPELINE_FILE, REASON_ARGS, command_args
from holdfast.ops.cleanup import DEFAULT_OLDER, DEFAULT_STALE, CleanedBatch, CleanupReport, Retention, survey
from holdfast.ops.cleanup import cleanup as clean_up
from holdfast.ops.close_batch import are_over, closing_document, resume_commands
from holdfast.stores.protocol import Store

WHAT_IS_DELETED = {"closed": "closed: all but its report", "finished": "finished: the kept items"}


@click.command()
@click.argument("pipeline", required=False)
@click.argument("batch", required=False)
@dry_run_option
@click.option(
    "--older",
    type=DurationType(),
    default=format_duration_arg(DEFAULT_OLDER),
    show_default=True,
    help="In batches that are not closed, delete the kept items of documents that finished this long ago.",
)
@click.option(
    "--stale",
    type=DurationType(),
    default=format_duration_arg(DEFAULT_STALE),
    show_default=True,
    help="List batches in which no document has moved for this long.",
)
@click.option(
    "--with-errors",
    is_flag=True,
    help="Include documents that had failures or set items aside, accepted dead letters, and cancelled documents.",
)
@who_option
@common_options
@click.pass_obj
def cleanup(
    cli: CliContext,
    *,
    pipeline: str | None,
    batch: str | None,
    dry_run: bool,
    older: timedelta,
    stale: timedelta,
    with_errors: bool,
    who: str,
) -> None:
    """Delete what is no longer needed. Workers can run at the same time. It can be killed and run again.

    PIPELINE is the name of a pipeline, or its file, and BATCH is a batch of it. Without them, all pipelines are cleaned
    up. These are deleted:

    \b
      * of closed batches: documents, items and journals. The batch, its report and its
        own journal stay, and it still balances. Its closing steps must have ended (done,
        cancelled, or accepted as a dead letter).
      * of other batches: the items of documents that finished without errors long ago.
        The documents themselves stay.
      * big values that no item refers to, and records of workers that ended long ago.

    Batches in which nothing moves, or whose closing steps have not ended, are listed with the commands that help.
    """
    with open_existing_store(cli) as store:
        name = require_pipeline(store, pipeline) if pipeline else None
        if name and batch:
            require_batch(store, name, batch)
        retention = Retention(pipeline=name, batch=batch, older=older, stale=stale, with_errors=with_errors)
        report = survey(store, retention) if dry_run else clean_up(store, retention, who=who)
        now = store.now()
        unclosed = _unfinished_closing_steps(store, name, batch)
        next_commands = {last.id: resume_commands(store, last) for last in unclosed}
    if cli.json:
        print_json({"dry_run": dry_run, **msgspec.to_builtins(report), "kept": [*map(_closing_as_json, unclosed)]})
    else:
        _print_report(report, dry_run=dry_run)
        _print_closing_steps(cli, unclosed, next_commands)
        _print_stale_batches(cli, report.stale, now)


def _unfinished_closing_steps(store: Store, pipeline: str | None, batch: str | None) -> list[DocumentStatus]:
    """Return the closing steps that have not ended. Their batches are closed, and not cleaned up yet."""
    return [
        last
        for name in ([pipeline] if pipeline else store.pipelines())
        for counts in store.batch_counts(name, batch)
        if counts.state == "closed"
        and (last := closing_document(store, name, counts.batch)) is not None
        and not are_over(last)
    ]


def _closing_as_json(last: DocumentStatus) -> dict[str, str | None]:
    place = {"pipeline": last.pipeline.removesuffix(CLOSING), "batch": last.batch}
    return place | {"closing": last.state, "step": last.checkpoint.step, "reason": last.reason}


def _print_closing_steps(
    cli: CliContext, unclosed: Sequence[DocumentStatus], next_commands: dict[int, list[tuple[str, ...]]]
) -> None:
    for last in unclosed:
        where = f"{last.pipeline.removesuffix(CLOSING)}/{last.batch}"
        why = f": {one_line(last.reason)}" if last.reason else ""
        at = f"{last.state} at {last.checkpoint.step}{why}"
        print_lines(f"\n{where} is closed, but its closing steps have not ended: they are {at}")
        for command in next_commands[last.id]:
            print_line(f"  {cli.command(*command)}")


def _print_report(report: CleanupReport, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    if report.batches:
        rows = [["batch", "", "documents", "items", "set aside", "journal lines"], *map(_row, report.batches)]
        for line in format_table(rows, right=range(2, 6)):
            print_line(line)
    parts = [format_count(report.documents, "document")]
    parts += [format_count(report.blobs, "big value")] if report.blobs else []
    parts += [format_count(report.workers, "worker")] if report.workers else []
    print_line(f"{', '.join(parts)} {would}cleaned up.")


def _row(batch: CleanedBatch) -> list[str]:
    numbers = (batch.documents, batch.items, batch.asides, batch.lines)
    return [f"{batch.pipeline}/{batch.batch}", WHAT_IS_DELETED[batch.why], *[f"{number:,}" for number in numbers]]


def _print_stale_batches(cli: CliContext, stale: Sequence[Reconciliation], now: datetime) -> None:
    for batch in stale:
        print_line()
        moved = format_duration((now - (batch.moved_at or batch.created_at)).total_seconds())
        print_line(f"{batch.pipeline}/{batch.batch} is {batch.state}, and nothing has moved for {moved}.")
        for label, *command in _next_commands(batch):
            print_line(f"  {label:<28} {cli.command(*command)}")


def _next_commands(counts: Reconciliation) -> list[tuple[str, ...]]:
    """Return what can be done with a batch in which nothing moves: a label and a command each."""
    batch = ("--pipeline", counts.pipeline, "--batch", counts.batch)
    commands: list[tuple[str, ...]] = []
    if counts.open:
        commands.append((f"{counts.open:,} open, see why:", "explain", *batch))
        commands.append(("cancel them:", "doc", "cancel", *batch, *REASON_ARGS))
    if counts.not_accepted:
        commands.append((f"{counts.not_accepted:,} dead, try again:", "dead", "redrive", *batch, *REASON_ARGS))
        commands.append(("or accept them:", "dead", "accept", *batch, *REASON_ARGS))
    if counts.state == "open":
        commands.append(("accept no more documents:", *command_args(("batch", "seal"), counts.pipeline, counts.batch)))
    commands.append(("close it:", *command_args(("batch", "close"), PIPELINE_FILE, counts.batch)))
    return commands
