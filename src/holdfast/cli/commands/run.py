"""`holdfast run`: submit documents and process them until no work is left."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click

from holdfast.cli.context import CliContext
from holdfast.cli.document_args import LinkRule, documents_from_args, documents_from_pipeline, files_to_skip
from holdfast.cli.interrupt import resumable
from holdfast.cli.observe_options import observe_options
from holdfast.cli.options import (
    DEFAULT_BATCH,
    common_options,
    current_user,
    file_options,
    processes_option,
    worker_options,
)
from holdfast.cli.pipeline_loader import LoadedPipeline, load_pipeline
from holdfast.cli.run_loop import (
    add_resume_hint,
    call_prepare,
    change_messages,
    edit_message,
    format_redriven,
    format_submit_result,
    print_summary_and_exit,
    run_worker,
    show_resumed_work,
    submit_documents,
)
from holdfast.cli.store_access import require_batch_to_drain
from holdfast.cli.ui.progress import show_progress
from holdfast.cli.ui.progress_counts import ProgressCounts
from holdfast.cli.ui.summary import RunSummary
from holdfast.engine import api
from holdfast.engine.budget import Budget
from holdfast.engine.file_documents import Submittable
from holdfast.ops.redrive import redrive_dead_letters
from holdfast.stores.protocol import Store


@click.command()
@click.argument("pipeline")
@click.argument("documents", nargs=-1)
@click.option(
    "--batch",
    metavar="NAME",
    help=f'Submit to this batch, and process only this one. [default: submit to "{DEFAULT_BATCH}", process all]',
)
@file_options
@click.option("--retry", is_flag=True, help="Try dead letters again.")
@processes_option
@worker_options()
@observe_options
@common_options
@click.pass_obj
@resumable
def run(
    cli: CliContext,
    /,
    *,
    pipeline: str,
    documents: tuple[str, ...],
    batch: str | None,
    follow_symlinks: bool,
    allow_private: bool,
    retry: bool,
    budget: timedelta | None,
    **options: Any,
) -> None:
    """Submit documents and process them until all are done. Run it again to continue.

    PIPELINE is a Python file or module. If it has several pipelines, write file.py:name.

    DOCUMENTS are files, folders (with all files below them, except hidden ones), globs, URLs (http, https, s3, ...),
    or - for stdin. Each line of stdin is a path, a URL, a key, or JSON: {"key": "...", "payload": ..., "fingerprint":
    "..."}. The key of a file is its absolute path. Files whose content has not changed since the last run are not
    processed again.

    Without DOCUMENTS, the command submits what the function `documents()` of the pipeline's file yields, if there is
    one, and continues with the documents in the store. A function `prepare(tx)` in the file is called first, every
    time. Let it create the tables that effects write to, if they do not exist.
    """
    cli.export_store_url()
    loaded = load_pipeline(pipeline)
    command = ("run", pipeline, *(["--batch", batch] if batch else []))
    with api.opened(cli.store_url) as store, add_resume_hint(cli, *command):
        call_prepare(loaded, store)
        links = LinkRule(follow=follow_symlinks)
        source = _source(cli, loaded, documents, links, allow_private=allow_private)
        _run(
            cli,
            loaded,
            store,
            source,
            links,
            batch=batch,
            retry=retry,
            budget=Budget(budget),
            options=options,
            command=command,
        )


def _source(
    cli: CliContext, loaded: LoadedPipeline, documents: tuple[str, ...], links: LinkRule, *, allow_private: bool
) -> Iterator[Submittable] | None:
    if documents:
        skip = files_to_skip(cli.store_url, loaded)
        return documents_from_args(documents, skip=skip, links=links, allow_private=allow_private)
    return documents_from_pipeline(loaded) if loaded.documents else None


def _run(
    cli: CliContext,
    loaded: LoadedPipeline,
    store: Store,
    source: Iterator[Submittable] | None,
    links: LinkRule,
    *,
    batch: str | None,
    retry: bool,
    budget: Budget,
    options: dict[str, Any],
    command: tuple[str, ...],
) -> None:
    counts = ProgressCounts(loaded.pipeline, store, batch=batch, threads=options["threads"])
    submitted = None
    options["batch"] = batch
    if batch and source is None:
        require_batch_to_drain(store, loaded.pipeline.name, batch)
    with show_progress(cli, counts, budget) as progress:
        changes = change_messages(cli, loaded, store, batch=batch)
        for message in changes:
            progress.display.show_message(message)
        if source is not None:
            into = batch or DEFAULT_BATCH
            submitted = submit_documents(loaded, store, batch=into, documents=source, counts=counts, options=options)
            progress.display.show_message(format_submit_result(submitted))
            if links.message:
                progress.display.show_message(links.message)
        if retry:
            store.declare(loaded.pipeline.shape())  # dead letters at renamed steps get the new names first
            who, name = current_user(), loaded.pipeline.name
            redriven = redrive_dead_letters(store, name, batch=batch, who=who, reason="--retry")
            progress.display.show_message(format_redriven(redriven))
        store.check(loaded.pipeline.shape())  # nothing goes on if the pipeline is refused
        show_resumed_work(progress, store)
        report = run_worker(cli, api.drain, loaded, store, progress=progress, budget=budget, options=options)
    summary = RunSummary(
        store,
        loaded.pipeline.name,
        batch,
        report=report,
        stopped_by=budget.reason,
        resume_command=cli.same_command(*command),
        retry_command=cli.command(*command, "--retry"),
        idle_hint="" if changes or report.claimed else edit_message(cli, loaded, store, batch=batch),
    )
    print_summary_and_exit(cli, summary, progress, submitted)
