"""The `holdfast` command: its subcommands, and how errors become one sentence and an exit code."""

from __future__ import annotations

import traceback
from importlib import import_module
from typing import Any

import click

from holdfast.cli.asked import STORE_TROUBLE, Asked, StoppedAtOnce, Trouble, common
from holdfast.cli.at_once import say_how_to_go_on
from holdfast.cli.capsule import capsule
from holdfast.cli.check import check
from holdfast.cli.cleanup import cleanup
from holdfast.cli.close import close
from holdfast.cli.crashtest import crashtest
from holdfast.cli.dead import dead
from holdfast.cli.debug import debug
from holdfast.cli.decisions import cancel, pause, priority, resume, rewind
from holdfast.cli.explain import explain
from holdfast.cli.metrics import metrics
from holdfast.cli.migrate import migrate
from holdfast.cli.orphans import orphans
from holdfast.cli.plan import plan
from holdfast.cli.reconcile import reconcile
from holdfast.cli.review import review
from holdfast.cli.run import run
from holdfast.cli.saying import say_lines
from holdfast.cli.seal import seal
from holdfast.cli.show import show
from holdfast.cli.status import status
from holdfast.cli.submit import submit
from holdfast.cli.verify import verify
from holdfast.cli.work import work
from holdfast.core.errors import HoldfastError, StoreError


class App(click.Group):
    """Tells our own errors in one sentence, each with its exit code."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> click.Context:
        return super().make_context(info_name, args, *more, obj=Asked(args), **extra)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            if ctx.invoked_subcommand in ("ingest", "watch", "run", "submit", "work", "close"):
                say_how_to_go_on(ctx.obj)
            raise StoppedAtOnce from interrupt
        except UnicodeEncodeError as error:
            _show_where(ctx.obj)
            raise Trouble(f"{error.object[:200]!a} is not written in UTF-8, and no store can have that") from error
        except HoldfastError as error:
            _show_where(ctx.obj)
            raise Trouble(str(error), code=STORE_TROUBLE if isinstance(error, StoreError) else 2) from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*LATE, *(name for name in self.commands if name not in LATE)]  # as a day goes, not by the alphabet

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in LATE and cmd_name not in self.commands:
            self.add_command(getattr(import_module(f"holdfast.cli.{cmd_name}"), cmd_name))
        return super().get_command(ctx, cmd_name)


def _show_where(asked: Asked) -> None:
    if asked.debug:
        say_lines(traceback.format_exc(), err=True, nl=False)


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast", message="holdfast %(version)s")
@common
def app() -> None:
    """Runs documents through pipelines that go on exactly where they were killed.

    \b
      holdfast ingest ./contracts       make a folder searchable; Ctrl-C any time, and again to go on
      holdfast search "notice period"   what the documents say about it, and where
      holdfast watch ./contracts        keep it searchable while files come and go
      holdfast run papers.py ./pdfs     submit a folder and work until all is done; Ctrl-C any time
      holdfast run papers.py            go on where it stopped
      holdfast status                   count what is there
      holdfast show pdfs/a.pdf          the whole story of one document
      holdfast explain pdfs/a.pdf       why it is where it is, and what to do about it

    \b
    Exit codes:
      0    fine
      1    some documents are dead letters (run, work --drain); documents are missing (reconcile); a batch cannot be
           closed yet (close); the documents in the store cannot go on (check); work is gone (verify); the document
           failed (debug); a kill changed the result (crashtest)
      2    the command or the pipeline is written wrongly
      3    the store cannot be used
      4    a source could not be reached (ingest, plan); what others have was taken in, and the same command looks again
      130  stopped by Ctrl-C, 143 by SIGTERM; the work is saved, and the same command goes on
    """


LATE = ("ingest", "watch", "search", "serve", "collection")
"""The commands of document search are imported when they are asked for: the others start without its modules."""
COMMANDS = (
    *(plan, check, run, submit, work, status, show, explain),
    *(dead, review, orphans, cancel, pause, resume, priority, rewind),
    *(verify, seal, reconcile, close, cleanup),
    *(capsule, debug, metrics, migrate, crashtest),
)
for command in COMMANDS:
    app.add_command(command)


def every_command() -> dict[str, click.Command]:
    """Gives all commands by their names, in the order of `holdfast --help`."""
    with click.Context(app) as context:
        return {name: command for name in app.list_commands(context) if (command := app.get_command(context, name))}
