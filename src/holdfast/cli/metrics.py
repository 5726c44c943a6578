"""`holdfast metrics`: the store's view of pipelines and workers, for Prometheus."""

from __future__ import annotations

import signal
import threading
from typing import Any

import click

from holdfast.cli.asked import INTERRUPTED, TERMINATED, Asked, common
from holdfast.cli.eyes import LOOPBACK, PORT, shown
from holdfast.cli.saying import say, say_lines, tell
from holdfast.cli.stores import store_that_exists
from holdfast.engine.budget import Budget, stopping_on_signals
from holdfast.stores.protocol import Store


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Where to listen.")
@click.option("--host", default=LOOPBACK, show_default=True, help="For whom: 0.0.0.0 lets other machines ask.")
@click.option("--once", is_flag=True, help="Print the metrics and end; --json prints them as JSON, and ends too.")
@common
@click.pass_obj
def metrics(asked: Asked, *, port: int, host: str, once: bool) -> None:
    """Serves what the store holds as metrics for Prometheus: documents, dead letters, orphans, workers.

    One is enough for all workers of a store. Workers serve their own counters: `holdfast work --metrics :9465`.
    """
    with store_that_exists(asked) as store:
        if asked.json:
            tell(_as_json(store))
        elif once:
            from holdfast.engine.prometheus import StoreCollector, page, store_gauges

            store_gauges(store)  # a store in trouble is told in words here, not as a number
            say_lines(page(StoreCollector(store)), nl=False)
        else:
            _serve(store, host, port)


def _serve(store: Store, host: str, port: int) -> None:
    from holdfast.engine.prometheus import StoreCollector, serve

    budget, asked_to_stop = Budget(), threading.Event()
    budget.on_stop = asked_to_stop.set
    with stopping_on_signals(budget), serve(host, port, StoreCollector(store)) as bound:
        say(f"Metrics are served at http://{shown(host)}:{bound}/metrics; Ctrl-C ends it.", err=True)
        asked_to_stop.wait()
    raise click.exceptions.Exit(INTERRUPTED if budget.reason == signal.SIGINT.name else TERMINATED)


def _as_json(store: Store) -> list[dict[str, Any]]:
    surveys = [store.survey(name) for name in store.pipelines()]
    return [
        {
            "pipeline": survey.pipeline,
            "documents": [
                {"state": state, "step": step, "documents": count} for (state, step), count in survey.documents.items()
            ],
            "dead_letters": [
                {"step": step, "error": error, "documents": count} for (step, error), count in survey.dead.items()
            ],
            "oldest_waiting_seconds": survey.oldest_due.total_seconds() if survey.oldest_due else 0.0,
            "orphans": survey.orphans,
        }
        for survey in surveys
    ]
