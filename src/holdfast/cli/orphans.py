"""`holdfast orphans`: running documents that nobody seems to advance, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click
import msgspec

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.stores import known_batch, known_pipeline, store_that_exists
from holdfast.cli.who import named
from holdfast.cli.words import count, one_line, place, table
from holdfast.cli.working import Duration
from holdfast.core.model import Standing
from holdfast.core.orphans import STRATEGIES, Orphan, Strategy
from holdfast.engine.orphans import find_orphans, resolve_orphans
from holdfast.stores.protocol import Store

SHOWN = 50
"""More orphans than a person reads are counted; --json lists them all."""

BECOMES = {"requeue": "waiting again", "fail": "dead", "review": "paused for a person"}


@click.command()
@click.argument("pipeline", required=False)
@click.option("--batch", help="Only in this batch.")
@click.option(
    "--grace",
    type=Duration(),
    default="2h",
    show_default=True,
    help="How long ago the last sign of life has to be: heartbeat, deadline of the step, or progress.",
)
@click.option(
    "--strategy",
    type=click.Choice([*STRATEGIES]),
    help="What becomes of them: wait again, dead letters, or paused for a person. Without it they are listed.",
)
@named
@click.option("--reason", default="", help="Why; kept in the journal. Needed with --strategy.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@common
@click.pass_obj
def orphans(
    asked: Asked,
    /,
    *,
    pipeline: str | None,
    batch: str | None,
    grace: timedelta,
    strategy: Strategy | None,
    dry_run: bool,
    **signed: str,
) -> None:
    """Lists running documents that nobody seems to advance, or with --strategy resolves them.

    Found are documents whose worker is gone or silent, whose step is overdue, or that made no progress for longer than
    the grace although their worker lives. Workers take over from each other by themselves, within seconds; this is for
    what is left when no worker runs, or when one is stuck. PIPELINE is a pipeline's name (or its file); all otherwise.
    """
    if strategy and not signed["reason"]:
        raise Trouble(f"say why with --reason, for the journal: {asked.same_command('orphans')} --reason ...")
    with store_that_exists(asked) as store:
        found = [
            orphan
            for name in _pipelines(store, pipeline, batch)
            for orphan in find_orphans(store, name, grace=grace, batch=batch)
        ]
        taken = resolve_orphans(store, found, strategy=strategy, **signed) if strategy and not dry_run else []
        if asked.json:
            click.echo(_as_json(found, taken, strategy))
        else:
            _tell(asked, store, found)
            _tell_end(asked, found, taken, strategy, dry_run=dry_run)


def _pipelines(store: Store, pipeline: str | None, batch: str | None) -> list[str]:
    if pipeline is None:
        return store.pipelines()
    name = known_pipeline(store, pipeline)
    if batch:
        known_batch(store, name, batch)
    return [name]


def _tell(asked: Asked, store: Store, found: Sequence[Orphan]) -> None:
    if not found:
        click.echo("No orphans: every running document has given a sign of life.")
        return
    several = len({(one.standing.pipeline, one.standing.batch) for one in found}) > 1
    shapes = {name: store.shape(name) for name in {one.standing.pipeline for one in found}}
    rows = []
    for one in found[:SHOWN]:
        here = one.standing
        where = f"{here.pipeline}/{here.batch}/{here.key}" if several else here.key
        worker = f"{here.holder} ({'alive' if one.alive else 'silent'})"
        rows.append([where, place(here.checkpoint, shapes[here.pipeline]), worker, one_line(one.why)])
    for line in table(rows):
        click.echo(line)
    if len(found) > SHOWN:
        click.echo(f"... and {len(found) - SHOWN:,} more: {asked.same_command('orphans')} --json")


def _tell_end(
    asked: Asked, found: Sequence[Orphan], taken: Sequence[Standing], strategy: Strategy | None, *, dry_run: bool
) -> None:
    if not found:
        return
    if strategy is None:
        command = f"{asked.same_command('orphans')} --strategy requeue --reason ..."
        click.echo(f"{count(len(found), 'orphan')}. To let them wait again (or fail, or review): {command}")
    elif dry_run:
        click.echo(f"{count(len(found), 'orphan')} would be {BECOMES[strategy]}; nothing was done.")
    else:
        are = "is" if len(taken) == 1 else "are"
        click.echo(f"{len(taken):,} of {count(len(found), 'orphan')} {are} now {BECOMES[strategy]}.")
        if len(taken) < len(found):
            click.echo(f"{len(found) - len(taken):,} moved, or were taken by others, meanwhile; they were left alone.")


def _as_json(found: Sequence[Orphan], taken: Sequence[Standing], strategy: Strategy | None) -> bytes:
    now = {here.id: here.state for here in taken}
    said: dict[str, Any] = {
        "strategy": strategy,
        "resolved": len(taken),
        "orphans": [
            {
                "pipeline": one.standing.pipeline,
                "batch": one.standing.batch,
                "key": one.standing.key,
                "step": one.standing.checkpoint.step,
                "cursor": one.standing.checkpoint.cursor,
                "moves": one.standing.checkpoint.moves,
                "worker": one.standing.holder,
                "worker_alive": one.alive,
                "sign": one.sign,
                "since": one.since,
                "why": one.why,
                "now": now.get(one.standing.id, one.standing.state),
            }
            for one in found
        ],
    }
    return msgspec.json.encode(said)
