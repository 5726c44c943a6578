"""`holdfast pipeline crashtest`: kill a pipeline at every commit point, and compare the results."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.document_args import documents_from_args, documents_from_pipeline
from holdfast.cli.exit_codes import DEAD_LETTERS, OK
from holdfast.cli.options import common_options
from holdfast.cli.output import print_json, print_lines
from holdfast.cli.pipeline_loader import LoadedPipeline, load_pipeline
from holdfast.core.formatting import printable
from holdfast.engine.file_documents import Submittable

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.crash import CrashTestProgress


@click.command()
@click.argument("pipeline")
@click.argument("documents", nargs=-1)
@click.option(
    "--point",
    "points",
    type=int,
    multiple=True,
    help="Kill only at this commit point (a number), and change nothing. Repeatable.",
)
@click.option(
    "--ignore",
    multiple=True,
    help="Do not compare this: table.column, step.field, or a whole table or step. Repeatable.",
)
@common_options
@click.pass_obj
def crashtest(
    cli: CliContext, /, *, pipeline: str, documents: tuple[str, ...], points: tuple[int, ...], ignore: tuple[str, ...]
) -> None:
    """Kill a pipeline at every commit point, resume it, and compare the results with an uninterrupted run.

    PIPELINE and DOCUMENTS are as for `holdfast run`; a few small documents are enough. After every kill, the kept items
    and the rows that effects wrote must be the same. A function `prepare(tx)` in the pipeline's file creates the tables
    that effects write to.

    Then documents are changed half-way and when they are done, and are rewound. The result must be that of a fresh run.

    Every run uses its own database: a temporary SQLite file, or a temporary database on the PostgreSQL server that
    --store names.
    """
    from holdfast.testing.crash import crashtest as run_crashtest

    loaded = load_pipeline(pipeline)
    with _show_progress(cli) as show:
        report = run_crashtest(
            loaded.pipeline,
            list(_documents(loaded, documents)),
            store=_store_url(cli),
            prepare=loaded.prepare,
            points=points or None,
            ignore=ignore,
            progress=show,
        )
    if cli.json:
        print_json({"passed": report.passed, **msgspec.to_builtins(report)})
    else:
        print_lines(report)
    raise click.exceptions.Exit(OK if report.passed else DEAD_LETTERS)


def _documents(loaded: LoadedPipeline, documents: tuple[str, ...]) -> Iterator[Submittable]:
    if documents:
        return documents_from_args(documents)
    if loaded.documents:
        return documents_from_pipeline(loaded)
    raise CliError(
        f"there are no documents to test with: name some, or write a function documents() in {loaded.spec} that "
        'yields some, such as ("a", {"pages": 3})'
    )


def _store_url(cli: CliContext) -> str:
    """Use a server only if it is named for this command, not in HOLDFAST_STORE: databases are dropped there."""
    store = cli.store_option or "sqlite"
    return store if store.startswith("postgres") else "sqlite"


@contextmanager
def _show_progress(cli: CliContext) -> Iterator[Callable[[CrashTestProgress], object]]:
    """Show the number of kills on a terminal. It uses no thread, because the test forks."""
    if cli.json or not sys.stderr.isatty():
        yield lambda _: None
        return

    def draw(progress: CrashTestProgress) -> None:
        line = f"{progress.done} of {progress.total} runs: {progress.point or 'all documents again'}"[:100]
        click.echo(f"\r\033[K{printable(line)}", err=True, nl=False)  # noqa: TID251 - overwrites its own line

    yield draw
    click.echo("\r\033[K", err=True, nl=False)  # noqa: TID251
