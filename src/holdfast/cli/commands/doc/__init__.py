"""`holdfast doc`: decisions about documents, one by one or many."""

from __future__ import annotations

import click

from holdfast.cli.command_group import CommandGroup
from holdfast.cli.options import common_options

MODULES = {
    "cancel": "doc.decisions",
    "pause": "doc.decisions",
    "resume": "doc.decisions",
    "priority": "doc.decisions",
    "rewind": "doc.decisions",
    "items": "doc.items",
    "orphans": "doc.orphans",
    "pack": "doc.capsule",
    "load": "doc.capsule",
}


@click.group(cls=CommandGroup, modules=MODULES)
@common_options
def doc() -> None:
    """Cancel, pause, resume, rewind, requeue or pack documents.

    Most of these commands work on one document or on many. Select them by their keys, by a pattern with * and ?, by
    options, or with --all. Try a selection with --dry-run first.
    """
