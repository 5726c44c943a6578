"""`holdfast show`: the whole story of one document."""

from __future__ import annotations

import click

from holdfast.cli.asked import Asked, common
from holdfast.cli.chosen import the_one
from holdfast.cli.stores import store_that_exists
from holdfast.cli.story import Story


@click.command()
@click.argument("key")
@click.option("--pipeline", help="Only in this pipeline.")
@click.option("--batch", help="Only in this batch.")
@click.option("--items", is_flag=True, help="Print the kept items too.")
@common
@click.pass_obj
def show(asked: Asked, *, key: str, pipeline: str | None, batch: str | None, items: bool) -> None:
    """Tells the whole story of the document KEY.

    Its payload and state, where its checkpoint is, what each step kept, what was set aside and why, its journal, and
    the traceback of its last failure.
    """
    with store_that_exists(asked) as store:
        Story(store, the_one(asked, store, key, pipeline=pipeline, batch=batch)).told(asked, items=items)
