"""`holdfast ingest`: make documents searchable."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import click

from holdfast.cli.context import CliContext
from holdfast.cli.interrupt import resumable
from holdfast.cli.observe_options import observe_options
from holdfast.cli.options import (
    collection_option,
    common_options,
    metadata_option,
    processes_option,
    source_options,
    spending_options,
    worker_options,
)
from holdfast.cli.pipeline_loader import LoadedPipeline
from holdfast.cli.run_loop import (
    add_resume_hint,
    format_redriven,
    print_summary_and_exit,
    run_worker,
    show_resumed_work,
)
from holdfast.cli.store_access import open_persistent_store
from holdfast.cli.ui.ingest_output import (
    NO_DOCUMENTS_HINT,
    NO_SOURCES_HINT,
    collection_counts,
    ingest_source,
    require_sources,
    source_args,
)
from holdfast.cli.ui.progress import Progress, show_progress
from holdfast.cli.ui.summary import RunSummary
from holdfast.core.formatting import format_money
from holdfast.engine import api
from holdfast.engine.budget import Budget
from holdfast.ops.redrive import redrive_dead_letters
from holdfast.pipelines.rag.collections.library import INGEST_THREADS, Library
from holdfast.pipelines.rag.collections.metadata import Metadata
from holdfast.pipelines.rag.collections.remarks import describe_empty, read_remarks
from holdfast.pipelines.rag.collections.spending import SpendingLimits, describe_spending
from holdfast.pipelines.rag.index.registry import STORE
from holdfast.pipelines.rag.ingest.intake import ScanOptions
from holdfast.pipelines.rag.ingest.removal import INGEST_ACTOR
from holdfast.pipelines.rag.values import DEFAULT_COLLECTION


@click.command()
@click.argument("sources", nargs=-1)
@collection_option
@source_options
@metadata_option
@click.option("--retry", is_flag=True, help="Try dead letters again.")
@processes_option
@worker_options(threads=INGEST_THREADS, threads_shown="one more than cores", budget=spending_options)
@observe_options
@common_options
@click.pass_obj
@resumable
def ingest(
    cli: CliContext,
    /,
    *,
    sources: tuple[str, ...],
    collection: str,
    ignore: tuple[str, ...],
    flat: bool,
    allow_private: bool,
    follow_symlinks: bool,
    metadata: Metadata | None,
    retry: bool,
    budget: timedelta | float | None,
    budget_pages: int | None,
    budget_tokens: int | None,
    price: float | None,
    page_price: float | None,
    new_budget: bool,
    **options: Any,
) -> None:
    """Make the documents of folders and URLs searchable. Run it again to continue, and to update what changed.

    SOURCES are folders, files, globs and URLs (https:, s3:, file:). File types: PDF, Office files (also old
    ones and OpenDocument), RTF, EPUB, HTML, Markdown, text, CSV, JSON, XML, e-mail with attachments, mailboxes,
    archives, and pictures. Files that have not changed since the last time are
    not read again. Files that were deleted are removed from the index. Without SOURCES, the command continues with the
    documents in the store.

    If a source cannot be reached, the others are ingested, and the exit code is 4.

    Budgets of pages, tokens and money belong to the collection: they are kept in the store and count for all runs
    together. The same command goes on with what is left of them; a larger budget goes on with more.
    """
    scan = ScanOptions(
        ignore=ignore,
        recursive=not flat,
        allow_private=allow_private,
        follow_symlinks=follow_symlinks,
        metadata=metadata,
    )
    collection_args = ["--collection", collection] if collection != DEFAULT_COLLECTION else []
    command = ("ingest", *sources, *collection_args, *source_args(scan))
    wanted = {
        "money": budget if isinstance(budget, float) else None,
        "pages": budget_pages,
        "tokens": budget_tokens,
        "price": price,
        "page_price": page_price,
    }
    with open_persistent_store(cli) as store, add_resume_hint(cli, *command):
        library = Library(store, collection, allow_private=allow_private, follow_symlinks=follow_symlinks)
        require_sources(cli, library, sources)
        _set_budget(library, wanted, is_new=new_budget)
        limit = library.spending_budget(Budget(budget if isinstance(budget, timedelta) else None))
        counts = collection_counts(library, threads=options["threads"])
        with show_progress(cli, counts, limit) as progress:
            library.prepare(processes=options["processes"])
            unreachable = [source for source in sources if not ingest_source(cli, library, source, scan, progress)]
            if retry:
                redriven = redrive_dead_letters(store, library.collection.name, who=INGEST_ACTOR, reason="--retry")
                progress.display.show_message(format_redriven(redriven))
            show_resumed_work(progress, store)
            if counts.remaining:
                library.preload_parsers()
            loaded = LoadedPipeline(library.pipeline, library.collection.name)
            report = run_worker(cli, api.drain, loaded, store, progress=progress, budget=limit, options=options)
            library.require_collection()
            if not limit.is_over():
                _finish_indexing(library, progress)
            _report_empty(library, progress)
        summary = RunSummary(
            store,
            library.pipeline.name,
            None,
            report=report,
            stopped_by=limit.reason,
            resume_command=_command_with_more(cli, library, command) if limit.is_spent else cli.same_command(*command),
            spent=describe_spending(library.spending_limits, library.spent) if limit.is_spent else "",
            withdrawn=counts.withdrawn,
            retry_command=cli.command(*command, "--retry"),
            empty_hint=NO_DOCUMENTS_HINT if sources else NO_SOURCES_HINT,
            unreachable=unreachable,
        )
        print_summary_and_exit(cli, summary, progress)


def _set_budget(library: Library, wanted: dict[str, Any], *, is_new: bool) -> None:
    if is_new:
        library.remove_spending_limits()
    if any(value is not None for value in wanted.values()):
        library.limit_spending(SpendingLimits(**wanted))


def _command_with_more(cli: CliContext, library: Library, command: Sequence[str]) -> str:
    """Return the command that goes on with twice the budget."""
    limits = library.spending_limits or SpendingLimits()
    more = {"--budget-pages": limits.pages, "--budget-tokens": limits.tokens}
    options = [option for name, value in more.items() if value is not None for option in (name, str(2 * value or 100))]
    if limits.money is not None:
        options += ["--budget", format_money(2 * limits.money or 1.0).replace(",", "")]
    return cli.command(*command, *options)


def _report_empty(library: Library, progress: Progress) -> None:
    name = library.collection.name
    if without_text := sum(bool(remark.code) for remark in read_remarks(library.store, name)):
        progress.display.show_message(describe_empty(without_text, name))


def _finish_indexing(library: Library, progress: Progress) -> None:
    if library.collection.settings.index != STORE:
        progress.display.show_message(f"updating the vectors in {library.collection.settings.index}")
    library.finish_indexing()
    library.switch_if_complete()  # else the first search would do it, and status would not show the new settings
