"""`holdfast plan`: what would happen, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.documents import is_source
from holdfast.cli.in_collection import in_collection
from holdfast.cli.looking import how_to_look
from holdfast.cli.pipelines import NoPipeline, load
from holdfast.cli.saying import say, styled, tell
from holdfast.cli.stores import known_batch, store_to_foresee
from holdfast.cli.words import count, moment, span, table
from holdfast.core.stale import Stale
from holdfast.engine.forecast import Forecast, foresee


@click.command()
@click.argument("pipeline", metavar="PIPELINE|SOURCE")
@click.option("--batch", help="Only the documents of this batch.")
@in_collection
@how_to_look
@click.option("--price", type=float, help="What a million tokens cost, for an embedder behind a service.")
@common
@click.pass_obj
def plan(
    asked: Asked, /, *, pipeline: str, batch: str | None, collection: str, price: float | None, **look: Any
) -> None:
    """Says what would be done before anything runs. Nothing is run and nothing changed.

    PIPELINE is a Python file or module, as for `holdfast run`: what would run, what is stale and why, what waits for
    people. A store that is not there yet is not made: everything is new then. How long it would take is told for steps
    that have a history.

    SOURCE is a folder, file, glob or URL, as for `holdfast ingest`: which files are new, changed, moved or gone, and
    about how many pages, chunks, how much time and money it would take to make them searchable.
    """
    if is_source(pipeline):
        from holdfast.cli.outlook import foretell  # with document search, which other plans do without

        foretell(asked, pipeline, collection=collection, price=price, **look)
        return
    try:
        loaded = load(pipeline)
    except NoPipeline as missing:
        what = "name a folder, file or URL to ingest, or the Python file with your pipeline"
        raise Trouble(f"there is no folder, file or module called {pipeline}; {what}") from missing
    with store_to_foresee(asked) as store:
        if store and batch and loaded.pipeline.name in store.pipelines():
            known_batch(store, loaded.pipeline.name, batch)
        forecast = foresee(loaded.pipeline, store, batch=batch)
    redo = redo_command(asked, pipeline)
    if asked.json:
        tell(_as_json(asked, forecast, redo))
        return
    for line in _told(asked, forecast, redo):
        say(line)


def redo_command(asked: Asked, pipeline: str) -> str:
    """Gives the command that redoes stale work."""
    return asked.command("rewind", "--stale", pipeline)


def _told(asked: Asked, forecast: Forecast, redo: str) -> Iterator[str]:
    yield styled(forecast.pipeline, bold=True) + f": {' → '.join(forecast.steps)}"
    if not forecast.known:
        yield f"  {asked.shown_store} does not know it yet: everything is new, and begins at {forecast.steps[0]}."
        return
    for change in forecast.changes:
        yield f"  since it was declared last: {change}"
    yield from _told_runs(forecast)
    yield from _told_rest(forecast)
    yield from told_stale(forecast, redo)


def _told_runs(forecast: Forecast) -> Iterator[str]:
    if not forecast.runs:
        yield "  Nothing would run."
        return
    total, took = sum(forecast.runs.values()), forecast.time_to_run()
    yield f"  {count(total, 'document')} would run{_before(took)}:"
    rows = [
        [f"from {step}", count(number, "document"), _each(forecast, step)] for step, number in forecast.runs.items()
    ]
    yield from table(rows, indent="    ", right=[1])


def _each(forecast: Forecast, step: str) -> str:
    took = forecast.seconds.get(step)
    return "" if took is None else f"{step} took {span(took)} each"


def _told_rest(forecast: Forecast) -> Iterator[str]:
    if forecast.people:
        yield f"  {count(sum(forecast.people.values()), 'document')} would wait for people: {_steps(forecast.people)}"
    if forecast.until and forecast.wakes:
        first, last = map(moment, forecast.wakes)
        times = f"until {first}" if first == last else f"the first until {first}, the last until {last}"
        yield f"  {count(sum(forecast.until.values()), 'document')} would wait, {times}: {_steps(forecast.until)}"
    if forecast.late:
        late, at = count(sum(forecast.late.values()), "document"), _steps(forecast.late)
        yield f"  {late} would be decided about at once, as otherwise= says, for nobody did in time: {at}"
    if forecast.dead:
        yield f"  {count(sum(forecast.dead.values()), 'dead letter')} would stay as they are: {_steps(forecast.dead)}"
    if forecast.done:
        stale = sum(one.documents for group in forecast.stale for one in group.counts if one.state == "done")
        yield f"  {count(forecast.done, 'document')} done, {forecast.done - stale:,} as the pipeline is written now"
    if forecast.settled:
        yield f"  {count(forecast.settled, 'document')} of closed batches, or cleaned up, stay as they are"


def _steps(at: dict[str, int]) -> str:
    return ", ".join(f"{number:,} at {step}" for step, number in at.items())


def told_stale(forecast: Forecast, redo: str) -> Iterator[str]:
    """Tells what is stale, why, and how to redo it."""
    if not forecast.stale:
        return
    total = sum(one.documents for one in forecast.stale)
    yield f"  The work of {count(total, 'document')} is stale, and stays so unless it is redone:"
    for alike in _alike(forecast.stale):
        first, documents = alike[0], sum(one.documents for one in alike)
        yield f"    {count(documents, 'document')} from {first.to} on: {first.why}"
        reused = f"reuses {', '.join(first.reused)}" if first.reused else "reuses nothing"
        took = forecast.time_for(documents, first.redone)
        yield f"      redoes {', '.join(first.redone)}; {reused}{_before(took)}"
    yield f"  To redo it: {redo}"


def _alike(stale: Sequence[Stale]) -> list[list[Stale]]:
    """Puts together what is redone from the same step for the same reason, whatever plan it was made under."""
    groups: dict[tuple[str, str], list[Stale]] = {}
    for one in stale:
        groups.setdefault((one.to, one.why), []).append(one)
    return [*groups.values()]


def _before(took: float | None) -> str:
    return "" if took is None else f" (bodies took {span(took)} for as many before)"


def _as_json(asked: Asked, forecast: Forecast, redo: str) -> dict[str, Any]:
    stale = [msgspec.structs.asdict(one) | {"documents": one.documents} for one in forecast.stale]
    said = msgspec.structs.asdict(forecast) | {"stale": stale, "store": asked.shown_store}
    return said | {"redo": redo if stale else None}
