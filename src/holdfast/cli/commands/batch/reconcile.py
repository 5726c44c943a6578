"""`holdfast batch reconcile`: check that no document of a batch is missing, and write a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.exit_codes import CHECK_FAILED
from holdfast.cli.options import common_options
from holdfast.cli.output import print_json, print_line
from holdfast.cli.shown_keys import shown_key
from holdfast.cli.store_access import open_existing_store, require_batch, require_pipeline
from holdfast.cli.ui.balance import BY_STEP, format_balances, format_numbers, sort_steps
from holdfast.core.batches import BatchReport, Reconciliation, describe_deadline
from holdfast.core.formatting import format_count, format_table, format_time, one_line
from holdfast.core.model import JournalEntry
from holdfast.core.plan import Shape
from holdfast.core.private_files import write_private
from holdfast.stores.protocol import Store

DELETED = {"documents": "documents", "items": "items", "asides": "set aside", "lines": "journal lines"}
MAX_MISSING_SHOWN = 20
"""How many missing documents are printed. The report and --json have all of them."""


@click.command()
@click.argument("pipeline")
@click.argument("batch", required=False)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write the report of the batch: FILE.json for programs, FILE.html to read and print.",
)
@common_options
@click.pass_obj
def reconcile(cli: CliContext, *, pipeline: str, batch: str | None, report: Path | None) -> None:
    """Count the documents of PIPELINE in every state, and check that none is missing.

    PIPELINE is the name of a pipeline, or its file. The exit code is 0 only if no document is missing. Missing
    documents are listed. With BATCH, only this batch is counted, and its journal is printed too: who sealed it, closed
    it and cleaned it up. The report of a closed batch is the one that was made when it was closed.
    """
    with open_existing_store(cli) as store:
        pipeline = require_pipeline(store, pipeline)
        batches = store.batch_counts(pipeline, batch)
        if batch and not batches:
            require_batch(store, pipeline, batch)
        if report is not None:
            _write_report(_batch_report(store, pipeline, batches), report)
        missing = {counts.batch: store.missing(pipeline, counts.batch) for counts in batches if not counts.balances}
        shape = store.shape(pipeline)
        journal = store.batch_journal(pipeline, batch) if batch else []
    if cli.json:
        fields = _as_json(pipeline, batches, missing)
        print_json(fields | {"journal": _journal_as_json(journal)} if batch else fields)
    else:
        _print_counts(pipeline, batches, missing, shape)
        _print_journal(journal)
        if report is not None:
            print_line(f"The report is in {report}.")
    if missing:
        raise click.exceptions.Exit(CHECK_FAILED)


def _batch_report(store: Store, pipeline: str, batches: Sequence[Reconciliation]) -> BatchReport:
    if len(batches) != 1:
        has = ", ".join(counts.batch for counts in batches) or "none yet"
        raise CliError(f"a report is about one batch; name it after the pipeline. {pipeline} has: {has}")
    return store.report(pipeline, batches[0].batch)


def _write_report(report: BatchReport, file: Path) -> None:
    if file.suffix == ".json":
        content = msgspec.json.format(msgspec.json.encode(report)) + b"\n"
    elif file.suffix in (".html", ".htm"):
        from holdfast.cli.ui.batch_report_html import render_batch_report

        content = render_batch_report(report).encode()
    else:
        raise CliError(f"the report cannot be written to {file}: its name must end with .json or .html")
    try:
        write_private(file, content)
    except OSError as error:
        raise CliError(f"the report cannot be written to {file}: {error.strerror}") from error


def _as_json(pipeline: str, batches: Sequence[Reconciliation], missing: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "balances": not missing,
        "batches": [
            msgspec.to_builtins(counts) | {"balances": counts.balances, "missing": missing.get(counts.batch, [])}
            for counts in batches
        ],
    }


def _journal_as_json(journal: Sequence[JournalEntry]) -> list[dict[str, Any]]:
    return [{"at": entry.at, "verb": entry.verb, "who": entry.who, "detail": entry.detail} for entry in journal]


def _print_counts(
    pipeline: str, batches: Sequence[Reconciliation], missing: dict[str, list[str]], shape: Shape | None
) -> None:
    if not batches:
        print_line(f"{pipeline} has no documents yet.")
        return
    print_line(pipeline, bold=True)
    for line in format_balances((counts.batch, counts.state, counts) for counts in batches):
        print_line(line)
    for counts in batches:
        if counts.deadline_at is not None and counts.state != "closed":
            print_line(f"  {describe_deadline(counts)}")
        _print_orphaned(counts)
        _print_steps(counts, shape)
        _print_missing(counts, missing.get(counts.batch))


def _print_orphaned(counts: Reconciliation) -> None:
    if counts.orphaned:
        print_line(f"  {counts.batch}: of the {counts.running:,} running, {counts.orphaned:,} orphaned", fg="yellow")


def _print_steps(counts: Reconciliation, shape: Shape | None) -> None:
    """Print where the documents are that are not done. Columns without a number are left out."""
    columns = [name for name in BY_STEP if any(getattr(step, name) for step in counts.steps.values())]
    if not columns:
        return
    steps = sort_steps(counts.steps, shape.names if shape else ())
    numbers = [["", step, *format_numbers(counts.steps[step], columns)] for step in steps]
    print_line()
    for line in format_table(
        [[counts.batch, "at step", *columns], *numbers], indent="  ", right=range(2, len(columns) + 2)
    ):
        print_line(line)


def _print_missing(counts: Reconciliation, missing: list[str] | None) -> None:
    if missing is None:
        return
    print_line()
    if not missing:
        print_line(f"  {counts.batch}: {counts.found - counts.expected:,} more than were ever submitted", fg="red")
        return
    number = format_count(len(missing), "document")
    print_line(f"  {counts.batch}: {number} missing, not deleted by holdfast:", fg="red")
    for key in missing[:MAX_MISSING_SHOWN]:
        print_line(f"    {shown_key(key)}")
    if len(missing) > MAX_MISSING_SHOWN:
        print_line(f"    and {len(missing) - MAX_MISSING_SHOWN:,} more; --json and --report list all")


def _print_journal(journal: Sequence[JournalEntry]) -> None:
    """Print who did what to the batch itself, when and why."""
    if not journal:
        return
    print_line()
    print_line("  journal", bold=True)
    rows = [[format_time(entry.at), entry.verb, f"by {entry.who}", _format_detail(entry)] for entry in journal]
    for line in format_table(rows, indent="    "):
        print_line(line)


def _format_detail(entry: JournalEntry) -> str:
    detail = entry.detail if isinstance(entry.detail, dict) else {}
    if entry.verb == "cleanup":
        return ", ".join(f"{detail[name]:,} {words}" for name, words in DELETED.items() if detail.get(name))
    return one_line(str(detail.get("reason") or ""))
