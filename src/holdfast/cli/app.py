"""The `holdfast` command: the list of its subcommands, and how errors become a message and an exit code."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from holdfast.cli.context import CliContext, CliError, StoppedAtOnce
from holdfast.cli.exit_codes import STORE_ERROR, SYSTEM_ERROR, USAGE_ERROR
from holdfast.cli.interrupt import print_resume_command
from holdfast.cli.options import common_options
from holdfast.cli.output import STOP_WHEN_LOST, print_lines
from holdfast.cli.system_limits import refused_by_system
from holdfast.core.distribution import DISTRIBUTION
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.passwords import hide_password

COMMANDS = {
    "ingest": ("ingest", "rag"),
    "watch": ("watch", "rag"),
    "search": ("search", "rag"),
    "serve": ("serve", "rag"),
    "collection": ("collection", "rag"),
    "plan": ("plan", "rag"),
    "check": ("check", "run"),
    "run": ("run", "run"),
    "submit": ("submit", "run"),
    "work": ("work", "run"),
    "status": ("status", "run"),
    "show": ("show", "run"),
    "explain": ("explain", "run"),
    "dead": ("dead", "run"),
    "items": ("items", "run"),
    "review": ("review", "run"),
    "orphans": ("orphans", "run"),
    "circuit": ("circuit", "run"),
    "cancel": ("decisions", "run"),
    "pause": ("decisions", "run"),
    "resume": ("decisions", "run"),
    "priority": ("decisions", "run"),
    "rewind": ("decisions", "run"),
    "verify": ("verify", "run"),
    "seal": ("seal", "run"),
    "reconcile": ("reconcile", "run"),
    "close": ("close", "run"),
    "cleanup": ("cleanup", "run"),
    "capsule": ("capsule", "run"),
    "debug": ("debug", "run"),
    "metrics": ("metrics", "run"),
    "migrate": ("migrate", "run"),
    "crashtest": ("crashtest", "run"),
}
"""Every command: its module in `holdfast.cli.commands`, and which requirements-*.lock `./hf` installs for it.

The order is the order of `holdfast --help`. `./hf` reads these lines, so each command keeps a line of its own. A module
is imported when its command is used, so that no command loads what only others need.
"""


ONLY_PRINT = frozenset({"search", "plan", "check", "status", "show", "explain"})
"""Commands that change nothing: they end when stdout is lost. The others finish their work first."""


class App(click.Group):
    """Load commands when they are used, and print our own errors as one message with an exit code."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        with _hide_passwords():
            return super().make_context(info_name, args, *more, obj=CliContext(args), **extra)

    def invoke(self, ctx: click.Context) -> Any:
        STOP_WHEN_LOST.set(ctx.invoked_subcommand in ONLY_PRINT)
        try:
            with _hide_passwords():
                return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            if self._is_resumable(ctx):
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

    def _is_resumable(self, ctx: click.Context) -> bool:
        """Check whether the command is marked with `@resumable`."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        return command is not None and getattr(command.callback, "resumable", False)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            module, _ = COMMANDS[cmd_name]
            self.add_command(getattr(import_module(f"holdfast.cli.commands.{module}"), cmd_name))
        return super().get_command(ctx, cmd_name)


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


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name=DISTRIBUTION, message="holdfast %(version)s")
@common_options
def app() -> None:
    """Run documents through pipelines that resume exactly where they stopped.

    \b
      holdfast ingest ./contracts       make a folder searchable; stop with Ctrl-C, run again to continue
      holdfast search "notice period"   find what the documents say, and where
      holdfast watch ./contracts        keep a folder searchable while its files change
      holdfast run papers.py ./pdfs     submit a folder and work until all documents are done
      holdfast run papers.py            continue where the last run stopped
      holdfast status                   count the documents in each state
      holdfast show pdfs/a.pdf          show everything about one document
      holdfast explain pdfs/a.pdf       explain why a document is where it is, and what to do

    \b
    Exit codes:
      0    success
      1    dead letters (run, work --drain); missing documents (reconcile); the batch cannot be closed yet (close);
           the batch has another number of documents (seal --expect);
           the pipeline does not fit the documents in the store (check); work is gone (verify); the document failed
           (debug); a kill changed the result (crashtest)
      2    wrong usage, or an error in the pipeline's file
      3    the store cannot be used
      4    a source could not be reached (ingest, plan), or a step is paused because its service is away; the rest was
           done; run the command again
      5    the system refused memory, open files or threads, or stdout could not be written; all work is saved
      6    the document is not finished: another worker holds it, or it waits; run the command again later (work --key)
      130  stopped by Ctrl-C; 143 by SIGTERM; 129 by SIGHUP; all work is saved; run the command again to continue
      141  the reader of stdout has ended, as with | head; a command that works has finished its work
    """


def every_command() -> dict[str, click.Command]:
    """Return all commands by name, in the order of `holdfast --help`."""
    with click.Context(app) as context:
        return {name: command for name in app.list_commands(context) if (command := app.get_command(context, name))}
