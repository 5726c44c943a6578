"""`holdfast serve`: search over HTTP."""

from __future__ import annotations

import signal
from contextlib import closing

import click

from holdfast.cli.asked import INTERRUPTED, TERMINATED, Asked, Trouble, common
from holdfast.cli.eyes import LOOPBACK, shown
from holdfast.cli.in_collection import MADE_BY
from holdfast.cli.saying import say
from holdfast.cli.stores import store_that_exists
from holdfast.engine.budget import Budget, stopping_on_signals

PORT = 8321


@click.command()
@click.option("--host", default=LOOPBACK, show_default=True, help="For whom: 0.0.0.0 lets other machines ask.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Where to listen.")
@common
@click.pass_obj
def serve(asked: Asked, /, *, host: str, port: int) -> None:
    """Answers questions over HTTP, and with a page for people, until Ctrl-C.

    \b
      /                            a page to search with
      /search?q=notice+period      the answers of `holdfast search --json`
      /collections                 what there is to search
      /openapi.json                all that can be asked, for programs
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as missing:
        raise Trouble(f"serving needs one more package ({missing.name}): pip install 'holdfast[web]'") from missing
    from holdfast.pipelines.rag.shelves import Shelves
    from holdfast.web.app import search_app
    from holdfast.web.guard import names_of
    from holdfast.web.serving import serving

    budget = Budget()
    with (
        store_that_exists(asked, made_by=MADE_BY) as store,
        closing(Shelves(store)) as shelves,
        stopping_on_signals(budget),
    ):
        names = names_of(host)
        with serving(search_app(shelves, names=names), host, port) as served:
            budget.on_stop = served.over.set
            say(f"Search is served at http://{shown(host)}:{served.port}/; Ctrl-C ends it.", err=True)
            if names is None:
                say("Anybody who reaches this address can read what the documents say.", err=True)
            served.over.wait()
    if not budget.reason:
        raise Trouble("the server ended by itself; what it logged says why")
    raise click.exceptions.Exit(INTERRUPTED if budget.reason == signal.SIGINT.name else TERMINATED)
