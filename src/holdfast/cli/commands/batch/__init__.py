"""`holdfast batch`: seal, reconcile, close and clean up batches."""

from __future__ import annotations

import click

from holdfast.cli.command_group import CommandGroup
from holdfast.cli.options import common_options

MODULES = {
    "seal": "batch.seal",
    "reconcile": "batch.reconcile",
    "close": "batch.close",
    "cleanup": "batch.cleanup",
}


@click.group(cls=CommandGroup, modules=MODULES)
@common_options
def batch() -> None:
    """Seal, reconcile, close and clean up batches.

    A batch is a number of documents that were submitted together. The usual order is that of these commands. `holdfast
    status` counts the documents of all batches.
    """
