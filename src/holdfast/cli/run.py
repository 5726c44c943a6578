"""`holdfast run`: submit documents and work until nothing is left."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click

from holdfast.cli.asked import Asked, common
from holdfast.cli.counts import Counts
from holdfast.cli.documents import named, offered, own_files
from holdfast.cli.eyes import how_to_watch
from holdfast.cli.pipelines import Loaded, load
from holdfast.cli.progress import showing
from holdfast.cli.stores import batch_to_drain
from holdfast.cli.summary import Summary
from holdfast.cli.working import (
    closed,
    going_on_later,
    how_to_work,
    in_processes,
    prepared,
    submitted,
    words_of,
    worked,
)
from holdfast.engine import api
from holdfast.engine.budget import Budget
from holdfast.stores.protocol import Store


@click.command()
@click.argument("pipeline")
@click.argument("documents", nargs=-1)
@click.option("--batch", help='The batch to submit to ("default" if none is named) and to work on (all).')
@in_processes
@how_to_work()
@how_to_watch
@common
@click.pass_obj
def run(
    asked: Asked,
    /,
    *,
    pipeline: str,
    documents: tuple[str, ...],
    batch: str | None,
    budget: timedelta | None,
    **how: Any,
) -> None:
    """Submits documents and works until all are done. Run it again to go on.

    PIPELINE is a Python file or module; with several pipelines in it, file.py:name.

    DOCUMENTS are files, folders (all files below them, but hidden ones), globs, or - for stdin: one path or key a
    line, or JSON lines {"key": "...", "payload": ...}. Files that did not change since the last time cost nothing.
    Without DOCUMENTS it goes on with what is in the store, after submitting what the function `documents()` of the
    pipeline's file gives, if it has one. A function `prepare(tx)` in the file is called first, every time: there the
    tables that effects write to are created, if they are not there yet.
    """
    asked.tell_bodies()
    loaded = load(pipeline)
    words = ("run", pipeline, *(["--batch", batch] if batch else []))
    with api.opened(asked.store) as store, going_on_later(asked, *words):
        prepared(loaded, store)
        source = _source(asked, loaded, documents)
        _run(asked, loaded, store, source, batch=batch, budget=Budget(budget), how=how, words=words)


def _source(asked: Asked, loaded: Loaded, documents: tuple[str, ...]) -> Iterator[api.Submittable] | None:
    if documents:
        return named(documents, leaving_out=own_files(asked.store, loaded))
    return offered(loaded) if loaded.documents else None


def _run(
    asked: Asked,
    loaded: Loaded,
    store: Store,
    source: Iterator[api.Submittable] | None,
    *,
    batch: str | None,
    budget: Budget,
    how: dict[str, Any],
    words: tuple[str, ...],
) -> None:
    counts = Counts(loaded.pipeline, store, batch=batch, hands=how["threads"])
    receipt = None
    if batch and source is None:
        batch_to_drain(store, loaded.pipeline.name, batch)
    with showing(asked, counts, budget) as progress:
        if source is not None:
            receipt = submitted(loaded, store, batch=batch or "default", documents=source, counts=counts)
            progress.display.say(words_of(receipt))
        counts.recount()
        report = worked(asked, api.drain, loaded, store, progress=progress, budget=budget, how=how | {"batch": batch})
    summary = Summary(
        store, loaded.pipeline.name, batch, report=report, stopped_by=budget.reason, goes_on=asked.same_command(*words)
    )
    closed(asked, summary, progress, receipt)
