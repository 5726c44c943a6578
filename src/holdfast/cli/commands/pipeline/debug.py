"""`holdfast pipeline debug`: process one document in this thread, with a debugger."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Any

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.exit_codes import DEAD_LETTERS, OK
from holdfast.cli.options import batch_option, common_options, who_and_optional_reason
from holdfast.cli.output import print_json, print_line, print_lines
from holdfast.cli.pipeline_loader import load_pipeline
from holdfast.cli.run_loop import call_prepare
from holdfast.cli.selection import find_document
from holdfast.cli.shown_keys import shown_key
from holdfast.cli.store_access import open_existing_store
from holdfast.core.formatting import format_checkpoint, one_line, printable
from holdfast.core.model import DocumentStatus
from holdfast.core.suggested_commands import command_args
from holdfast.stores.protocol import Store


@click.command()
@click.argument("pipeline")
@click.argument("key")
@batch_option
@click.option("--pdb", is_flag=True, help="Open the debugger where the first error was raised.")
@click.option("--redrive", is_flag=True, help="Try a dead letter again, from its checkpoint.")
@who_and_optional_reason("to debug it")
@common_options
@click.pass_obj
def debug(
    cli: CliContext, /, *, pipeline: str, key: str, batch: str | None, pdb: bool, redrive: bool, who: str, reason: str
) -> None:
    """Process the document KEY in this thread, so that breakpoints work.

    PIPELINE is a Python file or module, as for `holdfast run`.

    `breakpoint()` in a step function opens the debugger. Steps with runs_in="process" run in this process too, and
    timeouts do not apply. A document that is not due yet is processed anyway. Quitting the debugger gives the document
    back, and costs no attempt.

    The document is claimed and its work is committed as by any worker. To experiment, debug a capsule of it in another
    store.
    """
    from holdfast.engine.debug_run import debug_document

    cli.export_store_url()
    loaded = load_pipeline(pipeline)
    with open_existing_store(cli) as store:
        document = find_document(cli, store, key, pipeline=loaded.pipeline.name, batch=batch, file=pipeline)
        if document.state == "dead":
            _redrive(cli, store, document, file=pipeline, redrive=redrive, who=who, reason=reason)
        call_prepare(loaded, store)
        errors = _ErrorHandler(post_mortem=pdb)
        document = debug_document(loaded.pipeline, store, document.id, who=who, on_error=errors)
    _print_result(cli, document, errors.count)


def _redrive(
    cli: CliContext, store: Store, document: DocumentStatus, *, file: str, redrive: bool, who: str, reason: str
) -> None:
    if not redrive:
        options = ("--batch", document.batch, "--redrive")
        again = cli.command(*command_args(("pipeline", "debug"), file, document.key, options=options))
        raise CliError(
            f"{shown_key(document.key)} is a dead letter ({one_line(document.reason)}). To try it again: {again}"
        )
    store.redrive([document.id], who=who, reason=reason)


class _ErrorHandler:
    """Print every error with the traceback of the step function, and open the debugger at the first one."""

    def __init__(self, *, post_mortem: bool) -> None:
        self.count = 0
        self._post_mortem = post_mortem

    def __call__(self, error: BaseException, trace: TracebackType | None) -> None:
        self.count += 1
        print_lines("".join(traceback.format_exception(type(error), error, trace)), err=True, nl=False)
        if self._post_mortem and self.count == 1:
            import pdb  # noqa: T100 - the user asked for it

            pdb.post_mortem(trace)


def _print_result(cli: CliContext, document: DocumentStatus, errors: int) -> None:
    if cli.json:
        fields: dict[str, Any] = {"key": document.key, "state": document.state, "step": document.checkpoint.step}
        print_json(fields | {"reason": document.reason, "recoverable": document.recoverable, "errors": errors})
    else:
        where = "" if document.state == "done" else f" {format_checkpoint(document.checkpoint, None)}"
        why = f": {one_line(document.reason)}" if document.reason else ""
        print_line(f"{printable(shown_key(document.key))} is {document.state}{where}{why}")
    failed = document.state == "dead" or (errors and document.state != "done")
    raise click.exceptions.Exit(DEAD_LETTERS if failed else OK)
