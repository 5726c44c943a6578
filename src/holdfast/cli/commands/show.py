"""`holdfast show`: everything about one document."""

from __future__ import annotations

import click

from holdfast.cli.context import CliContext
from holdfast.cli.options import batch_option, common_options, items_option, pipeline_option
from holdfast.cli.selection import find_document
from holdfast.cli.store_access import open_existing_store
from holdfast.cli.ui.document_report import DocumentReport


@click.command()
@click.argument("key")
@pipeline_option
@batch_option
@items_option
@common_options
@click.pass_obj
def show(cli: CliContext, *, key: str, pipeline: str | None, batch: str | None, items: bool) -> None:
    """Show everything about the document KEY.

    That is its state, checkpoint and payload, what each step kept, the items that were set aside and why, its journal,
    and the traceback of its last failure.
    """
    with open_existing_store(cli) as store:
        document = find_document(cli, store, key, pipeline=pipeline, batch=batch)
        DocumentReport(store, document).print(cli, items=items)
