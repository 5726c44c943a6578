"""`holdfast pipeline circuit`: list the steps that are paused because a service is away, and let one go on."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli.command_group import CommandGroup
from holdfast.cli.context import CliContext, CliError
from holdfast.cli.exit_codes import CHECK_FAILED
from holdfast.cli.options import common_options, who_and_reason
from holdfast.cli.output import print_json, print_line
from holdfast.cli.store_access import open_existing_store, require_pipeline
from holdfast.core.circuit import CircuitStatus
from holdfast.core.formatting import format_time, one_line
from holdfast.ops.explain.context import describe_circuit


@click.group(cls=CommandGroup)
@common_options
def circuit() -> None:
    """List the steps that are paused for all documents, and let one go on."""


@circuit.command("list")
@click.argument("pipeline", required=False)
@common_options
@click.pass_obj
def list_(cli: CliContext, *, pipeline: str | None) -> None:
    """List the steps that are paused for all documents, and those that were paused before.

    PIPELINE is the name of a pipeline, or its file. Without it, all pipelines are shown.
    """
    with open_existing_store(cli) as store:
        names = [require_pipeline(store, pipeline)] if pipeline else store.pipelines()
        circuits = [one for name in names for one in store.circuits(name)]
        now = store.now()
    if cli.json:
        print_json({"circuits": [circuit_as_json(one) for one in circuits]})
        return
    if not any(one.is_open for one in circuits):
        print_line("No step is paused.")
    for one in circuits:
        if one.is_open:
            print_line(f"{one.pipeline}: {describe_circuit(one, now, cli.command)}")
        elif one.closed_at is not None:
            why = f": {one_line(one.close_reason)}" if one.close_reason else ""
            print_line(
                f"{one.pipeline}: {one.step} goes on since {format_time(one.closed_at)}, by {one.closed_by}{why}"
            )


@circuit.command()
@click.argument("pipeline")
@click.argument("step")
@who_and_reason
@common_options
@click.pass_obj
def close(cli: CliContext, *, pipeline: str, step: str, who: str, reason: str) -> None:
    """Let a paused step go on now. Workers notice it within seconds.

    PIPELINE is the name of a pipeline, or its file. STEP is the name of the step. If its service is still away, the
    step is paused again after a few calls.
    """
    with open_existing_store(cli) as store:
        pipeline = require_pipeline(store, pipeline)
        is_closed = store.close_circuit(pipeline, step, who=who, reason=reason)
        paused = [one.step for one in store.circuits(pipeline) if one.is_open]
    if not is_closed:
        names = f"these are: {', '.join(paused)}" if paused else "no step is"
        raise CliError(f"step {step!r} of pipeline {pipeline!r} is not paused; {names}", code=CHECK_FAILED)
    if cli.json:
        print_json({"pipeline": pipeline, "step": step, "closed": True})
    else:
        print_line(f"Step {step} of {pipeline} goes on.")


def circuit_as_json(one: CircuitStatus) -> dict[str, Any]:
    """Return a circuit for programs."""
    return msgspec.structs.asdict(one) | {
        "probe_in": None if one.probe_in is None else one.probe_in.total_seconds(),
        "recoverable": one.recoverable,
    }
