"""What was asked for on every command alike: which store, JSON or words, and how errors are told."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from holdfast.cli.saying import plain_lines
from holdfast.core.commands import pasteable

FINE = 0
DEAD_LETTERS = 1
NOT_IN_ORDER = 1
USAGE = 2
STORE_TROUBLE = 3
SOURCE_AWAY = 4
INTERRUPTED = 130
TERMINATED = 143

DEFAULT_STORE = "sqlite:///holdfast.db"
LONGEST_COMMAND = 160
"""Longer commands, as when a shell listed a thousand files, are not repeated to a person."""

_PASSWORD = re.compile(r"(://[^:/@]+:)[^@]*@")

Command = TypeVar("Command", bound=Callable[..., Any])


class Trouble(click.ClickException):
    """An error that is told in its own words, with the exit code that it ends with."""

    def __init__(self, message: str, *, code: int = USAGE) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click says once for all; ours differ

    def format_message(self) -> str:
        """Gives the words as a terminal may have them: names of documents and batches are among them."""
        return plain_lines(self.message)


class StoppedAtOnce(BaseException):
    """Ctrl-C, and nobody waits any longer. Not a KeyboardInterrupt, because click words those in its own way."""


class Asked:
    """What the words of the command line ask for, beside the command itself."""

    def __init__(self, words: Sequence[str] = ()) -> None:
        self.words = list(words)
        self.named_store: str | None = None
        self.json = False
        self.debug = False

    @property
    def store(self) -> str:
        """The URL of the store: named on the command line, in HOLDFAST_STORE, or the default."""
        return self.named_store or os.environ.get("HOLDFAST_STORE") or DEFAULT_STORE

    @property
    def shown_store(self) -> str:
        """The URL of the store as it may be shown."""
        return shown(self.store)

    def tell_bodies(self) -> None:
        """Lets bodies know the store by HOLDFAST_STORE, for what they ask the database outside of effects."""
        os.environ["HOLDFAST_STORE"] = self.store

    def command(self, *words: str) -> str:
        """Gives a command that a person can paste: for the same store."""
        return pasteable(words, store=["--store", shown(self.named_store)] if self.named_store else [])

    def same_command(self, *otherwise: str) -> str:
        """Gives the command that was asked for, or a shorter one that goes on as well."""
        same = pasteable([*map(shown, self.words)])
        return same if self.words and len(same) <= LONGEST_COMMAND else self.command(*otherwise)


def shown(url: str) -> str:
    """Gives a URL without the password that it may carry."""
    return _PASSWORD.sub(r"\1***@", url)


def common(command: Command) -> Command:
    """Adds the options that every command has. They may stand before the command's name too."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value:
        assert parameter.name is not None
        setattr(context.find_root().obj, parameter.name, value)


_OPTIONS = (
    click.option(
        "--store",
        "named_store",
        metavar="URL",
        expose_value=False,
        callback=_remember,
        help=f"The store: sqlite:///x.db, postgresql://... [env: HOLDFAST_STORE; default: {DEFAULT_STORE}]",
    ),
    click.option(
        "--json",
        "json",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Answer in JSON, for programs.",
    ),
    click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Show tracebacks of holdfast's own errors.",
    ),
)
