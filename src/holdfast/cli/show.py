"""`holdfast show`: the whole story of one document."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import PurePath

import click

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.stores import known_batch, known_pipeline, store_that_exists
from holdfast.cli.story import Story
from holdfast.core.model import Standing
from holdfast.stores.protocol import Store

LOOKED_THROUGH = 10_000
"""How many of the documents that moved last are looked through for a key that is near."""


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
        story = Story(store, the_one(asked, store, key, pipeline=pipeline, batch=batch, words=("show", key)))
        if asked.json:
            click.echo(story.as_json(items=items))
        else:
            story.tell()
            if items:
                story.tell_items()


def the_one(
    asked: Asked, store: Store, key: str, *, pipeline: str | None, batch: str | None, words: Sequence[str]
) -> Standing:
    """Finds the one document that a person means. Where there are several, `words` is the command to say which."""
    pipeline = known_pipeline(store, pipeline) if pipeline else None
    if pipeline and batch:
        known_batch(store, pipeline, batch)
    found = _found(store, key, pipeline, batch) or _found(store, PurePath(key).as_posix(), pipeline, batch)
    if len(found) == 1:
        return found[0]
    if not found:
        raise Trouble(f"there is no document {key!r} in {_where(asked, pipeline, batch)}{_near(store, key, pipeline)}")
    commands = [asked.command(*words, "--pipeline", one.pipeline, "--batch", one.batch) for one in found]
    listed = "\n".join(f"  {command}   # {one.state}" for command, one in zip(commands, found, strict=True))
    raise Trouble(f"{len(found)} documents are called {key!r}; say which:\n{listed}")


def _found(store: Store, key: str, pipeline: str | None, batch: str | None) -> list[Standing]:
    return [one for one in store.find(key) if pipeline in (None, one.pipeline) and batch in (None, one.batch)]


def _where(asked: Asked, pipeline: str | None, batch: str | None) -> str:
    said = [f"batch {batch!r} of"] if batch else []
    said += [f"pipeline {pipeline!r} of"] if pipeline else []
    return " ".join([*said, asked.shown_store])


def _near(store: Store, key: str, pipeline: str | None) -> str:
    names = [pipeline] if pipeline else store.pipelines()
    keys = {one.key for name in names for one in store.standings(name, limit=LOOKED_THROUGH)}
    near = sorted(one for one in keys if key.lower() in one.lower())[:5] or get_close_matches(key, keys, n=5)
    if near:
        return f"; near to it: {', '.join(near)}"
    return "; `holdfast status` tells what is there"
