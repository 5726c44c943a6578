"""Groups of commands: imported when they are used, listed with complete sentences, and helpful about wrong words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.examples import help_epilog
from holdfast.cli.output import STOP_WHEN_LOST

MOVED = {
    "check": "pipeline check",
    "verify": "pipeline verify",
    "debug": "pipeline debug",
    "crashtest": "pipeline crashtest",
    "circuit": "pipeline circuit",
    "cancel": "doc cancel",
    "pause": "doc pause",
    "resume": "doc resume",
    "priority": "doc priority",
    "rewind": "doc rewind",
    "items": "doc items",
    "orphans": "doc orphans",
    "capsule": "doc pack",
    "seal": "batch seal",
    "reconcile": "batch reconcile",
    "close": "batch close",
    "cleanup": "batch cleanup",
    "metrics": "store metrics",
    "migrate": "store migrate",
}
"""Words of the first level that were commands before, and what they are now."""


class CommandGroup(click.Group):
    """A group of commands. A module is imported when one of its commands is used.

    Attributes:
        modules: The module of each command, below `holdfast.cli.commands`, in the order of the help.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.modules = dict(modules or {})

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*self.modules, *[name for name in self.commands if name not in self.modules]]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.modules and cmd_name not in self.commands:
            module = import_module(f"holdfast.cli.commands.{self.modules[cmd_name]}")
            self.add_command(getattr(module, f"{cmd_name}_" if cmd_name == "help" else cmd_name), cmd_name)
        command = super().get_command(ctx, cmd_name)
        if command is not None and command.epilog is None:
            command.epilog = help_epilog(f"{_path(ctx)} {cmd_name}".strip())
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, and note in the context which one it is. Suggest another one if there is none."""
        command = self.get_command(ctx, args[0])
        if command is None and not args[0].startswith("-"):
            raise _unknown_command(self, ctx, args[0])
        cli: CliContext = ctx.find_root().obj
        cli.callback = getattr(command, "callback", None)
        STOP_WHEN_LOST.set(getattr(cli.callback, "only_prints", False))
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands first, then the options."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands, each with a complete sentence."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, first_sentence(command)) for name, command in commands if command and not command.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def first_sentence(command: click.Command) -> str:
    """Return the first sentence of the help of a command."""
    paragraph = " ".join((command.help or "").split("\n\n")[0].split())
    sentence, end, _ = paragraph.partition(". ")
    return sentence + end.strip()


def _path(ctx: click.Context) -> str:
    """Return the words of a group, without the name of the program."""
    return ctx.command_path.partition(" ")[2]


def _unknown_command(group: click.Group, ctx: click.Context, word: str) -> click.ClickException:
    """Return the error for a word that is no command: where it is now, or which command is meant."""
    path = _path(ctx)
    cli: CliContext = ctx.find_root().obj
    name = " ".join(filter(None, (path, word)))
    if word in MOVED:
        if not path:
            return CliError(f"`{cli.program} {word}` is now `{cli.program} {MOVED[word]}`")
        close = [MOVED[word]]
    else:
        known = {one: " ".join(filter(None, (path, one))) for one in group.list_commands(ctx)}
        known |= MOVED if not path else {}
        close = [known[one] for one in get_close_matches(word, known, n=2)]
    meant = f"; did you mean {' or '.join(f'`{cli.program} {one}`' for one in close)}?" if close else ""
    return click.UsageError(f"there is no command `{cli.program} {name}`{meant}", ctx)


def walk_commands(group: click.Group, ctx: click.Context, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield all commands below a group with their full names, in the order of the help."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            with click.Context(command, info_name=name, parent=ctx) as inner:
                yield from walk_commands(command, inner, f"{path}{name} ")
