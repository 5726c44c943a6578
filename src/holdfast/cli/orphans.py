"""`holdfast orphans`: running documents that nobody seems to advance, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.saying import say, tell
from holdfast.cli.stores import known_batch, known_pipeline, store_that_exists
from holdfast.cli.who import named
from holdfast.cli.words import count, harmless, one_line, place, span, table
from holdfast.cli.working import Duration
from holdfast.core.commands import WHY, about
from holdfast.core.model import Standing
from holdfast.core.orphans import GRACE, STRATEGIES, Orphan, Strategy
from holdfast.engine.orphans import find_orphans, resolve_orphans
from holdfast.stores.protocol import Store

SHOWN = 50
"""More orphans than a person reads are counted; --json lists them all."""

SHORTEST = timedelta(seconds=1)
PATIENCE = tuple(timedelta(seconds=seconds) for seconds in (1, 10, 30, 60, 600, 1800, 3600))
"""How short a grace is advised: the longest that finds what is there."""

BECOMES = {"requeue": "waiting again", "fail": "dead letters", "review": "paused for a person"}


@click.command()
@click.argument("pipeline", required=False)
@click.argument("keys", nargs=-1)
@click.option("--batch", help="Only in this batch.")
@click.option("--worker", metavar="NAME", help="Only what this worker holds.")
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
    strategy: Strategy | None,
    dry_run: bool,
    who: str,
    reason: str,
    **which: Any,
) -> None:
    """Lists running documents that nobody seems to advance, or with --strategy resolves them.

    Found are documents whose worker is gone or silent, whose step is overdue, or that made no progress for longer than
    the grace although their worker lives. Workers take over from each other by themselves, within seconds; this is for
    what is left when no worker runs, or when one is stuck. PIPELINE is a pipeline's name (or its file); all otherwise.
    With KEYS after it, only these documents are meant.
    """
    scan = Scan(**which)
    if strategy and not reason:
        raise Trouble(f"say why with --reason, for the journal: {scan.command(asked, '--strategy', strategy, *WHY)}")
    with store_that_exists(asked) as store:
        found = scan.found(store)
        taken: list[Standing] = []
        if strategy and not dry_run:
            taken = resolve_orphans(store, found, strategy=strategy, who=who, reason=reason)
        younger = scan.younger(store, found)
        if asked.json:
            tell(_as_json(found, younger, taken, strategy))
            return
        if found:
            _tell(asked, store, scan, found)
            _tell_end(asked, scan, found, taken, strategy, dry_run=dry_run)
        else:
            say(f"No orphans older than {span(scan.grace.total_seconds())}.")
        if younger:
            _tell_younger(asked, store, scan, younger)


class Scan(Struct, frozen=True, kw_only=True):
    """Which orphans are looked for."""

    pipeline: str | None
    keys: tuple[str, ...]
    batch: str | None
    worker: str | None
    grace: timedelta

    def found(self, store: Store) -> list[Orphan]:
        """Finds them, the oldest of each pipeline first."""
        return [
            orphan
            for name in self._pipelines(store)
            for orphan in find_orphans(store, name, grace=self.grace, batch=self.batch)
            if (not self.keys or orphan.standing.key in self.keys) and self.worker in (None, orphan.standing.holder)
        ]

    def younger(self, store: Store, found: Sequence[Orphan]) -> list[Orphan]:
        """Finds what would be found beside these with less grace, without what living workers may just be slow with."""
        known = {orphan.standing.id for orphan in found}
        all_of_them = replace(self, grace=SHORTEST).found(store)
        return [orphan for orphan in all_of_them if orphan.sign != "stuck" and orphan.standing.id not in known]

    def command(self, asked: Asked, *more: str) -> str:
        """Gives the command that looks for the same again, and does more."""
        names = [name for name in (self.pipeline, *self.keys) if name]
        options = ["--batch", self.batch] if self.batch else []
        options += ["--worker", self.worker] if self.worker else []
        options += ["--grace", f"{self.grace.total_seconds():g}s"] if self.grace != GRACE else []
        return asked.command(*about(("orphans",), *names, options=(*options, *more)))

    def _pipelines(self, store: Store) -> list[str]:
        if self.pipeline is None:
            return store.pipelines()
        name = known_pipeline(store, self.pipeline)
        if self.batch:
            known_batch(store, name, self.batch)
        return [name]


def _tell_younger(asked: Asked, store: Store, scan: Scan, younger: Sequence[Orphan]) -> None:
    """Counts those within the grace, with the command that lists them."""
    since = store.now() - max(one.since for one in younger)
    patience = max((one for one in PATIENCE if one < since), default=SHORTEST)
    are = "1 is an orphan" if len(younger) == 1 else f"{len(younger):,} are orphans"
    say(f"{are} since less; to list: {replace(scan, grace=patience).command(asked)}")


def _tell(asked: Asked, store: Store, scan: Scan, found: Sequence[Orphan]) -> None:
    several = len({(one.standing.pipeline, one.standing.batch) for one in found}) > 1
    shapes = {name: store.shape(name) for name in {one.standing.pipeline for one in found}}
    rows = []
    for one in found[:SHOWN]:
        here = one.standing
        where = f"{here.pipeline}/{here.batch}/{here.key}" if several else here.key
        worker = f"{here.holder} ({'alive' if one.alive else 'silent'})"
        rows.append([harmless(where), place(here.checkpoint, shapes[here.pipeline]), worker, one_line(one.why)])
    for line in table(rows):
        say(line)
    if len(found) > SHOWN:
        say(f"... and {len(found) - SHOWN:,} more: {scan.command(asked, '--json')}")


def _tell_end(
    asked: Asked,
    scan: Scan,
    found: Sequence[Orphan],
    taken: Sequence[Standing],
    strategy: Strategy | None,
    *,
    dry_run: bool,
) -> None:
    if strategy is None:
        alive = sum(one.alive for one in found)
        held = f", {alive:,} of them held by workers that live" if alive else ""
        command = scan.command(asked, "--strategy", "requeue", *WHY)
        say(f"{count(len(found), 'orphan')}{held}. To let them wait again (or fail, or review): {command}")
    elif dry_run:
        say(f"{count(len(found), 'orphan')} would be {BECOMES[strategy]}; nothing was done.")
    else:
        are = "is" if len(taken) == 1 else "are"
        say(f"{len(taken):,} of {count(len(found), 'orphan')} {are} now {BECOMES[strategy]}.")
        if len(taken) < len(found):
            say(f"{len(found) - len(taken):,} moved, or were taken by others, meanwhile; they were left alone.")


def _as_json(
    found: Sequence[Orphan], younger: Sequence[Orphan], taken: Sequence[Standing], strategy: Strategy | None
) -> dict[str, Any]:
    now = {here.id: here.state for here in taken}
    return {
        "strategy": strategy,
        "resolved": len(taken),
        "younger": len(younger),
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
