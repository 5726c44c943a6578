"""`holdfast check`: does a pipeline's file fit the documents in a store?"""

from __future__ import annotations

import click

from holdfast.cli.asked import NOT_IN_ORDER, Asked, common
from holdfast.cli.pipelines import load
from holdfast.cli.plan import redo_command, told_stale
from holdfast.cli.saying import say, say_lines, tell
from holdfast.cli.stores import store_to_foresee
from holdfast.core.errors import PlanRefused
from holdfast.engine.forecast import Forecast, foresee


@click.command()
@click.argument("pipeline")
@common
@click.pass_obj
@click.pass_context
def check(context: click.Context, asked: Asked, *, pipeline: str) -> None:
    """Compares a pipeline's file with the documents in the store: the same, compatible, or refused. Writes nothing.

    PIPELINE is a Python file or module, as for `holdfast run`. Compatible is what documents can go on under: what
    differs is named, and so is work that is stale by now. What is refused says why, and the ways out; the exit code
    is 1 then.
    """
    loaded = load(pipeline)
    with store_to_foresee(asked) as store:
        try:
            forecast = foresee(loaded.pipeline, store)
        except PlanRefused as refused:
            _refuse(asked, loaded.pipeline.name, refused)
            context.exit(NOT_IN_ORDER)
    _accept(asked, forecast, redo_command(asked, pipeline))


def _refuse(asked: Asked, pipeline: str, refused: PlanRefused) -> None:
    if asked.json:
        tell({"pipeline": pipeline, "verdict": "refused", "message": str(refused)})
    else:
        say_lines(f"refused: {refused}")


def _accept(asked: Asked, forecast: Forecast, redo: str) -> None:
    same = forecast.known and not forecast.changes
    if asked.json:
        stale = [{"to": one.to, "why": one.why, "documents": one.documents} for one in forecast.stale]
        said = {"pipeline": forecast.pipeline, "verdict": "same" if same else "compatible", "known": forecast.known}
        tell(said | {"changes": forecast.changes, "stale": stale})
        return
    if same:
        say(f"same: {forecast.pipeline} is in {asked.shown_store} as it is written now")
    elif not forecast.known:
        say(f"compatible: {asked.shown_store} does not know {forecast.pipeline} yet; everything is new")
    else:
        say(f"compatible: the documents of {forecast.pipeline} in {asked.shown_store} can go on")
    for change in forecast.changes:
        say(f"  {change}")
    for line in told_stale(forecast, redo):
        say(line)
