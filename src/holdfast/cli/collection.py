"""`holdfast collection`: what collections there are, and how their documents are made searchable."""

from __future__ import annotations

from typing import Any

import click
from msgspec.structs import asdict, replace

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.in_collection import MADE_BY
from holdfast.cli.libraries import collection_in, collections_of
from holdfast.cli.saying import say, styled, tell
from holdfast.cli.stores import store_that_exists, store_that_lasts
from holdfast.cli.words import count, harmless, table
from holdfast.pipelines.rag.collections import Collection, Settings
from holdfast.pipelines.rag.counters import counters_of
from holdfast.pipelines.rag.embedders import checked
from holdfast.pipelines.rag.embedders.rate import Rate
from holdfast.pipelines.rag.index.choice import STORE
from holdfast.pipelines.rag.library import Library
from holdfast.pipelines.rag.shelves import searched, shown
from holdfast.pipelines.rag.states import standing_of
from holdfast.pipelines.rag.tidying import tidy as tidy_up


@click.group()
@common
def collection() -> None:
    """Collections: documents that are searched together, and how they are made searchable."""


def _settings(command: Any) -> Any:
    options = (
        click.option(
            "--size", type=click.IntRange(1), help="Characters of a chunk, or tokens. [default: 1000; 450 tokens]"
        ),
        click.option("--overlap", type=click.IntRange(0), help="What chunks share. [default: 200; 90 tokens]"),
        click.option(
            "--split", "how", type=click.Choice(["recursive", "tokens", "markdown"]), help="[default: recursive]"
        ),
        click.option("--embedder", help="granite, openai:MODEL, azure:DEPLOYMENT or ollama:MODEL. [default: granite]"),
        click.option("--requests", type=click.FloatRange(0, min_open=True), help="What a service allows in a minute."),
        click.option("--tokens", type=click.FloatRange(0, min_open=True), help="What a service allows in a minute."),
        click.option(
            "--index",
            help="Where vectors are searched: store, qdrant:FOLDER, qdrant:http://HOST:6333. [default: store]",
        ),
        click.option("--reader", type=click.Choice(["local", "azure"]), help="What reads pages. [default: local]"),
        click.option(
            "--at-once", type=click.IntRange(1), help="Documents that a service reads at once, at most. [default: 3]"
        ),
        click.option(
            "--pages-per-commit",
            type=click.IntRange(1),
            help="Pages that one checkpoint is for; a kill makes no more be read again. [default: 1]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@collection.command()
@click.argument("name")
@_settings
@common
@click.pass_obj
def create(asked: Asked, /, *, name: str, **given: Any) -> None:
    """Makes a collection. `holdfast ingest` makes one too, with the usual settings."""
    with store_that_lasts(asked) as store:
        if name in [one.name for one in collections_of(store)]:
            raise Trouble(f"there is a collection {name!r} already; change it with `holdfast collection configure`")
        made = Library(store, name, settings=_with(Settings(), given)).collection
    if asked.json:
        tell(_facts(made))
    else:
        say(f"Collection {name} is made: {_told(made.settings)}")


@collection.command()
@click.argument("name")
@_settings
@common
@click.pass_obj
def configure(asked: Asked, /, *, name: str, **given: Any) -> None:
    """Changes how documents are made searchable. The next `holdfast ingest` makes anew what that changes.

    Until then, and while it does, searches see what there was.
    """
    with store_that_exists(asked, made_by=MADE_BY) as store:
        there = collection_in(store, name)
        changed = Library(store, name, settings=_with(there.settings, given)).collection
        documents = standing_of(store, name).documents
    if asked.json:
        tell(_facts(changed))
    else:
        say(f"Collection {name}: {_told(changed.settings)}")
    if not asked.json and documents:
        _tell_searched(changed)


@collection.command("list")
@common
@click.pass_obj
def list_(asked: Asked, /) -> None:
    """Lists the collections, with how many documents each has."""
    with store_that_exists(asked, made_by=MADE_BY) as store:
        rows = [(one, standing_of(store, one.name)) for one in collections_of(store)]
    if asked.json:
        tell([shown(*row) for row in rows])
        return
    if not rows:
        say("There are no collections yet; `holdfast ingest FOLDER` makes one.")
        return
    cells = [(one.name, count(here.documents, "document"), _told(one.settings)) for one, here in rows]
    for line in table(cells, right=[1]):
        say(line)


@collection.command()
@click.argument("name")
@common
@click.pass_obj
def show(asked: Asked, /, *, name: str) -> None:
    """Shows a collection: its settings, its sources, how far its documents are, and what was made of them."""
    with store_that_exists(asked, made_by=MADE_BY) as store:
        there = collection_in(store, name)
        here = standing_of(store, name)
        made = counters_of(store, name)
    if asked.json:
        tell(shown(there, here, made))
        return
    say(f"{styled(name, bold=True)}: {_told(there.settings)}")
    if here.documents:
        _tell_searched(there)
    for state, number in here.states.items():
        if number:
            say(f"  {state:<11} {number:,}")
    if made.pages_extracted:
        chunks = f"{count(made.chunks_created, 'chunk')} created"
        then = f"{made.chunks_embedded:,} embedded, {made.chunks_indexed:,} indexed"
        say(f"  {count(made.pages_extracted, 'page')} extracted, {chunks}, {then}")
    if made.retry_count:
        say(f"  {count(made.retry_count, 'attempt')} at what is not done")
    for source, number in here.sources.items():
        say(f"  {count(number, 'document')} of {harmless(source)}")


@collection.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@common
@click.pass_obj
def delete(asked: Asked, /, *, name: str, yes: bool) -> None:
    """Takes a collection and all that is found in it out of the index. The files themselves stay."""
    with store_that_exists(asked, made_by=MADE_BY) as store:
        collection_in(store, name)
        here = standing_of(store, name)
        if not yes:
            click.confirm(f"Delete {name} with {count(here.documents, 'document')}?", abort=True, err=True)
        Library(store, name).delete()
    say("{}" if asked.json else f"Collection {name} is gone.")


@collection.command()
@click.argument("name")
@click.argument("source")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@common
@click.pass_obj
def forget(asked: Asked, /, *, name: str, source: str, yes: bool) -> None:
    """Takes all that came from SOURCE out of a collection: a folder that is gone, a URL, what was not meant.

    Sources are named as `holdfast collection show` names them, or as they were ingested. The files themselves stay;
    ingested again, they are new documents.
    """
    with store_that_exists(asked, made_by=MADE_BY) as store:
        collection_in(store, name)
        library = Library(store, name)
        root = library.root_of(source)
        if not yes:
            here = count(standing_of(store, name).sources.get(root, 0), "document")
            click.confirm(f"Take {here} of {harmless(root)} out of {name}?", abort=True, err=True)
        gone = library.forget(root)
    if asked.json:
        tell({"source": root, "documents": gone})
        return
    say(f"{count(gone, 'document')} of {harmless(root)} left the collection {name}.")


@collection.command()
@common
@click.pass_obj
def tidy(asked: Asked, /) -> None:
    """Removes what no collection needs any more, and has Qdrant hold what it should. May run beside everything else.

    Vectors are remembered by what they stand for, so that a file that is moved or comes back is not embedded again.
    This forgets those of contents that no document has. Run it when files that were deleted are not to come back.
    """
    with store_that_exists(asked) as store:
        done = tidy_up(store)
    if asked.json:
        tell(done)
        return
    said = f"{count(done.vectors, 'vector')} and {count(done.documents, 'document')} that were left over are gone"
    swept = f"; points of {count(done.swept, 'document')} were put right" if done.swept else ""
    say(f"{said}{swept}.")
    for trouble in done.left:
        say(f"Left for another time: {trouble}")


def _with(settings: Settings, given: dict[str, Any]) -> Settings:
    said = {name: value for name, value in given.items() if value is not None}
    split = {name: said.pop(name) for name in ("size", "overlap", "how") if name in said}
    rate = {name: said.pop(name) for name in ("requests", "tokens") if name in said}
    said["rate"] = Rate(**asdict(settings.rate) | rate)
    try:
        if "embedder" in said:
            checked(said["embedder"])
        return replace(settings, **said, splitting=settings.splitting.otherwise(**split))
    except ValueError as error:
        raise Trouble(str(error)) from error


def _told(settings: Settings) -> str:
    split = settings.splitting
    unit = "tokens" if split.how == "tokens" else "characters"
    reader = settings.reader if settings.reader == "local" else f"{settings.reader}, {settings.at_once} at once"
    index = f"; vectors in {settings.index}" if settings.index != STORE else ""
    cut = f"{split.how} chunks of {split.size:,} {unit}, {split.overlap:,} shared"
    pages = settings.pages_per_commit
    kept = f", {pages:,} pages per commit" if pages > 1 else ""
    return f"{cut}; {settings.embedder}; {reader}{kept}{index}"


def _tell_searched(one: Collection) -> None:
    """Tells that searches do not go by the settings yet."""
    if one.searched is None:
        return
    if one.searched.embedder != one.settings.embedder:
        say(f"  searched with {one.searched.embedder} until `holdfast ingest` has made the new ones")
    else:
        where, to = one.searched.index, one.settings.index
        say(f"  searched in {where} until `holdfast ingest` has brought all vectors to {to}")


def _facts(one: Collection) -> dict[str, Any]:
    return {"name": one.name, "settings": asdict(one.settings), "searched": searched(one)}
