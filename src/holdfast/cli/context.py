"""The context of one command: which store, JSON or text, and errors with an exit code."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from holdfast.cli.exit_codes import USAGE_ERROR
from holdfast.cli.output import plain_lines
from holdfast.cli.shown_keys import shown_key
from holdfast.core.passwords import hide_password
from holdfast.core.suggested_commands import format_command

DEFAULT_STORE = "sqlite:///holdfast.db"
OUR_COMMAND = re.compile(r"`holdfast (?=[a-z])")
"""A command in a message, between backticks."""
MAX_REPEATED_COMMAND = 160
"""A longer command line, as when a shell lists a thousand files, is not printed again."""


class CliError(click.ClickException):
    """An error message for a person, and the exit code."""

    def __init__(self, message: str, *, code: int = USAGE_ERROR) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # a class variable in click; ours differ

    def format_message(self) -> str:
        """Return the message without control characters: names of documents and batches may contain them."""
        return plain_lines(self.message)


class StoppedAtOnce(BaseException):
    """A second Ctrl-C. Not a KeyboardInterrupt, because click prints its own message for that."""


class CliContext:
    """The common options of a command, and the arguments as they were typed."""

    def __init__(self, args: Sequence[str] = ()) -> None:
        self.args = list(args)
        self.store_option: str | None = None
        self.json = False
        self.debug = False
        self.callback: Callable[..., Any] | None = None  # the function of the command; see `resumable`, `only_prints`

    @property
    def store_url(self) -> str:
        """The URL of the store: from --store, from HOLDFAST_STORE, or the default."""
        return self.store_option or os.environ.get("HOLDFAST_STORE") or DEFAULT_STORE

    @property
    def shown_store(self) -> str:
        """The URL of the store without its password."""
        return hide_password(self.store_url)

    @property
    def program(self) -> str:
        """The command as people call it: `./hf` sets HOLDFAST_COMMAND, because its `holdfast` is not on the path."""
        return os.environ.get("HOLDFAST_COMMAND") or "holdfast"

    def with_program(self, message: str) -> str:
        """Return a message in which commands of holdfast begin as people call it."""
        return message if self.program == "holdfast" else OUR_COMMAND.sub(lambda _: f"`{self.program} ", message)

    def export_store_url(self) -> None:
        """Set HOLDFAST_STORE, so that a pipeline's own code can open the same store."""
        os.environ["HOLDFAST_STORE"] = self.store_url

    def command(self, *args: str) -> str:
        """Return a command for the same store, ready to paste into a shell."""
        store = ["--store", hide_password(self.store_option)] if self.store_option else []
        return format_command([*map(shown_key, args)], store=store, program=self.program)

    def same_command(self, *shorter: str, option: str = "") -> str:
        """Return the command as it was typed, with `option` added, or the `shorter` one if it was very long."""
        added = [option] if option and option not in self.args else []
        same = format_command([*map(hide_password, self.args), *added], program=self.program)
        return same if self.args and len(same) <= MAX_REPEATED_COMMAND else self.command(*shorter, *added)
