"""`holdfast serve`: serve search over HTTP."""

from __future__ import annotations

from contextlib import closing

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.exit_codes import BY_SIGNAL
from holdfast.cli.options import address_options, common_options
from holdfast.cli.output import print_line
from holdfast.cli.param_types import host_in_url
from holdfast.cli.store_access import open_existing_store
from holdfast.core.distribution import install_command
from holdfast.engine.budget import Budget, stopping_on_signals

PORT = 8321


@click.command()
@address_options(port=PORT)
@common_options
@click.pass_obj
def serve(cli: CliContext, /, *, host: str, port: int) -> None:
    """Serve the search page and its HTTP API. Stop with Ctrl-C.

    \b
      /                            the search page
      /search?q=notice+period      the output of `holdfast search --json`
      /files/NAME?source=&key=     the original file of a document; the search page links to it
      /collections                 the collections
      /openapi.json                all paths and parameters (OpenAPI)
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as missing:
        raise CliError(
            f"`holdfast serve` needs one more package ({missing.name}): {install_command('web')}"
        ) from missing
    from holdfast.pipelines.rag.search.service import SearchService
    from holdfast.web.app import search_app
    from holdfast.web.host_check import allowed_hosts
    from holdfast.web.server import serve_app

    budget = Budget()
    with (
        open_existing_store(cli, created_by="ingest") as store,
        closing(SearchService(store)) as service,
        stopping_on_signals(budget),
    ):
        hosts = allowed_hosts(host)
        with serve_app(search_app(service, allowed_hosts=hosts), host, port) as server:
            budget.on_stop = server.stopped.set
            print_line(f"Search is served at http://{host_in_url(host)}:{server.port}/; stop it with Ctrl-C.", err=True)
            if hosts is None:
                print_line("Everyone who can reach this address can read the documents.", err=True)
            server.stopped.wait()
    if not budget.reason:
        raise CliError("the server stopped by itself; see its log for the reason")
    raise click.exceptions.Exit(BY_SIGNAL[budget.reason])
