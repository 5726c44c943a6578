"""Which store a command may open: readers never make one, and memory is for one command only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from holdfast.cli.asked import DEFAULT_STORE, STORE_TROUBLE, Asked, Trouble, shown
from holdfast.cli.saying import say
from holdfast.engine.api import opened
from holdfast.stores import database_file, is_fresh
from holdfast.stores.protocol import Store


@contextmanager
def store_that_exists(asked: Asked, *, made_by: str = "run") -> Iterator[Store]:
    """Opens a store to look at. One that is not there is an error, not an empty one that was just made.

    `made_by` is the command that would make it, for whoever asked for this.
    """
    refuse_missing(asked, made_by=made_by)
    with store_that_lasts(asked) as store:
        yield store


@contextmanager
def store_that_lasts(asked: Asked) -> Iterator[Store]:
    """Opens a store that other commands can see."""
    if asked.store.startswith("memory:"):
        raise Trouble(
            "memory:// forgets everything when a command ends, so only `holdfast run` can use it; "
            f"name a store that lasts, such as --store {DEFAULT_STORE}"
        )
    with opened(asked.store) as store:
        yield store


@contextmanager
def store_to_foresee(asked: Asked) -> Iterator[Store | None]:
    """Opens a store to look ahead in. Gives None where there is none yet: looking does not make one."""
    if not asked.store.startswith("memory:") and is_fresh(asked.store):
        yield None
        return
    with store_that_lasts(asked) as store:
        yield store


def refuse_missing(asked: Asked, *, made_by: str = "run") -> None:
    """Refuses a store that is not there: looking does not make one."""
    if asked.store.startswith("postgres") and is_fresh(asked.store):
        raise Trouble(
            f"{asked.shown_store} has nothing of holdfast yet; make it with `holdfast {made_by}` or `holdfast migrate`",
            code=STORE_TROUBLE,
        )
    path = database_file(asked.store)
    if path is not None and not os.path.exists(path):  # noqa: PTH110 - a name that is too long names no file
        raise Trouble(
            f"there is no store at {asked.shown_store} (looked for {path.absolute()}); name yours with --store or "
            f"HOLDFAST_STORE, or make one with `holdfast {made_by}`",
            code=STORE_TROUBLE,
        )


def known_pipeline(store: Store, name: str) -> str:
    """Gives the pipeline's name if the store knows it. A pipeline's file may be named instead."""
    known = store.pipelines()
    if name in known:
        return name
    if name.endswith(".py") or ".py:" in name:
        from holdfast.cli.pipelines import load

        name = load(name).pipeline.name
        if name in known:
            return name
    if not known:
        raise Trouble(
            f"the store {shown(store.url)} has no pipelines yet; `holdfast run` or `holdfast submit` declares one"
        )
    raise Trouble(
        f"the store {shown(store.url)} has no pipeline {name!r}{_perhaps(name, known)}; it has: {', '.join(known)}"
    )


def known_batch(store: Store, pipeline: str, name: str) -> str:
    """Gives the batch's name if the pipeline has it."""
    known = [batch.name for batch in store.batches(pipeline)]
    if name in known:
        return name
    has = f"it has: {', '.join(known)}" if known else "it has none yet"
    raise Trouble(f"pipeline {pipeline!r} has no batch {name!r}{_perhaps(name, known)}; {has}")


def batch_to_drain(store: Store, pipeline: str, name: str) -> None:
    """Refuses a batch that the pipeline does not have: with nothing to do in it, a slip would look like an end."""
    if store.balance(pipeline).expected:
        known_batch(store, pipeline, name)


def batch_to_wait_for(store: Store, pipeline: str, name: str) -> None:
    """Says so when the pipeline does not have the batch: it may be yet to come, or a slip."""
    try:
        batch_to_drain(store, pipeline, name)
    except Trouble as trouble:
        say(f"Waiting for a batch that is yet to come: {trouble.message}", err=True)


def _perhaps(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
