"""`holdfast ingest`: takes documents into a collection, and works until they can be found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from holdfast.cli.asked import Asked, common
from holdfast.cli.eyes import how_to_watch
from holdfast.cli.in_collection import in_collection
from holdfast.cli.intake import BEGINS, counts_of, refuse_what_is_not_there, same_look, take_in
from holdfast.cli.libraries import loaded_from
from holdfast.cli.looking import how_to_look, what_is_said
from holdfast.cli.progress import Progress, showing
from holdfast.cli.stores import store_that_lasts
from holdfast.cli.summary import Summary
from holdfast.cli.words import count
from holdfast.cli.working import closed, going_on_later, how_to_work, in_processes, worked
from holdfast.engine import api
from holdfast.engine.budget import Budget
from holdfast.pipelines.rag.index.choice import STORE
from holdfast.pipelines.rag.ingest import Looking
from holdfast.pipelines.rag.library import HANDS, Library
from holdfast.pipelines.rag.metadata import Metadata


@click.command()
@click.argument("sources", nargs=-1)
@in_collection
@how_to_look
@what_is_said
@click.option("--retry", is_flag=True, help="Try again what failed before.")
@in_processes
@how_to_work(threads=HANDS, shown="one more than cores")
@how_to_watch
@common
@click.pass_obj
def ingest(
    asked: Asked,
    /,
    *,
    sources: tuple[str, ...],
    collection: str,
    ignore: tuple[str, ...],
    flat: bool,
    allow_private: bool,
    metadata: Metadata | None,
    retry: bool,
    budget: timedelta | None,
    **how: Any,
) -> None:
    """Makes documents searchable. Run it again to go on, and to take in what changed.

    SOURCES are folders, files, globs and URLs (https:, s3:, file:): PDF, DOCX, PPTX, XLSX, HTML, Markdown, text, EML
    and MSG with what they carry, PNG, JPEG and TIFF. Files that did not change since the last time cost nothing;
    files that are gone leave the index. Without SOURCES it goes on with what is in the store. A source that cannot be
    reached is told of, and the others are taken in; it ends with 4 then.
    """
    looking = Looking(ignore=ignore, recursive=not flat, allow_private=allow_private, metadata=metadata)
    where = ["--collection", collection] if collection != "documents" else []
    words = ("ingest", *sources, *where, *same_look(looking))
    limits = Budget(budget)
    with store_that_lasts(asked) as store, going_on_later(asked, *words):
        library = Library(store, collection, allow_private=allow_private)
        refuse_what_is_not_there(asked, library, sources)
        counts = counts_of(library, hands=how["threads"])
        with showing(asked, counts, limits) as progress:
            library.make_ready(processes=how["processes"])
            away = [source for source in sources if not take_in(asked, library, source, looking, progress)]
            if retry:
                progress.display.say(f"{count(_redriven(library), 'document')} that failed: tried again")
            counts.recount()
            if counts.remaining:
                library.warm()
            report = worked(asked, api.drain, loaded_from(library), store, progress=progress, budget=limits, how=how)
            library.require_the_collection()
            if not limits.is_over():
                _settle(library, progress)
        summary = Summary(
            store,
            library.pipeline.name,
            None,
            report=report,
            stopped_by=limits.reason,
            goes_on=asked.same_command(*words),
            retry=asked.command(*words, "--retry"),
            begins=BEGINS,
            away=away,
        )
        closed(asked, summary, progress)


def _settle(library: Library, progress: Progress) -> None:
    if library.collection.settings.index != STORE:
        progress.display.say(f"putting vectors in order in {library.collection.settings.index}")
    library.settle()
    library.swap_if_complete()  # else the first search would, and until then nobody would see that all is there


def _redriven(library: Library) -> int:
    """Lets what failed be tried again, from where it stood."""
    redriven = after = 0
    while some := library.store.select(library.pipeline.name, after=after, state="dead", accepted=False):
        after = some[-1]
        redriven += len(library.store.redrive(some, who="ingest", reason="--retry"))
    return redriven
