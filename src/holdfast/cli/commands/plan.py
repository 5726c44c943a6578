"""`holdfast plan`: show what a run or an ingest would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.document_args import is_source
from holdfast.cli.options import batch_option, collection_option, common_options, source_options
from holdfast.cli.output import only_prints, print_json, print_line, styled
from holdfast.cli.pipeline_loader import PipelineNotFound, load_pipeline
from holdfast.cli.store_access import open_store_if_exists, require_batch
from holdfast.core.formatting import format_count, format_duration, format_table, format_time
from holdfast.core.staleness import Stale
from holdfast.ops.forecast import Forecast, make_forecast
from holdfast.ops.run_notices import rename_hint


@click.command()
@click.argument("pipeline", metavar="PIPELINE|SOURCE")
@batch_option
@collection_option
@source_options
@click.option("--price", type=float, help="Price of a million tokens, to estimate the cost of an embedding service.")
@click.option("--page-price", type=float, help="Price of a thousand pages, to estimate the cost of a reading service.")
@common_options
@click.pass_obj
@only_prints
def plan(
    cli: CliContext,
    /,
    *,
    pipeline: str,
    batch: str | None,
    collection: str,
    price: float | None,
    page_price: float | None,
    **scan: Any,
) -> None:
    """Show what a run or an ingest would do. Nothing is run, and nothing is changed.

    PIPELINE is a Python file or module, as for `holdfast run`. The plan shows which documents would run, which work is
    stale and why, and which documents wait for people. For steps that have run before, it estimates the time. If the
    store does not exist yet, it is not created, and everything counts as new.

    SOURCE is a folder, file, glob or URL, as for `holdfast ingest`. The plan shows which files are new, changed, moved
    or deleted, and estimates the pages, chunks, time and cost of making them searchable.
    """
    if is_source(pipeline):
        from holdfast.cli.commands.plan_ingest import print_ingest_plan  # needs the packages of document search

        print_ingest_plan(cli, pipeline, collection=collection, price=price, page_price=page_price, **scan)
        return
    try:
        loaded = load_pipeline(pipeline)
    except PipelineNotFound as missing:
        what = "give a folder, file or URL to ingest, or the Python file with your pipeline"
        raise CliError(f"there is no folder, file or module {pipeline}; {what}") from missing
    with open_store_if_exists(cli) as store:
        if store and batch and loaded.pipeline.name in store.pipelines():
            require_batch(store, loaded.pipeline.name, batch)
        forecast = make_forecast(loaded.pipeline, store, batch=batch)
        hint = rename_hint(loaded.pipeline, store)
    redo = redo_command(cli, pipeline)
    if cli.json:
        print_json(_as_json(cli, forecast, redo))
        return
    for line in _format_plan(cli, forecast, redo, hint):
        print_line(line)


def redo_command(cli: CliContext, pipeline: str) -> str:
    """Return the command that redoes stale work."""
    return cli.command("doc", "rewind", "--stale", pipeline)


def _format_plan(cli: CliContext, forecast: Forecast, redo: str, hint: str) -> Iterator[str]:
    yield styled(forecast.pipeline, bold=True) + f": {' → '.join(forecast.steps)}"
    if not forecast.known:
        yield f"  {cli.shown_store} does not have it yet: everything is new, and starts at {forecast.steps[0]}."
        return
    for change in forecast.changes:
        yield f"  changed since the last run: {change}"
    if hint:
        yield f"  {hint}"
    yield from _format_runs(forecast)
    yield from _format_rest(forecast)
    yield from format_stale(forecast, redo)


def _format_runs(forecast: Forecast) -> Iterator[str]:
    if not forecast.runs:
        yield "  Nothing would run."
        return
    total, seconds = sum(forecast.runs.values()), forecast.time_to_run()
    yield f"  {format_count(total, 'document')} would run{_format_history(seconds)}:"
    rows = [
        [f"from {step}", format_count(number, "document"), _format_average(forecast, step)]
        for step, number in forecast.runs.items()
    ]
    yield from format_table(rows, indent="    ", right=[1])


def _format_average(forecast: Forecast, step: str) -> str:
    seconds = forecast.seconds.get(step)
    return "" if seconds is None else f"{step} took {format_duration(seconds)} each"


def _format_rest(forecast: Forecast) -> Iterator[str]:
    if forecast.people:
        waiting = format_count(sum(forecast.people.values()), "document")
        yield f"  {waiting} would wait for a person: {_format_steps(forecast.people)}"
    if forecast.until and forecast.wakes:
        first, last = map(format_time, forecast.wakes)
        times = f"until {first}" if first == last else f"the first until {first}, the last until {last}"
        waiting = format_count(sum(forecast.until.values()), "document")
        yield f"  {waiting} would wait, {times}: {_format_steps(forecast.until)}"
    if forecast.late:
        late, at = format_count(sum(forecast.late.values()), "document"), _format_steps(forecast.late)
        yield f"  {late} would continue at once as otherwise= says, because nobody decided in time: {at}"
    if forecast.dead:
        dead = format_count(sum(forecast.dead.values()), "dead letter")
        yield f"  {dead} would not change: {_format_steps(forecast.dead)}"
    if forecast.done:
        stale = sum(count.documents for group in forecast.stale for count in group.counts if count.state == "done")
        done = format_count(forecast.done, "document")
        yield f"  {done} done, {forecast.done - stale:,} of them with the current pipeline"
    if forecast.settled:
        settled = format_count(forecast.settled, "document")
        yield f"  {settled} in closed batches or cleaned up would not change"


def _format_steps(at: dict[str, int]) -> str:
    return ", ".join(f"{number:,} at {step}" for step, number in at.items())


def format_stale(forecast: Forecast, redo: str) -> Iterator[str]:
    """Yield lines about stale work: why it is stale, and how to redo it."""
    if not forecast.stale:
        return
    total = sum(group.documents for group in forecast.stale)
    yield f"  The work of {format_count(total, 'document')} is stale, until it is redone:"
    for groups in _by_cause(forecast.stale):
        first, documents = groups[0], sum(group.documents for group in groups)
        yield f"    {format_count(documents, 'document')} from {first.to} on: {first.why}"
        reused = f"reuses {', '.join(first.reused)}" if first.reused else "reuses nothing"
        seconds = forecast.time_for(documents, first.redone)
        yield f"      redoes {', '.join(first.redone)}; {reused}{_format_history(seconds)}"
    yield f"  To redo it: {redo}"


def _by_cause(stale: Sequence[Stale]) -> list[list[Stale]]:
    """Group stale work by the step and the reason, whatever plan it was done under."""
    groups: dict[tuple[str, str], list[Stale]] = {}
    for group in stale:
        groups.setdefault((group.to, group.why), []).append(group)
    return [*groups.values()]


def _format_history(seconds: float | None) -> str:
    return "" if seconds is None else f" (bodies took {format_duration(seconds)} for as many before)"


def _as_json(cli: CliContext, forecast: Forecast, redo: str) -> dict[str, Any]:
    stale = [msgspec.structs.asdict(group) | {"documents": group.documents} for group in forecast.stale]
    fields = msgspec.structs.asdict(forecast) | {"stale": stale, "store": cli.shown_store}
    return fields | {"redo": redo if stale else None}
