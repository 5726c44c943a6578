"""The `holdfast` command: the list of its subcommands, and how errors become a message and an exit code."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from holdfast.cli.command_group import CommandGroup, walk_commands
from holdfast.cli.context import CliContext, CliError, StoppedAtOnce
from holdfast.cli.exit_codes import STORE_ERROR, SYSTEM_ERROR, USAGE_ERROR
from holdfast.cli.interrupt import print_resume_command
from holdfast.cli.options import common_options
from holdfast.cli.output import print_lines
from holdfast.cli.system_limits import refused_by_system
from holdfast.core.distribution import DISTRIBUTION
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.passwords import hide_password

COMMANDS = {
    "Search": {
        "ingest": ("rag", "Make the documents of folders and URLs searchable."),
        "watch": ("rag", "Keep folders searchable while their files change."),
        "search": ("rag", "Find what documents say about a question."),
        "serve": ("rag", "Serve the search page and its HTTP API."),
        "collection": ("rag", "Create, show, change and delete collections."),
    },
    "Run": {
        "run": ("run", "Submit documents and process them until all are done."),
        "submit": ("run", "Submit documents for workers to process."),
        "work": ("run", "Process submitted documents."),
        "files": ("run", "Load record files into tables, each record once."),
        "plan": ("rag", "Show what a run or an ingest would do."),
    },
    "Look": {
        "status": ("run", "Count the documents in each state, and list the workers."),
        "show": ("run", "Show everything about one document."),
        "explain": ("run", "Explain why a document or a batch does not go on."),
    },
    "Decide": {
        "dead": ("run", "List dead letters, try them again, or accept them."),
        "review": ("run", "Decide about documents that wait for a person."),
        "doc": ("run", "Cancel, pause, resume, rewind, requeue or pack documents."),
    },
    "Batches": {
        "batch": ("run", "Seal, reconcile, close and clean up batches."),
    },
    "Tools": {
        "pipeline": ("run", "Check, verify, debug and crash-test a pipeline."),
        "store": ("run", "Update the schema of a store, and serve its metrics."),
    },
}
"""The commands of the first level, as `holdfast --help` lists them: which requirements-*.lock `./hf` installs for each,
and the first sentence of its help.

A command is in the module of `holdfast.cli.commands` with its name. It is imported when it is used, so that no command
loads what only others need. `./hf` reads these lines, so each command keeps a line of its own.
"""

HELP = "help"
"""A command that `holdfast --help` names below the list."""


class App(CommandGroup):
    """Load commands when they are used, and print our own errors as one message with an exit code."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        with _hide_passwords():
            return super().make_context(info_name, args, *more, obj=CliContext(args), **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _hide_passwords():
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            if getattr(ctx.obj.callback, "resumable", False):
                print_resume_command(ctx.obj)
            raise StoppedAtOnce from interrupt
        except UnicodeEncodeError as error:
            _print_traceback(ctx.obj)
            raise CliError(f"{error.object[:200]!a} is not valid UTF-8, so no store can keep it") from error
        except (MemoryError, OSError, RuntimeError, ImportError) as error:
            refused = refused_by_system(error)
            if refused is None:
                raise
            _print_traceback(ctx.obj)
            raise CliError(refused, code=SYSTEM_ERROR) from error
        except HoldfastError as error:
            _print_traceback(ctx.obj)
            code = STORE_ERROR if isinstance(error, StoreError) else USAGE_ERROR
            raise CliError(ctx.obj.with_program(str(error)), code=code) from error
        except CliError as error:
            error.message = ctx.obj.with_program(error.message)  # type: ignore[misc]  # it names commands
            raise

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List all commands by purpose. Few lines and columns, so that it fits into any terminal."""
        self.format_usage(ctx, formatter)
        formatter.write(f"{self.help}\n\n")
        for section, commands in COMMANDS.items():
            labels = [section, *[""] * (len(commands) - 1)]
            for label, (name, (_, sentence)) in zip(labels, commands.items(), strict=True):
                formatter.write(f"{label:9}{name:12}{sentence}\n")
        formatter.write(f"{MORE_HELP}\n")


@contextmanager
def _hide_passwords() -> Iterator[None]:
    """Hide passwords in messages about wrong usage: they repeat the arguments."""
    try:
        yield
    except click.UsageError as error:
        error.message = hide_password(error.message)  # type: ignore[misc]  # nothing else repeats the arguments
        raise


def _print_traceback(cli: CliContext) -> None:
    if cli.debug:
        print_lines(traceback.format_exc(), err=True, nl=False)


MORE_HELP = "All take --help, --json, --debug and --store. Also: `holdfast help exit-codes`."


@click.group(
    cls=App,
    modules={name: name for name in (*(name for section in COMMANDS.values() for name in section), HELP)},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name=DISTRIBUTION, message="holdfast %(version)s")
@common_options
def app() -> None:
    """Run documents through pipelines that resume exactly where they stopped."""


def every_command() -> dict[str, click.Command]:
    """Return all commands by their full names, in the order of the help."""
    with click.Context(app, info_name="holdfast") as context:
        return dict(walk_commands(app, context))
