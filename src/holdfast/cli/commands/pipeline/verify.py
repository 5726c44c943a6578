"""`holdfast pipeline verify`: check that the results of steps still exist."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

import holdfast
from holdfast.cli.context import CliContext, CliError
from holdfast.cli.exit_codes import DEAD_LETTERS, OK
from holdfast.cli.options import batch_option, common_options, who_option
from holdfast.cli.output import print_json, print_line
from holdfast.cli.param_types import SampleType
from holdfast.cli.pipeline_loader import PipelineNotFound, load_pipeline
from holdfast.cli.shown_keys import shown_place
from holdfast.cli.store_access import open_existing_store, require_batch, require_pipeline
from holdfast.core.formatting import format_count, format_duration, one_line, printable
from holdfast.core.pipeline import Pipeline
from holdfast.engine.settings import DEFAULT_THREADS
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.ops.verify import Verification
    from holdfast.pipelines.rag.collections.library import Library

MAX_FINDINGS_SHOWN = 20


@click.command()
@click.argument("pipeline", metavar="PIPELINE|COLLECTION")
@batch_option
@click.option("--key", help="Only this document, or all that match a pattern with * and ?.")
@click.option("--sample", type=SampleType(), help="Only a random sample: a number of documents, or a share of them.")
@click.option("--seed", type=click.IntRange(0), help="Seed of the sample, to draw the same one again.")
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=DEFAULT_THREADS,
    show_default=True,
    help="Number of verify functions that run at the same time.",
)
@who_option
@common_options
@click.pass_obj
def verify(
    cli: CliContext,
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
    """Check that the results of steps still exist, and have missing ones redone.

    PIPELINE is a Python file or module, as for `holdfast run`. COLLECTION is one of `holdfast collection list`.

    For every document that no worker holds, the verify functions of all steps that it has passed are called. If a
    result is gone, the document goes back to that step as a new generation, and a worker redoes it. If the result is
    gone again after that, the document is paused for a person. A document on hold goes back too, and stays on hold. A
    dead letter is only reported. A verify function that raises an error is reported, and changes nothing.

    The exit code is 1 if something was gone or could not be checked.
    """
    cli.export_store_url()
    with open_existing_store(cli) as store:
        library = _library(store, pipeline)
        verified = _pipeline(store, pipeline) if library is None else library.pipeline
        name = require_pipeline(store, verified.name)
        if batch:
            require_batch(store, name, batch)
        options: dict[str, Any] = {
            "batch": batch,
            "key": key,
            "sample": sample,
            "seed": seed,
            "who": who,
            "threads": threads,
        }
        result = _verify_collection(library, **options) if library else holdfast.verify(verified, store, **options)
    if cli.json:
        print_json(result)
    else:
        next_command = ("ingest", "--collection", pipeline) if library else ("run", pipeline)
        _print_result(result, any(step.verify_body for step in verified.steps), cli.command(*next_command))
    raise click.exceptions.Exit(DEAD_LETTERS if result.gone or result.errors else OK)


def _library(store: Store, name: str) -> Library | None:
    """Return the library of the collection with this name, if there is one."""
    if name not in store.pipelines() or name not in _collections(store):
        return None
    from holdfast.pipelines.rag.collections.library import Library

    return Library(store, name)


def _collections(store: Store) -> list[str]:
    from holdfast.cli.selection import list_collections  # only if the store may have collections

    return [collection.name for collection in list_collections(store)]


def _pipeline(store: Store, name: str) -> Pipeline:
    try:
        return load_pipeline(name).pipeline
    except PipelineNotFound as missing:
        collections = ", ".join(_collections(store))
        also = f"; collections are: {collections}" if collections else ""
        raise CliError(missing.message + also) from missing


def _verify_collection(library: Library, **options: Any) -> Verification:
    from holdfast.pipelines.rag.collections.verify import verify

    with closing(library):
        return verify(library, **options)


def _print_result(result: Verification, has_verify: object, next_command: str) -> None:
    if not has_verify:
        print_line("no step has a verify function, so nothing was checked; add one with @step.verify")
        return
    checked = f"{format_count(result.documents, 'document')} with {format_count(result.checks, 'check')}"
    line = f"checked {checked} in {format_duration(result.seconds)}: {result.fine:,} fine"
    for number, outcome in (
        (result.rewound, "gone and to be redone"),
        (result.parked, "gone again and paused"),
        (result.left_alone, "gone and not changed"),
        (result.errors, "could not be checked"),
    ):
        line += f", {number:,} {outcome}" if number else ""
    print_line(line)
    if result.held:
        print_line(f"{format_count(result.held, 'document')} held by workers, which check them when they take them")
    if result.seed is not None:
        print_line(f"to draw the same sample again: --seed {result.seed}")
    for finding in result.findings[:MAX_FINDINGS_SHOWN]:
        place = f"{printable(shown_place(finding.batch, finding.key))} at {finding.step}"
        print_line(f"  {place}, {finding.what}: {one_line(finding.why, 160)}")
    if len(result.findings) > MAX_FINDINGS_SHOWN:
        print_line(f"  and {len(result.findings) - MAX_FINDINGS_SHOWN:,} more; --json lists all")
    if result.rewound:
        print_line(f"redo it: {next_command}")
