"""`holdfast seal`: a batch takes no more documents."""

from __future__ import annotations

import click

from holdfast.cli.asked import Asked, common
from holdfast.cli.saying import say, tell
from holdfast.cli.stores import known_pipeline, store_that_exists
from holdfast.cli.who import signed


@click.command()
@click.argument("pipeline")
@click.argument("batch")
@signed()
@common
@click.pass_obj
def seal(asked: Asked, *, pipeline: str, batch: str, who: str, reason: str) -> None:
    """Seals the batch BATCH of PIPELINE: it takes no more documents, and can be closed when its documents have ended.

    PIPELINE is a pipeline's name, or its file.
    """
    with store_that_exists(asked) as store:
        pipeline = known_pipeline(store, pipeline)
        is_new = store.seal(pipeline, batch, who=who, reason=reason)
        (found,) = store.census(pipeline, batch)
    if asked.json:
        tell({"pipeline": pipeline, "batch": batch, "state": found.state, "new": is_new})
    elif is_new:
        say(f"Batch {batch} of {pipeline} is sealed with {found.expected:,} documents.")
    else:
        say(f"Batch {batch} of {pipeline} is {found.state} already.")
