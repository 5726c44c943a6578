"""`holdfast help`: the help of a command, and a page about exit codes."""

from __future__ import annotations

from collections.abc import Sequence

import click

from holdfast.cli.command_group import CommandGroup
from holdfast.cli.context import CliContext
from holdfast.cli.exit_codes import EXIT_CODES
from holdfast.cli.options import common_options
from holdfast.cli.output import only_prints, print_json, print_line, print_lines

TOPIC = "exit-codes"


@click.command("help", hidden=True)
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@common_options
@click.pass_obj
@click.pass_context
@only_prints
def help_(context: click.Context, cli: CliContext, *, words: tuple[str, ...]) -> None:
    """Show the help of a command, or what exit codes mean.

    COMMAND are the words of a command, such as `batch close`. `holdfast help exit-codes` lists all exit codes.
    """
    if words != (TOPIC,):
        print_lines(_help(context.find_root(), words))
    elif cli.json:
        print_json(EXIT_CODES)
    else:
        print_line("Exit codes of holdfast:")
        formatter = context.make_formatter()
        formatter.indent()
        formatter.write_dl([*EXIT_CODES.items()])
        print_lines(formatter.getvalue(), nl=False)


def _help(context: click.Context, words: Sequence[str]) -> str:
    """Return the help of the command with these words."""
    command = context.command
    if not words:
        return command.get_help(context)
    if not isinstance(command, CommandGroup):
        raise click.UsageError(f"`{context.command_path}` has no command {words[0]!r}", context)
    _, found, _ = command.resolve_command(context, list(words))
    assert found is not None
    with click.Context(found, info_name=words[0], parent=context) as inner:
        return _help(inner, words[1:])
