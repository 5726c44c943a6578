"""`holdfast migrate`: update the schema of a store."""

from __future__ import annotations

import click

from holdfast.cli.context import CliContext
from holdfast.cli.options import common_options
from holdfast.cli.output import print_json, print_line
from holdfast.stores import migrate_store


@click.command()
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
