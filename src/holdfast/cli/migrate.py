"""`holdfast migrate`: bring a store's schema up to date."""

from __future__ import annotations

import click

from holdfast.cli.asked import Asked, common
from holdfast.cli.saying import say, tell
from holdfast.stores import migrate_store


@click.command()
@common
@click.pass_obj
def migrate(asked: Asked) -> None:
    """Brings the store's schema up to date. Stop the workers first; running it twice is safe."""
    numbers = migrate_store(asked.store)
    if asked.json:
        tell({"store": asked.shown_store, "migrations": numbers})
    elif numbers:
        say(f"{asked.shown_store}: ran migration {', '.join(map(str, numbers))}")
    else:
        say(f"{asked.shown_store}: the schema is up to date")
