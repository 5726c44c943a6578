"""`holdfast pipeline check`: check a pipeline's file against the documents in a store."""

from __future__ import annotations

import click

from holdfast.cli.commands.plan import format_stale, redo_command
from holdfast.cli.context import CliContext
from holdfast.cli.exit_codes import CHECK_FAILED
from holdfast.cli.options import common_options
from holdfast.cli.output import only_prints, print_json, print_line, print_lines
from holdfast.cli.pipeline_loader import load_pipeline
from holdfast.cli.store_access import open_store_if_exists
from holdfast.core.errors import PlanRefused
from holdfast.ops.forecast import Forecast, make_forecast
from holdfast.ops.run_notices import rename_hint


@click.command()
@click.argument("pipeline")
@common_options
@click.pass_obj
@click.pass_context
@only_prints
def check(context: click.Context, cli: CliContext, *, pipeline: str) -> None:
    """Compare a pipeline's file with the documents in the store. Nothing is changed.

    PIPELINE is a Python file or module, as for `holdfast run`. The result is one of:

    \b
      same         the store has this pipeline as it is in the file
      compatible   documents can continue; the differences and stale work are listed
      refused      documents cannot continue; the reasons and the solutions are listed, and the exit code is 1
    """
    loaded = load_pipeline(pipeline)
    with open_store_if_exists(cli) as store:
        try:
            forecast = make_forecast(loaded.pipeline, store)
        except PlanRefused as refused:
            _print_refused(cli, loaded.pipeline.name, refused)
            context.exit(CHECK_FAILED)
        hint = rename_hint(loaded.pipeline, store)
    _print_accepted(cli, forecast, redo_command(cli, pipeline), hint)


def _print_refused(cli: CliContext, pipeline: str, refused: PlanRefused) -> None:
    if cli.json:
        print_json({"pipeline": pipeline, "verdict": "refused", "message": str(refused)})
    else:
        print_lines(f"refused: {refused}")


def _print_accepted(cli: CliContext, forecast: Forecast, redo: str, hint: str) -> None:
    is_same = forecast.known and not forecast.changes
    if cli.json:
        stale = [{"to": group.to, "why": group.why, "documents": group.documents} for group in forecast.stale]
        verdict = {"verdict": "same" if is_same else "compatible", "known": forecast.known}
        print_json({"pipeline": forecast.pipeline, **verdict, "changes": forecast.changes, "stale": stale})
        return
    if is_same:
        print_line(f"same: {cli.shown_store} has {forecast.pipeline} as it is in the file")
    elif not forecast.known:
        print_line(f"compatible: {cli.shown_store} does not have {forecast.pipeline} yet; everything is new")
    else:
        print_line(f"compatible: the documents of {forecast.pipeline} in {cli.shown_store} can continue")
    for change in forecast.changes:
        print_line(f"  {change}")
    if hint:
        print_line(f"  {hint}")
    for line in format_stale(forecast, redo):
        print_line(line)
