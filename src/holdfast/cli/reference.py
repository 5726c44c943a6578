"""The reference of the command line, made from the commands themselves: docs/reference/cli.md is its output."""

from __future__ import annotations

from collections.abc import Iterator

import click

from holdfast.cli.app import app
from holdfast.cli.saying import say_lines

WIDTH = 100


def markdown() -> str:
    """Gives the help of every command as Markdown, in the order of `holdfast --help`."""
    return "\n".join(_pages()) + "\n"


def _pages() -> Iterator[str]:
    yield "# The command line"
    yield ""
    yield "Generated from the code by `holdfast.cli.reference`; a test compares. Every command answers `--help`."
    with click.Context(app, info_name="holdfast", terminal_width=WIDTH, **app.context_settings) as context:
        yield from _page("holdfast", app, context)
        yield from _commands("holdfast", app, context)


def _commands(title: str, group: click.Group, context: click.Context) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        with click.Context(command, info_name=name, parent=context, terminal_width=WIDTH) as inner:
            yield from _page(f"{title} {name}", command, inner)
            if isinstance(command, click.Group):
                yield from _commands(f"{title} {name}", command, inner)


def _page(title: str, command: click.Command, context: click.Context) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield "```text"
    yield command.get_help(context)
    yield "```"


if __name__ == "__main__":
    say_lines(markdown(), nl=False)
