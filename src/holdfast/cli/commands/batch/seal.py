"""`holdfast batch seal`: let a batch accept no more documents."""

from __future__ import annotations

from datetime import timedelta

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.exit_codes import CHECK_FAILED
from holdfast.cli.options import common_options, deadline_options, who_and_optional_reason
from holdfast.cli.output import print_json, print_line
from holdfast.cli.store_access import open_existing_store, require_pipeline
from holdfast.core.batches import DeadlineAction, describe_deadline
from holdfast.core.errors import SealRefused
from holdfast.core.formatting import format_count


@click.command()
@click.argument("pipeline")
@click.argument("batch")
@click.option(
    "--expect",
    type=click.IntRange(0),
    metavar="N",
    help="Seal it only if it has N documents, as a list, a header or a sender says.",
)
@deadline_options
@who_and_optional_reason()
@common_options
@click.pass_obj
def seal(
    cli: CliContext,
    *,
    pipeline: str,
    batch: str,
    expect: int | None,
    deadline: timedelta | None,
    at_deadline: DeadlineAction,
    who: str,
    reason: str,
) -> None:
    """Seal a batch: it accepts no more documents. When all its documents have ended, it can be closed.

    PIPELINE is the name of a pipeline, or its file. BATCH is the name of the batch.
    """
    with open_existing_store(cli) as store:
        pipeline = require_pipeline(store, pipeline)
        try:
            is_new = store.seal(pipeline, batch, who=who, reason=reason, expect=expect)
        except SealRefused as refusal:
            raise CliError(str(refusal), code=CHECK_FAILED) from refusal
        if deadline:
            at = store.now() + deadline
            store.set_deadline(pipeline, batch, at=at, action=at_deadline, who=who, reason=reason)
        (counts,) = store.batch_counts(pipeline, batch)
    if cli.json:
        fields = {"pipeline": pipeline, "batch": batch, "state": counts.state, "new": is_new}
        print_json(fields | {"deadline_at": counts.deadline_at})
        return
    if is_new:
        print_line(f"Batch {batch} of {pipeline} is sealed with {format_count(counts.expected, 'document')}.")
    else:
        print_line(f"Batch {batch} of {pipeline} is already {counts.state}.")
    if deadline:
        print_line(describe_deadline(counts))
