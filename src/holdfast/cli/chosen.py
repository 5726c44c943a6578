"""Which documents a command is about: named by their keys, or by what they have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any, TypeVar

import click

from holdfast.cli.asked import Asked, Trouble
from holdfast.cli.stores import known_batch, known_pipeline
from holdfast.cli.working import Duration
from holdfast.core.batches import CLOSING
from holdfast.core.commands import about
from holdfast.core.model import STATES, Standing, State
from holdfast.stores.protocol import Store, Which

Command = TypeVar("Command", bound=Callable[..., Any])

FILTERS = ("batch", "state", "step", "error", "text", "idle")

SLICE = 2000
"""How many documents are decided about in one transaction: few enough for workers to come in between."""

Place = tuple[State, str | None]
"""A state, and a step or any."""

LOOKED_THROUGH = 10_000
"""How many of the documents that moved last are looked through for a key that is near."""


class Chosen:
    """The documents that a person means."""

    def __init__(self, store: Store, pipeline: str, which: Which, named: Sequence[Standing] = ()) -> None:
        self.store = store
        self.pipeline = pipeline
        self.named = named
        self._which = which

    def count(self) -> int:
        """Counts them all, whatever becomes of them."""
        return len(self.named) or self.store.count(self.pipeline, **self._which)

    def count_in(self, places: Sequence[Place]) -> int:
        """Counts those in these states, at these steps, of batches that are not closed: before anything is done."""
        open_batches = [one.name for one in self.store.batches(self.pipeline) if one.state != "closed"]
        if self.named:
            here = [one for one in self.named if one.batch in open_batches]
            return sum(any(_is_in(one, place) for place in places) for one in here)
        return sum(
            self.store.count(self.pipeline, **self._which | {"batch": batch, "state": state, "step": step})
            for batch in open_batches
            for state, step in places
            if self._which.get("batch") in (None, batch)
            and self._which.get("state") in (None, state)
            and (step is None or self._which.get("step") in (None, step))
        )

    def slices(self) -> Iterator[list[int]]:
        """Gives their numbers, a slice at a time. What is decided about one slice does not disturb the next."""
        if self.named:
            yield sorted({one.id for one in self.named})
            return
        after = 0
        while ids := self.store.select(self.pipeline, after=after, limit=SLICE, **self._which):
            yield ids
            after = ids[-1]

    def standings(self, limit: int) -> list[Standing]:
        """Tells where the newest of them stand."""
        return list(self.named) or self.store.standings(self.pipeline, limit=limit, **self._which)


def choosing(command: Command) -> Command:
    """Adds the arguments that say which documents are meant; `chosen` reads them."""
    options = (
        click.argument("keys", nargs=-1),  # with * or ? in one of them: all that are like it
        click.option("--pipeline", help="Only in this pipeline (its name, or its file)."),
        click.option("--batch", help="Only in this batch."),
        click.option("--step", help="Only documents at this step."),
        click.option("--error", metavar="CLASS", help="Only documents whose last error is of this class."),
        click.option("--text", help="Only documents whose reason contains this."),
        click.option("--idle", type=Duration(), help="Only documents that did not move for so long, such as 2h."),
        click.option("--all", "everything", is_flag=True, help="All of them, where nothing else narrows it down."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def in_a_state(command: Command) -> Command:
    """Adds --state, for commands that do not say themselves in which state documents have to be."""
    return click.option("--state", type=click.Choice(STATES), help="Only documents in this state.")(command)


def chosen(asked: Asked, store: Store, given: dict[str, Any], **always: Any) -> Chosen:
    """Finds what the arguments of `choosing` mean. `always` holds for the command, whatever is given."""
    pipeline = _pipeline(store, given["pipeline"])
    if given["batch"] and pipeline:
        known_batch(store, pipeline, given["batch"])
    narrowed = {name: given[name] for name in FILTERS if given.get(name)}
    like = [key for key in given["keys"] if "*" in key or "?" in key]
    if given["keys"] and not like:
        if narrowed.keys() - {"batch"}:
            raise Trouble(f"name documents, or describe them by --{' --'.join(narrowed)}: not both")
        where = {"pipeline": given["pipeline"], "batch": given["batch"]}
        named = [the_one(asked, store, key, **where) for key in given["keys"]]
        return Chosen(store, _the_same_pipeline(named), {}, named)
    if like and len(given["keys"]) > 1:
        raise Trouble(f"one pattern at a time: {like[0]} stands alone, or with --batch, --step and the like")
    if not narrowed and not like and not given["everything"]:
        raise Trouble("say which documents: by their keys, by --batch, --step, --error, --text or --idle, or --all")
    if pipeline is None:
        raise Trouble(f"say which pipeline with --pipeline: {', '.join(store.pipelines())}")
    which: Which = {**narrowed, **({"key": like[0]} if like else {}), **always}  # type: ignore[typeddict-item]
    return Chosen(store, pipeline, which)


def _is_in(one: Standing, place: Place) -> bool:
    state, step = place
    return one.state == state and step in (None, one.checkpoint.step)


def _pipeline(store: Store, name: str | None) -> str | None:
    if name:
        return known_pipeline(store, name)
    known = [one for one in store.pipelines() if not one.endswith(CLOSING)] or store.pipelines()
    return known[0] if len(known) == 1 else None


def _the_same_pipeline(named: Sequence[Standing]) -> str:
    pipelines = {one.pipeline for one in named}
    if len(pipelines) > 1:
        raise Trouble(f"these documents are of several pipelines ({', '.join(sorted(pipelines))}): decide apart")
    return pipelines.pop()


def the_one(
    asked: Asked, store: Store, key: str, *, pipeline: str | None, batch: str | None, file: str | None = None
) -> Standing:
    """Finds the one document that a person means, or says what there is.

    `file` is for commands that name the pipeline by its file, before the key.
    """
    pipeline = known_pipeline(store, pipeline) if pipeline else None
    if pipeline and batch:
        known_batch(store, pipeline, batch)
    found = _found(store, key, pipeline, batch) or _found(store, PurePath(key).as_posix(), pipeline, batch)
    if len(found) == 1:
        return found[0]
    if not found:
        raise Trouble(f"there is no document {key!r} in {_where(asked, pipeline, batch)}{_near(store, key, pipeline)}")
    verb = click.get_current_context().command_path.split()[1:]
    listed = "\n".join(f"  {asked.command(*_this_one(verb, one, file))}   # {one.state}" for one in found)
    raise Trouble(f"{len(found)} documents are called {key!r}; say which:\n{listed}")


def _this_one(verb: Sequence[str], one: Standing, file: str | None) -> tuple[str, ...]:
    batch = ("--batch", one.batch)
    if file:
        return about(verb, file, one.key, options=batch)
    return about(verb, one.key, options=("--pipeline", one.pipeline, *batch))


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


def since(store: Store, one: Standing) -> datetime:
    """Says since when a document is what it is: it may have died, or been parked, long after it last moved."""
    lines = [line.at for line in store.journal(one.id) if line.verb not in ("accept", "prioritise", "rename")]
    return max([one.moved_at, *lines])
