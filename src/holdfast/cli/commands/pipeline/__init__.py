"""`holdfast pipeline`: check, verify, debug and test a pipeline, and let a paused step go on."""

from __future__ import annotations

import click

from holdfast.cli.command_group import CommandGroup
from holdfast.cli.options import common_options

MODULES = {
    "check": "pipeline.check",
    "verify": "pipeline.verify",
    "debug": "pipeline.debug",
    "crashtest": "pipeline.crashtest",
    "circuit": "pipeline.circuit",
}


@click.group(cls=CommandGroup, modules=MODULES)
@common_options
def pipeline() -> None:
    """Check, verify, debug and crash-test a pipeline.

    These are tools for those who write a pipeline, or deploy a new version of it.
    """
