"""`holdfast reconcile`: where every document of a batch is, whether that balances, and a report to file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.asked import NOT_IN_ORDER, Asked, Trouble, common
from holdfast.cli.balance import balances, in_order, numbers
from holdfast.cli.saying import say, tell
from holdfast.cli.stores import known_batch, known_pipeline, store_that_exists
from holdfast.cli.words import count, moment, one_line, table
from holdfast.core.batches import BatchReport, Reconciliation
from holdfast.core.model import Entry
from holdfast.core.plan import Shape
from holdfast.stores.protocol import Store

BY_STEP = ("waiting", "running", "orphaned", "paused", "dead", "accepted", "cancelled")
DELETED = {"documents": "documents", "items": "items", "asides": "set aside", "lines": "journal lines"}
NAMED = 20
"""So many missing documents are named; the report and --json name them all."""


@click.command()
@click.argument("pipeline")
@click.option("--batch", help="Only this batch.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write the report of the batch: FILE.json for programs, FILE.html to file.",
)
@common
@click.pass_obj
def reconcile(asked: Asked, *, pipeline: str, batch: str | None, report: Path | None) -> None:
    """Counts where the documents of PIPELINE are, and ends with 0 only if nothing is missing.

    PIPELINE is a pipeline's name, or its file. Documents that are missing are named. Of one batch its journal is told,
    too: who sealed it, closed it and cleaned it up. The report of a closed batch is the one that was made when it was
    closed.
    """
    with store_that_exists(asked) as store:
        pipeline = known_pipeline(store, pipeline)
        batches = store.census(pipeline, batch)
        if batch and not batches:
            known_batch(store, pipeline, batch)
        if report is not None:
            _write(_report(store, pipeline, batches), report)
        missing = {one.batch: store.missing(pipeline, one.batch) for one in batches if not one.balances}
        shape = store.shape(pipeline)
        journal = store.batch_journal(pipeline, batch) if batch else []
    if asked.json:
        said = _as_json(pipeline, batches, missing)
        tell(said | {"journal": _lines(journal)} if batch else said)
    else:
        _tell(pipeline, batches, missing, shape)
        _tell_journal(journal)
        if report is not None:
            say(f"The report is in {report}.")
    if missing:
        raise click.exceptions.Exit(NOT_IN_ORDER)


def _report(store: Store, pipeline: str, batches: Sequence[Reconciliation]) -> BatchReport:
    if len(batches) != 1:
        has = ", ".join(one.batch for one in batches) or "none yet"
        raise Trouble(f"a report is of one batch; say which with --batch. {pipeline} has: {has}")
    return store.report(pipeline, batches[0].batch)


def _write(report: BatchReport, file: Path) -> None:
    if file.suffix == ".json":
        content = msgspec.json.format(msgspec.json.encode(report)) + b"\n"
    elif file.suffix in (".html", ".htm"):
        from holdfast.cli.page import page_of

        content = page_of(report).encode()
    else:
        raise Trouble(f"{file} is neither FILE.json nor FILE.html, so it is not known how to write the report")
    try:
        file.write_bytes(content)
    except OSError as error:
        raise Trouble(f"the report cannot be written to {file}: {error.strerror}") from error


def _as_json(pipeline: str, batches: Sequence[Reconciliation], missing: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "pipeline": pipeline,
        "balances": not missing,
        "batches": [
            msgspec.to_builtins(one) | {"balances": one.balances, "missing": missing.get(one.batch, [])}
            for one in batches
        ],
    }


def _tell(pipeline: str, batches: Sequence[Reconciliation], missing: dict[str, list[str]], shape: Shape | None) -> None:
    if not batches:
        say(f"{pipeline} has no documents yet.")
        return
    say(pipeline, bold=True)
    for line in balances((one.batch, one.state, one) for one in batches):
        say(line)
    for one in batches:
        _tell_orphaned(one)
        _tell_steps(one, shape)
        _tell_missing(one, missing.get(one.batch))


def _tell_orphaned(one: Reconciliation) -> None:
    if one.orphaned:
        say(f"  {one.batch}: of the {one.running:,} running, {one.orphaned:,} orphaned", fg="yellow")


def _tell_journal(journal: Sequence[Entry]) -> None:
    """Who did what to the batch itself, when and why."""
    if not journal:
        return
    say()
    say("  journal", bold=True)
    rows = [[moment(entry.at), entry.verb, f"by {entry.who}", _why(entry)] for entry in journal]
    for line in table(rows, indent="    "):
        say(line)


def _why(entry: Entry) -> str:
    detail = entry.detail if isinstance(entry.detail, dict) else {}
    if entry.verb == "cleanup":
        return ", ".join(f"{detail[word]:,} {said}" for word, said in DELETED.items() if detail.get(word))
    return one_line(str(detail.get("reason") or ""))


def _lines(journal: Sequence[Entry]) -> list[dict[str, Any]]:
    return [{"at": entry.at, "verb": entry.verb, "who": entry.who, "detail": entry.detail} for entry in journal]


def _tell_steps(one: Reconciliation, shape: Shape | None) -> None:
    """Where those are that are not done. Columns in which nothing is are left out."""
    words = [word for word in BY_STEP if any(getattr(counted, word) for counted in one.steps.values())]
    if not words:
        return
    steps = in_order(one.steps, shape.names if shape else ())
    rows = [[one.batch, "at step", *words], *[["", step, *numbers(one.steps[step], words)] for step in steps]]
    say()
    for line in table(rows, indent="  ", right=range(2, len(words) + 2)):
        say(line)


def _tell_missing(one: Reconciliation, missing: list[str] | None) -> None:
    if missing is None:
        return
    say()
    if not missing:
        say(f"  {one.batch}: {one.found - one.expected:,} more than were ever submitted", fg="red")
        return
    say(f"  {one.batch}: {count(len(missing), 'document')} missing, deleted by nobody we know:", fg="red")
    for key in missing[:NAMED]:
        say(f"    {key}")
    if len(missing) > NAMED:
        say(f"    and {len(missing) - NAMED:,} more: --json and --report name them")
