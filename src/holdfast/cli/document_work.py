"""`holdfast work --key`: work on one named document, and say where it is afterwards."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.exit_codes import DEAD_LETTERS, NOT_FINISHED, OK
from holdfast.cli.observe_options import open_listeners
from holdfast.cli.output import print_json, print_line
from holdfast.cli.pipeline_loader import LoadedPipeline
from holdfast.cli.run_loop import call_prepare
from holdfast.core.errors import HeldByAnother
from holdfast.engine import api
from holdfast.stores.protocol import Store


def work_on_document(
    cli: CliContext,
    loaded: LoadedPipeline,
    store: Store,
    key: str,
    *,
    batch: str | None,
    budget: timedelta | None,
    options: dict[str, Any],
) -> None:
    """Work on one document, print where it is, and end the command with its exit code."""
    call_prepare(loaded, store)
    worker = {name: options[name] for name in ("threads", "concurrency", "lease")}
    try:
        with open_listeners({name: options[name] for name in ("log", "log_level", "labels")}) as listeners:
            result = api.drain(
                loaded.pipeline, store, key=key, batch=batch, budget=budget, listeners=listeners, **worker
            )
    except HeldByAnother as held:
        if not cli.json:
            raise CliError(str(held), code=NOT_FINISHED) from held
        left = held.lease_left.total_seconds()
        print_json(
            {"key": key, "state": "running", "held_by": held.worker, "since": held.since, "lease_left_seconds": left}
        )
        raise click.exceptions.Exit(NOT_FINISHED) from held
    if cli.json:
        wait = None if result.wait is None else result.wait.total_seconds()
        result_fields = {"key": result.document.key, "batch": result.document.batch, "state": result.state}
        print_json(result_fields | {"worked": result.worked, "wait_seconds": wait, "reason": result.reason})
    else:
        print_line(str(result))
    code = {"dead": DEAD_LETTERS, "waiting": NOT_FINISHED}.get(result.state, OK)
    raise click.exceptions.Exit(code)
