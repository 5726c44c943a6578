"""`holdfast show`: everything about one document."""

from __future__ import annotations

import click

from holdfast.cli.context import CliContext
from holdfast.cli.options import batch_option, common_options, items_option, pipeline_option
from holdfast.cli.output import only_prints
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
@only_prints
def show(cli: CliContext, *, key: str, pipeline: str | None, batch: str | None, items: bool) -> None:
    """Show everything about one document.

    KEY is the key of the document. A file can be named by its path. The command prints the state, the checkpoint, the
    payload, what each step kept, the items that were set aside and why, the journal, and the traceback of the last
    failure.
    """
    with open_existing_store(cli) as store:
        document = find_document(cli, store, key, pipeline=pipeline, batch=batch)
        DocumentReport(store, document).print(cli, items=items)
