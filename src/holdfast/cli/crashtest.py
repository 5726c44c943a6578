"""`holdfast crashtest`: kills a pipeline at every commit point, and tells whether it minds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
import msgspec

from holdfast.cli.asked import DEAD_LETTERS, FINE, Asked, Trouble, common
from holdfast.cli.documents import named, offered
from holdfast.cli.pipelines import Loaded, load
from holdfast.cli.saying import say_lines, tell
from holdfast.cli.words import harmless
from holdfast.engine.api import Submittable

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.crash import Progress


@click.command()
@click.argument("pipeline")
@click.argument("documents", nargs=-1)
@click.option("--point", "points", type=int, multiple=True, help="Only this commit point, by its number. Repeatable.")
@click.option(
    "--ignore",
    multiple=True,
    help="What changes by nature: table.column, step.field, or a whole table or step. Repeatable.",
)
@common
@click.pass_obj
def crashtest(
    asked: Asked, /, *, pipeline: str, documents: tuple[str, ...], points: tuple[int, ...], ignore: tuple[str, ...]
) -> None:
    """Runs a pipeline undisturbed, then kills it at every commit point, resumes, and compares.

    PIPELINE and DOCUMENTS are those of `holdfast run`; a few small documents do. Kept items and the rows of effects
    have to be the same after every kill. A function `prepare(tx)` in the pipeline's file creates the tables that its
    effects write to.

    Every run has a database of its own: a SQLite file that is thrown away, or, if --store names a PostgreSQL server, a
    database that is made there and dropped.
    """
    from holdfast.testing.crash import crashtest as kill_everywhere

    loaded = load(pipeline)
    with _telling(asked) as draw:
        report = kill_everywhere(
            loaded.pipeline,
            list(_source(loaded, documents)),
            store=_server(asked),
            prepare=loaded.prepare,
            points=points or None,
            ignore=ignore,
            progress=draw,
        )
    if asked.json:
        tell({"passed": report.passed, **msgspec.to_builtins(report)})
    else:
        say_lines(report)
    raise click.exceptions.Exit(FINE if report.passed else DEAD_LETTERS)


def _source(loaded: Loaded, documents: tuple[str, ...]) -> Iterator[Submittable]:
    if documents:
        return named(documents)
    if loaded.documents:
        return offered(loaded)
    raise Trouble(
        f"there is nothing to test with: name a few documents, or write a function documents() in {loaded.spec} that "
        'yields some, such as ("a", {"pages": 3})'
    )


def _server(asked: Asked) -> str:
    """A server is used only when it was named for this very command: databases are dropped there."""
    store = asked.named_store or "sqlite"
    return store if store.startswith("postgres") else "sqlite"


@contextmanager
def _telling(asked: Asked) -> Iterator[Callable[[Progress], object]]:
    """Shows how many kills are behind, on a terminal. No threads here: the test forks."""
    if asked.json or not sys.stderr.isatty():
        yield lambda _: None
        return

    def draw(progress: Progress) -> None:
        said = f"{progress.done} of {progress.total} kills: {progress.point}"[:100]
        click.echo(f"\r\033[K{harmless(said)}", err=True, nl=False)  # noqa: TID251 - it is drawn over itself

    yield draw
    click.echo("\r\033[K", err=True, nl=False)  # noqa: TID251
