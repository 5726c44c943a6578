"""`holdfast store`: update the schema of a store, and serve its metrics for Prometheus."""

from __future__ import annotations

import threading
from typing import Any

import click

from holdfast.cli.command_group import CommandGroup
from holdfast.cli.context import CliContext
from holdfast.cli.exit_codes import BY_SIGNAL
from holdfast.cli.options import address_options, common_options
from holdfast.cli.output import print_json, print_line, print_lines
from holdfast.cli.param_types import METRICS_PORT, host_in_url
from holdfast.cli.store_access import open_existing_store
from holdfast.engine.budget import Budget, stopping_on_signals
from holdfast.stores import migrate_store
from holdfast.stores.protocol import Store


@click.group(cls=CommandGroup)
@common_options
def store() -> None:
    """Update the schema of a store, and serve its metrics.

    `holdfast status` shows what is in a store.
    """


@store.command()
@common_options
@click.pass_obj
def migrate(cli: CliContext) -> None:
    """Update the schema of the store. Stop all workers first. Running it twice does no harm."""
    numbers = migrate_store(cli.store_url)
    if cli.json:
        print_json({"store": cli.shown_store, "migrations": numbers})
    elif numbers:
        print_line(f"{cli.shown_store}: ran migration {', '.join(map(str, numbers))}")
    else:
        print_line(f"{cli.shown_store}: the schema is up to date")


@store.command()
@address_options(port=METRICS_PORT)
@click.option("--once", is_flag=True, help="Print the metrics and exit. --json prints and exits too.")
@common_options
@click.pass_obj
def metrics(cli: CliContext, *, port: int, host: str, once: bool) -> None:
    """Serve metrics of the store for Prometheus.

    The metrics count documents, dead letters, orphans and workers. One such process is enough for a store. Workers can
    serve their own metrics: `holdfast work --metrics :9465`.
    """
    with open_existing_store(cli) as store:
        if cli.json:
            print_json(_as_json(store))
        elif once:
            from holdfast.observe.prometheus import StoreCollector, page, store_gauges

            store_gauges(store)  # raises an error if the store cannot be read
            print_lines(page(StoreCollector(store)), nl=False)
        else:
            _serve(store, host, port)


def _serve(store: Store, host: str, port: int) -> None:
    from holdfast.observe.prometheus import StoreCollector, serve

    budget, stopped = Budget(), threading.Event()
    budget.on_stop = stopped.set
    with stopping_on_signals(budget), serve(host, port, StoreCollector(store)) as bound:
        print_line(f"Metrics are served at http://{host_in_url(host)}:{bound}/metrics; stop it with Ctrl-C.", err=True)
        stopped.wait()
    raise click.exceptions.Exit(BY_SIGNAL[budget.reason])


def _as_json(store: Store) -> list[dict[str, Any]]:
    pipelines = [store.gauges(name) for name in store.pipelines()]
    return [
        {
            "pipeline": gauges.pipeline,
            "documents": [
                {"state": state, "step": step, "documents": count} for (state, step), count in gauges.documents.items()
            ],
            "dead_letters": [
                {"step": step, "error": error, "documents": count} for (step, error), count in gauges.dead.items()
            ],
            "oldest_waiting_seconds": gauges.oldest_due.total_seconds() if gauges.oldest_due else 0.0,
            "orphans": gauges.orphans,
            "paused_steps": gauges.paused_steps,
        }
        for gauges in pipelines
    ]
