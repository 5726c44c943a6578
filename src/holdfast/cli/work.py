"""`holdfast work`: a worker, or several, for as long as there may be work."""

from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta
from typing import Any

import click

from holdfast.cli.asked import Asked, common
from holdfast.cli.counts import Counts
from holdfast.cli.eyes import how_to_watch
from holdfast.cli.pipelines import Loaded, load
from holdfast.cli.progress import showing
from holdfast.cli.stores import batch_to_drain, batch_to_wait_for, store_that_lasts
from holdfast.cli.summary import Summary
from holdfast.cli.working import closed, going_on_later, how_to_work, worked
from holdfast.engine import api
from holdfast.engine.budget import Budget
from holdfast.stores.protocol import Store


@click.command()
@click.argument("pipeline")
@click.option("--batch", help="Only the documents of this batch.")
@click.option("--drain", is_flag=True, help="End when nothing is left to do.")
@click.option(
    "--processes", type=click.IntRange(1), default=1, show_default=True, help="Worker processes; all stop together."
)
@click.option("--supervised", is_flag=True, hidden=True, help="Stop when stdin ends: the parent is gone.")
@how_to_work()
@how_to_watch
@common
@click.pass_obj
def work(
    asked: Asked,
    /,
    *,
    pipeline: str,
    batch: str | None,
    processes: int,
    supervised: bool,
    **how: Any,
) -> None:
    """Works on what was submitted: for ever, or with --drain until nothing is left.

    Any number of workers may run at once, here or on other machines. A worker process that dies is replaced, and the
    others go on with its documents.
    """
    if supervised:
        _stop_with_parent()
    asked.tell_bodies()
    loaded = load(pipeline)
    with store_that_lasts(asked) as store, going_on_later(asked, "work", pipeline):
        if batch and not supervised:  # whoever leads has looked
            look_for = batch_to_drain if how["drain"] else batch_to_wait_for
            look_for(store, loaded.pipeline.name, batch)
        if processes > 1:
            from holdfast.cli.fleet import lead

            lead(asked, loaded, store, processes=processes, batch=batch, how=how)
        else:
            _work(asked, loaded, store, batch=batch, **how)


def _work(
    asked: Asked, loaded: Loaded, store: Store, *, batch: str | None, drain: bool, budget: timedelta | None, **how: Any
) -> None:
    limits = Budget(budget)
    counts = Counts(loaded.pipeline, store, batch=batch, hands=how["threads"])
    counts.recount()
    verb = api.drain if drain else api.work
    with showing(asked, counts, limits) as progress:
        report = worked(asked, verb, loaded, store, progress=progress, budget=limits, how=how | {"batch": batch})
    goes_on = asked.same_command("work", loaded.spec)
    summary = Summary(store, loaded.pipeline.name, batch, report=report, stopped_by=limits.reason, goes_on=goes_on)
    closed(asked, summary, progress)


def _stop_with_parent() -> None:
    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="holdfast-parent", daemon=True).start()
