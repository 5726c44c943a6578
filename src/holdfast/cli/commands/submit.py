"""`holdfast submit`: submit documents, for workers to process."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.context import CliContext
from holdfast.cli.document_args import LinkRule, documents_from_args, files_to_skip
from holdfast.cli.interrupt import resumable
from holdfast.cli.observe_options import log_options, open_listeners, split_observe_options
from holdfast.cli.options import DEFAULT_BATCH, common_options, deadline_options, file_options
from holdfast.cli.output import print_json, print_line
from holdfast.cli.pipeline_loader import load_pipeline
from holdfast.cli.run_loop import add_resume_hint, call_prepare, change_messages, format_submit_result
from holdfast.cli.store_access import open_persistent_store
from holdfast.engine import api


@click.command()
@click.argument("pipeline")
@click.argument("documents", nargs=-1, required=True)
@click.option("--batch", metavar="NAME", default=DEFAULT_BATCH, show_default=True, help="The batch to submit to.")
@click.option(
    "--priority", type=int, default=0, show_default=True, help="Documents with a higher priority are processed first."
)
@deadline_options
@file_options
@log_options
@common_options
@click.pass_obj
@resumable
def submit(
    cli: CliContext,
    /,
    *,
    pipeline: str,
    documents: tuple[str, ...],
    follow_symlinks: bool,
    allow_private: bool,
    **options: Any,
) -> None:
    """Submit documents for workers to process. Print how many are new, changed and unchanged.

    PIPELINE and DOCUMENTS are as for `holdfast run`.
    """
    loaded = load_pipeline(pipeline)
    with open_persistent_store(cli) as store, add_resume_hint(cli, "submit", pipeline):
        call_prepare(loaded, store)
        for message in change_messages(cli, loaded, store):
            print_line(message, err=True)
        links = LinkRule(follow=follow_symlinks)
        skip = files_to_skip(cli.store_url, loaded)
        source = documents_from_args(documents, skip=skip, links=links, allow_private=allow_private)
        observe, options = split_observe_options(options)
        with open_listeners(observe) as listeners:
            result = api.submit(loaded.pipeline, store, documents=source, listeners=listeners, **options)
    if links.message:
        print_line(links.message, err=True)
    if cli.json:
        print_json(result)
    else:
        print_line(format_submit_result(result))
