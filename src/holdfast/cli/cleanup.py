"""`holdfast cleanup`: deletes what nobody needs any more, in slices that hold no worker up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import click
import msgspec

from holdfast.cli.asked import Asked, common
from holdfast.cli.saying import say, say_lines, tell
from holdfast.cli.stores import known_batch, known_pipeline, store_that_exists
from holdfast.cli.who import named
from holdfast.cli.words import count, one_line, span, table
from holdfast.cli.working import Duration
from holdfast.core.batches import CLOSING, Reconciliation
from holdfast.core.commands import FILE, WHY, about
from holdfast.core.model import Standing
from holdfast.engine.cleanup import CleanedBatch, CleanupReport, Retention, survey
from holdfast.engine.cleanup import cleanup as clean_up
from holdfast.engine.closing import are_over, closing_document, ways_on
from holdfast.stores.protocol import Store

BECAUSE = {"closed": "closed: all but its report", "finished": "finished long ago: what they kept"}


@click.command()
@click.argument("pipeline", required=False)
@click.option("--batch", help="Only this batch.")
@click.option("--dry-run", is_flag=True, help="Count, and delete nothing.")
@click.option(
    "--older",
    type=Duration(),
    default="30d",
    show_default=True,
    help="What finished documents kept in batches that are not closed goes after this long.",
)
@click.option(
    "--stale",
    type=Duration(),
    default="7d",
    show_default=True,
    help="Batches in which nothing moved for this long are listed.",
)
@click.option(
    "--with-errors",
    is_flag=True,
    help="Also documents that failed on the way or set items aside, accepted dead letters, and the cancelled.",
)
@named
@common
@click.pass_obj
def cleanup(
    asked: Asked,
    *,
    pipeline: str | None,
    batch: str | None,
    dry_run: bool,
    older: timedelta,
    stale: timedelta,
    with_errors: bool,
    who: str,
) -> None:
    """Deletes what nobody needs any more. It may run beside workers, be killed, and be run again.

    Of closed batches whose closing steps are over (done, cancelled, or accepted as a dead letter): documents, items and
    journals; the batch, its report and its own journal stay, and it still balances. Of other batches: what documents
    kept that were done without errors long ago; the documents themselves stay known. Also big values that nothing
    refers to, and workers long gone. Batches in which nothing moves, or whose closing steps are not over, are listed
    with the commands that end them. PIPELINE is a name or a file; all of them otherwise.
    """
    with store_that_exists(asked) as store:
        named = known_pipeline(store, pipeline) if pipeline else None
        if named and batch:
            known_batch(store, named, batch)
        what = Retention(pipeline=named, batch=batch, older=older, stale=stale, with_errors=with_errors)
        report = survey(store, what) if dry_run else clean_up(store, what, who=who)
        now = store.now()
        kept = _kept_by_closing_steps(store, named, batch)
    if asked.json:
        tell({"dry_run": dry_run, **msgspec.to_builtins(report), "kept": [*map(_kept, kept)]})
    else:
        _tell(report, dry_run=dry_run)
        _tell_kept(asked, kept)
        _tell_stale(asked, report.stale, now)


def _kept_by_closing_steps(store: Store, pipeline: str | None, batch: str | None) -> list[Standing]:
    """Finds the closing steps that keep closed batches from being cleaned up, because they are not over."""
    return [
        last
        for name in ([pipeline] if pipeline else store.pipelines())
        for found in store.census(name, batch)
        if found.state == "closed"
        and (last := closing_document(store, name, found.batch)) is not None
        and not are_over(last)
    ]


def _kept(last: Standing) -> dict[str, str | None]:
    place = {"pipeline": last.pipeline.removesuffix(CLOSING), "batch": last.batch}
    return place | {"closing": last.state, "step": last.checkpoint.step, "reason": last.reason}


def _tell_kept(asked: Asked, kept: Sequence[Standing]) -> None:
    for last in kept:
        where = f"{last.pipeline.removesuffix(CLOSING)}/{last.batch}"
        why = f": {one_line(last.reason)}" if last.reason else ""
        at = f"{last.state} at {last.checkpoint.step}{why}"
        say_lines(f"\n{where} is closed, and stays until its closing steps are over. They are {at}")
        for words in ways_on(last):
            say(f"  {asked.command(*words)}")


def _tell(report: CleanupReport, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    if report.batches:
        rows = [["batch", "", "documents", "items", "set aside", "journal lines"], *map(_row, report.batches)]
        for line in table(rows, right=range(2, 6)):
            say(line)
    said = [count(report.documents, "document")]
    said += [count(report.blobs, "big value")] if report.blobs else []
    said += [count(report.workers, "worker")] if report.workers else []
    say(f"{', '.join(said)} {would}cleaned up.")


def _row(one: CleanedBatch) -> list[str]:
    numbers = (one.documents, one.items, one.asides, one.lines)
    return [f"{one.pipeline}/{one.batch}", BECAUSE[one.why], *[f"{number:,}" for number in numbers]]


def _tell_stale(asked: Asked, stale: Sequence[Reconciliation], now: datetime) -> None:
    for found in stale:
        say()
        moved = span((now - (found.moved_at or found.created_at)).total_seconds())
        say(f"{found.pipeline}/{found.batch} is {found.state}, and nothing has moved for {moved}.")
        for why, *words in _ways_out(found):
            say(f"  {why:<28} {asked.command(*words)}")


def _ways_out(found: Reconciliation) -> list[tuple[str, ...]]:
    batch = ("--pipeline", found.pipeline, "--batch", found.batch)
    ways: list[tuple[str, ...]] = []
    if found.open:
        ways.append((f"{found.open:,} open, see why:", "explain", *batch))
        ways.append(("give them up:", "cancel", *batch, *WHY))
    if found.not_accepted:
        ways.append((f"{found.not_accepted:,} dead, try again:", "dead", "redrive", *batch, *WHY))
        ways.append(("or accept them:", "dead", "accept", *batch, *WHY))
    if found.state == "open":
        ways.append(("take no more documents:", *about(("seal",), found.pipeline, found.batch)))
    ways.append(("close it:", *about(("close",), FILE, found.batch)))
    return ways
