"""`holdfast verify`: is the work that steps did still there?"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.asked import DEAD_LETTERS, FINE, Asked, Trouble, common
from holdfast.cli.pipelines import NoPipeline, load
from holdfast.cli.saying import say, tell
from holdfast.cli.stores import known_batch, known_pipeline, store_that_exists
from holdfast.cli.who import named
from holdfast.cli.words import count, harmless, one_line, span
from holdfast.core.pipeline import Pipeline
from holdfast.engine import api
from holdfast.engine.findings import Verification
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.pipelines.rag.library import Library

LISTED = 20


class Sample(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.2 only
    """How many documents, or which share of them: 100, 5%."""

    name = "N|5%"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            sample = float(text.removesuffix("%")) / 100 if text.endswith("%") else int(text)
        except ValueError:
            self.fail(f"{value!r} is no sample; write how many documents, 100, or which share, 5%", param, ctx)
        if not sample > 0 or (isinstance(sample, float) and sample > 1):
            self.fail("it has to be at least one document, or more than 0% and at most 100%", param, ctx)
        return sample


@click.command()
@click.argument("pipeline", metavar="PIPELINE|COLLECTION")
@click.option("--batch", help="Only this batch.")
@click.option("--key", help="Only this document, or all that are like it, with * and ?.")
@click.option("--sample", type=Sample(), help="Only so many documents, or this share of them, drawn at random.")
@click.option("--seed", type=click.IntRange(0), help="Draw the same sample again.")
@click.option("--threads", type=click.IntRange(1), default=8, show_default=True, help="Verifies at once.")
@named
@common
@click.pass_obj
def verify(
    asked: Asked,
    /,
    *,
    pipeline: str,
    batch: str | None,
    key: str | None,
    sample: float | None,
    seed: int | None,
    threads: int,
    who: str,
) -> None:
    """Asks whether the work of documents is still there, and has done anew what is gone.

    PIPELINE is a Python file or module, as for `holdfast run`; COLLECTION is one of `holdfast collection list`. For
    every document of it that no worker holds, the verify of each step behind it is asked. A document whose
    work is gone goes back to that step, as a new generation; a worker does it anew. If that was of no use the last
    time, it is parked for a person. One that is on hold goes back and stays on hold; a dead letter is only told of.
    A verify that raises an error is told, and changes nothing.

    Ends with 1 when something was gone, or could not be asked.
    """
    asked.tell_bodies()
    with store_that_exists(asked) as store:
        library = _library(store, pipeline)
        verified = _pipeline(store, pipeline) if library is None else library.pipeline
        name = known_pipeline(store, verified.name)
        if batch:
            known_batch(store, name, batch)
        which: dict[str, Any] = {
            "batch": batch,
            "key": key,
            "sample": sample,
            "seed": seed,
            "who": who,
            "threads": threads,
        }
        found = _verified(library, **which) if library else api.verify(verified, store, **which)
    if asked.json:
        tell(found)
    else:
        goes_on = ("ingest", "--collection", pipeline) if library else ("run", pipeline)
        _tell(found, any(step.verify_body for step in verified.steps), asked.command(*goes_on))
    raise click.exceptions.Exit(DEAD_LETTERS if found.gone or found.errors else FINE)


def _library(store: Store, name: str) -> Library | None:
    """Gives the library of a collection, if there is one of this name."""
    if name not in store.pipelines() or name not in _collections(store):
        return None
    from holdfast.pipelines.rag.library import Library

    return Library(store, name)


def _collections(store: Store) -> list[str]:
    from holdfast.cli.libraries import collections_of  # with document search, which other pipelines do without

    return [one.name for one in collections_of(store)]


def _pipeline(store: Store, name: str) -> Pipeline:
    try:
        return load(name).pipeline
    except NoPipeline as missing:
        there = ", ".join(_collections(store))
        raise Trouble(f"{missing.message}; collections are: {there}" if there else missing.message) from missing


def _verified(library: Library, **which: Any) -> Verification:
    from holdfast.pipelines.rag.verifying import verify

    with closing(library):
        return verify(library, **which)


def _tell(found: Verification, can_be_asked: object, goes_on: str) -> None:
    if not can_be_asked:
        say("no step has a verify, so nothing can be asked; add one with @step.verify")
        return
    asked_about = f"{count(found.documents, 'document')} asked about, {count(found.checks, 'check')}"
    said = f"{asked_about} in {span(found.seconds)}: {found.fine:,} fine"
    for number, words in (
        (found.rewound, "gone and to be done anew"),
        (found.parked, "gone again and parked"),
        (found.left_alone, "gone and left alone"),
        (found.errors, "could not be asked"),
    ):
        said += f", {number:,} {words}" if number else ""
    say(said)
    if found.held:
        say(f"{count(found.held, 'document')} held by workers, which ask when they take them up")
    if found.seed is not None:
        say(f"the same sample again: --seed {found.seed}")
    for one in found.findings[:LISTED]:
        say(f"  {harmless(f'{one.batch}/{one.key}')} at {one.step}, {one.what}: {one_line(one.why, 160)}")
    if len(found.findings) > LISTED:
        say(f"  and {len(found.findings) - LISTED:,} more; --json lists them")
    if found.rewound:
        say(f"do it anew: {goes_on}")
