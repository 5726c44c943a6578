"""How the command line looks through sources: options alone, for commands that do without document search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli.pairs import pairs_of

Command = TypeVar("Command", bound=Callable[..., Any])


def how_to_look(command: Command) -> Command:
    """Adds the options that say how sources are looked through."""
    options = (
        click.option(
            "--ignore", multiple=True, metavar="PATTERN", help="Leave out what is like this, as in .gitignore."
        ),
        click.option("--flat", is_flag=True, help="Only the files of a folder itself, not of the folders in it."),
        click.option("--allow-private", is_flag=True, help="Fetch from addresses of private networks too."),
    )
    for option in reversed(options):
        command = option(command)
    return command


what_is_said = click.option(
    "--meta",
    "metadata",
    multiple=True,
    metavar="NAME=VALUE",
    callback=lambda _, __, given: pairs_of(given, "--meta") if given else None,
    help="Metadata of all that SOURCES have, in place of what was said before. [default: as it was]",
)
"""Adds the option that says something of sources."""
