"""Who decides, and why: options of commands that leave a line in a journal."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def login_name() -> str:
    """Gives the name of whoever sits here: HOLDFAST_WHO, else the name of the login."""
    if named := os.environ.get("HOLDFAST_WHO"):
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"user {os.getuid()}"


def with_who(command: Command) -> Command:
    """Adds --who."""
    option = click.option(
        "--who", default=login_name, help="Who does this, for the journal. [env: HOLDFAST_WHO; default: your login]"
    )
    return option(command)


def with_reason(command: Command) -> Command:
    """Adds --reason, which may be left out."""
    return click.option("--reason", default="", help="Why, for the journal.")(command)
