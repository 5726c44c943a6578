"""Who decides, and why: what every line of a journal is signed with."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def signed(*, reason: str = "") -> Callable[[Command], Command]:
    """Adds the options that sign what is done: --who, and --reason, which this is unless another is given."""

    def add(command: Command) -> Command:
        told = click.option("--reason", default=reason, show_default=bool(reason), help="Why; kept in the journal.")
        return named(told(command))

    return add


def named(command: Command) -> Command:
    """Adds --who alone, for what needs no reason."""
    option = click.option(
        "--who",
        default=login,
        callback=not_empty,
        metavar="NAME",
        help="Who does this; kept in the journal. [env: HOLDFAST_WHO; default: your login name]",
    )
    return option(command)


def not_empty(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuses a reason or a name that says nothing."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is for the journal; say something", ctx=context, param=parameter)
    return value


def login() -> str:
    """Gives the name of the person at the keyboard: HOLDFAST_WHO, or the login name."""
    try:
        return os.environ.get("HOLDFAST_WHO") or getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return f"user {os.getuid()}"
