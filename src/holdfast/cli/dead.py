"""`holdfast dead`: what can be done about dead letters."""

from __future__ import annotations

import click

from holdfast.cli.asked import common
from holdfast.cli.capsule import pack


@click.group()
@common
def dead() -> None:
    """Looks at dead letters, and decides about them."""


dead.add_command(pack, "capsule")
