"""`holdfast doc orphans`: find running documents that no worker advances, and resolve them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.observe_options import notify_options, open_listeners
from holdfast.cli.options import REASON_HELP, batch_option, common_options, dry_run_option, who_option
from holdfast.cli.output import print_json, print_line
from holdfast.cli.param_types import DurationType, format_duration_arg
from holdfast.cli.shown_keys import possible_keys, shown_key, shown_place
from holdfast.cli.store_access import open_existing_store, require_batch, require_pipeline
from holdfast.core.formatting import (
    format_checkpoint,
    format_count,
    format_duration,
    format_table,
    one_line,
    printable,
)
from holdfast.core.model import DocumentStatus
from holdfast.core.orphans import GRACE, STRATEGIES, Orphan, Strategy
from holdfast.core.suggested_commands import REASON_ARGS, command_args
from holdfast.observe.events import Listener, Reclaimed
from holdfast.ops.maintenance_scan import find_orphans, resolve_orphans
from holdfast.stores.protocol import Store

MAX_SHOWN = 50
"""How many orphans are printed. --json lists all of them."""

MIN_GRACE = timedelta(seconds=1)
SUGGESTED_GRACES = tuple(timedelta(seconds=seconds) for seconds in (1, 10, 30, 60, 600, 1800, 3600))
"""Values of --grace to suggest. The longest one that finds the orphans is used."""

OUTCOMES = {"requeue": "waiting again", "fail": "dead letters", "review": "paused for a person"}


@click.command()
@click.argument("pipeline", required=False)
@click.argument("keys", nargs=-1)
@batch_option
@click.option("--worker", metavar="NAME", help="Only documents that this worker holds.")
@click.option(
    "--grace",
    type=DurationType(),
    default=format_duration_arg(GRACE),
    show_default=True,
    help="Minimum time since the last heartbeat, the deadline of the step, or the last progress.",
)
@click.option(
    "--strategy",
    type=click.Choice([*STRATEGIES]),
    help="Requeue them, make them dead letters, or pause them for review. Without it, only list them.",
)
@who_option
@click.option("--reason", default="", help=f"{REASON_HELP} Required with --strategy.")
@dry_run_option
@notify_options
@common_options
@click.pass_obj
def orphans(
    cli: CliContext,
    /,
    *,
    strategy: Strategy | None,
    dry_run: bool,
    who: str,
    reason: str,
    notify: tuple[str, ...],
    notify_on: tuple[str, ...],
    **query: Any,
) -> None:
    """List running documents that no worker advances, or resolve them with --strategy.

    PIPELINE is the name of a pipeline, or its file. Without it, all pipelines are searched. With KEYS, only these
    documents are listed.

    A document is an orphan if its worker is dead or silent, if its step is overdue, or if it made no progress for
    longer than --grace although its worker is alive. Workers take over from dead workers by themselves, within seconds.
    This command is for the case that no worker runs, or that one is stuck.
    """
    scan = OrphanQuery(**query)
    if strategy and not reason:
        raise CliError(
            f"give a reason for the journal with --reason: {scan.command(cli, '--strategy', strategy, *REASON_ARGS)}"
        )
    with open_existing_store(cli) as store:
        found = scan.find(store)
        resolved: list[DocumentStatus] = []
        if strategy and not dry_run:
            resolved = resolve_orphans(store, found, strategy=strategy, who=who, reason=reason)
            with open_listeners({"notify": notify, "notify_on": notify_on}) as listeners:
                _announce(resolved, who, listeners)
        younger = scan.younger(store, found)
        if cli.json:
            print_json(_as_json(found, younger, resolved, strategy))
            return
        if found:
            _print_orphans(cli, store, scan, found)
            _print_outcome(cli, scan, found, resolved, strategy, dry_run=dry_run)
        else:
            print_line(f"No orphans older than {format_duration(scan.grace.total_seconds())}.")
        if younger:
            _print_younger(cli, store, scan, younger)


def _announce(resolved: Sequence[DocumentStatus], who: str, listeners: Sequence[Listener]) -> None:
    """Tell listeners which orphans were resolved, as workers do."""
    for pipeline in sorted({document.pipeline for document in resolved}):
        documents = [document for document in resolved if document.pipeline == pipeline]
        for listener in listeners:
            listener(Reclaimed(documents, pipeline=pipeline, worker=who))


class OrphanQuery(Struct, frozen=True, kw_only=True):
    """Which orphans to find."""

    pipeline: str | None
    keys: tuple[str, ...]
    batch: str | None
    worker: str | None
    grace: timedelta

    def find(self, store: Store) -> list[Orphan]:
        """Return the orphans, the oldest of each pipeline first."""
        keys = {possible for key in self.keys for possible in possible_keys(key)}
        return [
            orphan
            for name in self._pipelines(store)
            for orphan in find_orphans(store, name, grace=self.grace, batch=self.batch)
            if (not keys or orphan.document.key in keys) and self.worker in (None, orphan.document.holder)
        ]

    def younger(self, store: Store, found: Sequence[Orphan]) -> list[Orphan]:
        """Return orphans that a shorter grace finds, without those of living workers, which may only be slow."""
        known = {orphan.document.id for orphan in found}
        orphans = replace(self, grace=MIN_GRACE).find(store)
        return [orphan for orphan in orphans if orphan.sign != "stuck" and orphan.document.id not in known]

    def command(self, cli: CliContext, *more: str) -> str:
        """Return the command with the same query and more options."""
        names = [name for name in (self.pipeline, *self.keys) if name]
        options = ["--batch", self.batch] if self.batch else []
        options += ["--worker", self.worker] if self.worker else []
        options += ["--grace", f"{self.grace.total_seconds():g}s"] if self.grace != GRACE else []
        return cli.command(*command_args(("doc", "orphans"), *names, options=(*options, *more)))

    def _pipelines(self, store: Store) -> list[str]:
        if self.pipeline is None:
            return store.pipelines()
        name = require_pipeline(store, self.pipeline)
        if self.batch:
            require_batch(store, name, self.batch)
        return [name]


def _print_younger(cli: CliContext, store: Store, scan: OrphanQuery, younger: Sequence[Orphan]) -> None:
    """Print the number of orphans within the grace, and the command that lists them."""
    age = store.now() - max(orphan.since for orphan in younger)
    grace = max((grace for grace in SUGGESTED_GRACES if grace < age), default=MIN_GRACE)
    number = format_count(len(younger), "younger orphan")
    print_line(f"{number}; to list: {replace(scan, grace=grace).command(cli)}")


def _print_orphans(cli: CliContext, store: Store, scan: OrphanQuery, found: Sequence[Orphan]) -> None:
    documents = [orphan.document for orphan in found]
    several = len({(document.pipeline, document.batch) for document in documents}) > 1
    shapes = {name: store.shape(name) for name in {document.pipeline for document in documents}}
    rows = []
    for orphan in found[:MAX_SHOWN]:
        document = orphan.document
        name = (
            f"{document.pipeline}/{shown_place(document.batch, document.key)}" if several else shown_key(document.key)
        )
        checkpoint = format_checkpoint(document.checkpoint, shapes[document.pipeline])
        worker = f"{document.holder} ({'alive' if orphan.alive else 'silent'})"
        rows.append([printable(name), checkpoint, worker, one_line(orphan.why)])
    for line in format_table(rows):
        print_line(line)
    if len(found) > MAX_SHOWN:
        print_line(f"... and {len(found) - MAX_SHOWN:,} more: {scan.command(cli, '--json')}")


def _print_outcome(
    cli: CliContext,
    scan: OrphanQuery,
    found: Sequence[Orphan],
    resolved: Sequence[DocumentStatus],
    strategy: Strategy | None,
    *,
    dry_run: bool,
) -> None:
    if strategy is None:
        alive = sum(orphan.alive for orphan in found)
        held = f", {alive:,} of them held by living workers" if alive else ""
        command = scan.command(cli, "--strategy", "requeue", *REASON_ARGS)
        print_line(f"{format_count(len(found), 'orphan')}{held}. To requeue them (or fail, or review): {command}")
    elif dry_run:
        print_line(f"{format_count(len(found), 'orphan')} would be {OUTCOMES[strategy]}; nothing was done.")
    else:
        are = "is" if len(resolved) == 1 else "are"
        print_line(f"{len(resolved):,} of {format_count(len(found), 'orphan')} {are} now {OUTCOMES[strategy]}.")
        if len(resolved) < len(found):
            print_line(f"{len(found) - len(resolved):,} moved or were taken over meanwhile; they were not changed.")


def _as_json(
    found: Sequence[Orphan], younger: Sequence[Orphan], resolved: Sequence[DocumentStatus], strategy: Strategy | None
) -> dict[str, Any]:
    states = {document.id: document.state for document in resolved}
    return {
        "strategy": strategy,
        "resolved": len(resolved),
        "younger": len(younger),
        "orphans": [
            {
                "pipeline": orphan.document.pipeline,
                "batch": orphan.document.batch,
                "key": orphan.document.key,
                "step": orphan.document.checkpoint.step,
                "cursor": orphan.document.checkpoint.cursor,
                "moves": orphan.document.checkpoint.moves,
                "worker": orphan.document.holder,
                "worker_alive": orphan.alive,
                "sign": orphan.sign,
                "since": orphan.since,
                "why": orphan.why,
                "now": states.get(orphan.document.id, orphan.document.state),
            }
            for orphan in found
        ],
    }
