"""`holdfast submit`: hand documents in; workers do the rest."""

from __future__ import annotations

import click

from holdfast.cli.asked import Asked, common
from holdfast.cli.documents import named, own_files
from holdfast.cli.pipelines import load
from holdfast.cli.saying import say, tell
from holdfast.cli.stores import store_that_lasts
from holdfast.cli.working import going_on_later, prepared, words_of
from holdfast.engine import api


@click.command()
@click.argument("pipeline")
@click.argument("documents", nargs=-1, required=True)
@click.option("--batch", default="default", show_default=True, help="The batch that they belong to.")
@click.option("--priority", type=int, default=0, help="Documents of a higher priority are worked on first.")
@common
@click.pass_obj
def submit(asked: Asked, *, pipeline: str, documents: tuple[str, ...], batch: str, priority: int) -> None:
    """Submits documents for workers to work on, and says how many are new, changed and unchanged.

    PIPELINE and DOCUMENTS are those of `holdfast run`.
    """
    loaded = load(pipeline)
    with store_that_lasts(asked) as store, going_on_later(asked, "submit", pipeline):
        prepared(loaded, store)
        source = named(documents, leaving_out=own_files(asked.store, loaded))
        receipt = api.submit(loaded.pipeline, store, batch=batch, documents=source, priority=priority)
    if asked.json:
        tell(receipt)
    else:
        say(words_of(receipt))
