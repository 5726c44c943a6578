"""`holdfast collection`: create, configure, list, show and delete collections."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import click
from msgspec.structs import asdict, replace

from holdfast.cli.command_group import CommandGroup
from holdfast.cli.context import CliContext, CliError
from holdfast.cli.options import common_options, option_group, yes_option
from holdfast.cli.output import print_json, print_line, styled
from holdfast.cli.selection import find_collection, list_collections
from holdfast.cli.store_access import open_existing_store, open_persistent_store
from holdfast.core.formatting import format_count, format_table, one_line, printable
from holdfast.pipelines.rag.collections.deletion import collect_garbage
from holdfast.pipelines.rag.collections.library import Library
from holdfast.pipelines.rag.collections.rebuild import rebuild_index
from holdfast.pipelines.rag.collections.remarks import Remark, describe_empty, read_remarks
from holdfast.pipelines.rag.collections.settings import Collection, CollectionSettings
from holdfast.pipelines.rag.collections.spending import describe_spending, read_budget
from holdfast.pipelines.rag.collections.status import read_counters, read_languages, read_status
from holdfast.pipelines.rag.embed import check_spec
from holdfast.pipelines.rag.embed.rate_limiter import RateLimit
from holdfast.pipelines.rag.embed.specs import language_of_embedder
from holdfast.pipelines.rag.index.registry import STORE
from holdfast.pipelines.rag.search.service import searched_vectors, summarise_collection
from holdfast.sources import SourceRefused


@click.group(cls=CommandGroup)
@common_options
def collection() -> None:
    """Create, show, change and delete collections.

    A collection is a number of documents that are searched together. `holdfast ingest` creates one if needed.
    """


DEFAULTS = CollectionSettings()
DEFAULT_TOKENS = DEFAULTS.splitting.with_changes(how="tokens")

settings_options = option_group(
    click.option(
        "--size",
        type=click.IntRange(1),
        help="Size of a chunk in characters, or in tokens with --split tokens. "
        f"[default: {DEFAULTS.splitting.size}; {DEFAULT_TOKENS.size} tokens]",
    ),
    click.option(
        "--overlap",
        type=click.IntRange(0),
        help="How much neighbouring chunks share. "
        f"[default: {DEFAULTS.splitting.overlap}; {DEFAULT_TOKENS.overlap} tokens]",
    ),
    click.option(
        "--split",
        "how",
        type=click.Choice(["recursive", "tokens", "markdown"]),
        help=f"How text is split into chunks. [default: {DEFAULTS.splitting.how}]",
    ),
    click.option(
        "--embedder",
        help="Embedding model: granite, openai:MODEL, azure:DEPLOYMENT or ollama:MODEL. "
        f"[default: {DEFAULTS.embedder}]",
    ),
    click.option(
        "--requests",
        type=click.FloatRange(0, min_open=True),
        help="Maximum number of requests per minute to the embedding service.",
    ),
    click.option(
        "--tokens",
        type=click.FloatRange(0, min_open=True),
        help="Maximum number of tokens per minute to the embedding service.",
    ),
    click.option(
        "--index",
        help="Where vectors are kept and searched: store, qdrant:FOLDER or qdrant:http://HOST:6333. "
        f"[default: {DEFAULTS.index}]",
    ),
    click.option(
        "--reader",
        type=click.Choice(["local", "azure"]),
        help=f"What extracts text: this machine, or Azure Document Intelligence. [default: {DEFAULTS.reader}]",
    ),
    click.option(
        "--ocr-languages",
        metavar="NAMES",
        help="Languages of scanned pages and pictures, by Tesseract's names: eng,deu. "
        f"[default: {','.join(DEFAULTS.ocr_languages)}]",
    ),
    click.option(
        "--at-once",
        type=click.IntRange(1),
        help="Maximum number of documents that the reading service gets at the same time. "
        f"[default: {DEFAULTS.at_once}]",
    ),
    click.option(
        "--pages-per-commit",
        type=click.IntRange(1),
        help=f"Commit after this many pages. A crash re-reads at most as many. [default: {DEFAULTS.pages_per_commit}]",
    ),
)


@collection.command()
@click.argument("name")
@settings_options
@common_options
@click.pass_obj
def create(cli: CliContext, /, *, name: str, **given: Any) -> None:
    """Create a collection. `holdfast ingest` creates one too, with the default settings."""
    with open_persistent_store(cli) as store:
        if name in [known.name for known in list_collections(store)]:
            raise CliError(f"the collection {name!r} exists already; change it with `holdfast collection configure`")
        created = Library(store, name, settings=_with_changes(CollectionSettings(), given)).collection
    if cli.json:
        print_json(_as_json(created))
    else:
        print_line(f"Created collection {name}: {_format_settings(created.settings)}")


@collection.command()
@click.argument("name")
@settings_options
@common_options
@click.pass_obj
def configure(cli: CliContext, /, *, name: str, **given: Any) -> None:
    """Change the settings of a collection. The next `holdfast ingest` redoes what they affect.

    Until that is finished, searches use the old chunks and vectors.
    """
    with open_existing_store(cli, created_by="ingest") as store:
        known = find_collection(store, name)
        changed = Library(store, name, settings=_with_changes(known.settings, given)).collection
        documents = read_status(store, name).documents
    if cli.json:
        print_json(_as_json(changed))
        return
    print_line(f"Collection {name}: {_format_settings(changed.settings)}")
    if documents:
        _print_pending_switch(cli, changed)


@collection.command("list")
@common_options
@click.pass_obj
def list_(cli: CliContext, /) -> None:
    """List the collections, with the number of documents of each."""
    with open_existing_store(cli, created_by="ingest") as store:
        rows = [(known, read_status(store, known.name)) for known in list_collections(store)]
    if cli.json:
        print_json([summarise_collection(*row) for row in rows])
        return
    if not rows:
        print_line(cli.with_program("There are no collections yet; `holdfast ingest FOLDER` creates one."))
        return
    cells = [
        (known.name, format_count(status.documents, "document"), _format_settings(known.settings))
        for known, status in rows
    ]
    for line in format_table(cells, right=[1]):
        print_line(line)


@collection.command()
@click.argument("name")
@click.option("--empty", is_flag=True, help="List the documents that are done and have no text to search, and why.")
@common_options
@click.pass_obj
def show(cli: CliContext, /, *, name: str, empty: bool) -> None:
    """Show a collection: its settings, documents by state, sources, and counts of pages and chunks."""
    with open_existing_store(cli, created_by="ingest") as store:
        known = find_collection(store, name)
        remarks = read_remarks(store, name)
        if empty:
            _print_empty(cli, [remark for remark in remarks if remark.code])
            return
        status = read_status(store, name)
        counters = read_counters(store, name)
        languages = read_languages(store, name)
        limits, spent = read_budget(store, name)
    if cli.json:
        budget = {name: value for name, value in asdict(limits).items() if value is not None} if limits else {}
        budget |= {f"spent_{name}": value for name, value in asdict(spent).items()} if limits else {}
        print_json(summarise_collection(known, status, counters, languages, budget))
        return
    print_line(f"{styled(name, bold=True)}: {_format_settings(known.settings)}")
    if status.documents:
        _print_pending_switch(cli, known)
    for state, number in status.states.items():
        failed = f"  ({_format_phases(status.failed_phases)})" if state == "FAILED" else ""
        print_line(f"  {state:<11} {number:,}{failed}")
    for step, reason in status.paused_steps.items():
        print_line(f"  {step} is paused for all documents: {one_line(reason)}; more: holdfast status {name}", fg="red")
    if counters.pages_extracted:
        pages, chunks = format_count(counters.pages_extracted, "page"), format_count(counters.chunks_created, "chunk")
        vectors = f"{counters.chunks_embedded:,} embedded, {counters.chunks_indexed:,} indexed"
        print_line(f"  {pages} extracted, {chunks} created, {vectors}")
    _print_remarks(remarks, name)
    if budget_text := describe_spending(limits, spent):
        print_line(f"  budget: {budget_text}")
    if counters.retry_count:
        print_line(f"  {format_count(counters.retry_count, 'retry', 'retries')} of documents")
    if languages:
        print_line(f"  languages: {_format_languages(languages)}")
    if language_of_embedder(known.settings.embedder) == "en":
        print_line(f"  {known.settings.embedder} is a model for English; other languages are found by their words")
    for source, number in status.sources.items():
        print_line(f"  {format_count(number, 'document')} of {printable(source)}")


def _print_remarks(remarks: Sequence[Remark], name: str) -> None:
    if without_text := sum(bool(remark.code) for remark in remarks):
        print_line(f"  {describe_empty(without_text, name)}")
    if skipped := sum(remark.skipped for remark in remarks):
        print_line(f"  {format_count(skipped, 'part')} of messages left out: signatures, sounds, small pictures")


def _print_empty(cli: CliContext, remarks: Sequence[Remark]) -> None:
    if cli.json:
        print_json([asdict(remark) for remark in remarks])
        return
    for remark in remarks:
        print_line(f"{printable(remark.key)}  {remark.code}: {one_line(remark.reason)}")
    if not remarks:
        print_line("All documents that are done have text.")


@collection.command()
@click.argument("name")
@yes_option
@common_options
@click.pass_obj
def delete(cli: CliContext, /, *, name: str, yes: bool) -> None:
    """Delete a collection with all its documents from the store. The files themselves stay."""
    with open_existing_store(cli, created_by="ingest") as store:
        find_collection(store, name)
        documents = format_count(read_status(store, name).documents, "document")
        if not yes:
            click.confirm(f"Delete {name} with {documents}?", abort=True, err=True)
        Library(store, name).delete()
    print_line("{}" if cli.json else f"Deleted collection {name}.")


@collection.command()
@click.argument("name")
@click.argument("source", metavar="SOURCE|KEY")
@click.option("--document", metavar="KEY", help="Remove only this document, and the attachments of a message.")
@yes_option
@common_options
@click.pass_obj
def forget(cli: CliContext, /, *, name: str, source: str, document: str | None, yes: bool) -> None:
    """Remove all documents of SOURCE from a collection, or one document.

    KEY is the name of one document, as a search shows it. If several sources have it, name the source, and the document
    with --document.

    Use it for a folder that no longer exists, or for a wrong URL. SOURCE is written as `holdfast collection show` shows
    it, or as it was ingested. The files themselves stay. If they
    are ingested again, they are new documents.
    """
    with open_existing_store(cli, created_by="ingest") as store:
        find_collection(store, name)
        library = Library(store, name)
        root, document = _find_forgotten(library, source, document)
        if not yes:
            documents = format_count(read_status(store, name).sources.get(root, 0), "document")
            what = printable(document) if document else documents
            click.confirm(f"Remove {what} of {printable(root)} from {name}?", abort=True, err=True)
        removed = library.forget(root, document=document)
    if cli.json:
        print_json({"source": root, "documents": removed})
        return
    print_line(f"Removed {format_count(removed, 'document')} of {printable(root)} from the collection {name}.")


def _find_forgotten(library: Library, source: str, document: str | None) -> tuple[str, str | None]:
    """Return the source and the document that are meant by a source, or by the key of a document alone."""
    try:
        return library.find_source_root(source), document
    except SourceRefused:
        roots = [] if document else library.find_sources_of(source)
        if len(roots) > 1:
            known = ", ".join(map(printable, roots))
            raise CliError(f"{source} is in several sources: {known}. Name one, and --document {source}") from None
        if not roots:
            raise
        return roots[0], source


@collection.command()
@common_options
@click.pass_obj
def tidy(cli: CliContext, /) -> None:
    """Delete data that no collection needs, and repair the points in Qdrant. Other commands can run at the same time.

    Vectors are stored by the content of their chunks, so that a file that is moved or restored is not embedded again.
    This command deletes the vectors of content that no document has. Run it if deleted files will not come back.
    """
    with open_existing_store(cli) as store:
        done = collect_garbage(store)
    if cli.json:
        print_json(done)
        return
    removed = f"{format_count(done.vectors, 'unused vector')} and {format_count(done.documents, 'unused document')}"
    repaired = f"; repaired the points of {format_count(done.swept, 'document')} in Qdrant" if done.swept else ""
    print_line(f"Removed {removed}{repaired}.")
    for problem in done.left:
        print_line(f"Not done; run the command again later: {problem}")


@collection.command()
@common_options
@click.pass_obj
def rebuild(cli: CliContext, /) -> None:
    """Make the words of all collections again, from the stored texts. An upgrade of holdfast may ask for it.

    No file is read, and no vector is made. If it is interrupted, run it again: it continues.
    """
    with open_existing_store(cli) as store:
        documents = rebuild_index(store)
    if cli.json:
        print_json({"documents": documents})
    elif documents:
        print_line(f"Made the words of {format_count(documents, 'document')} again.")
    else:
        print_line("Nothing to do: the words were made by this release.")


def _with_changes(settings: CollectionSettings, given: dict[str, Any]) -> CollectionSettings:
    """Return the settings with the options that were given."""
    changes = {name: value for name, value in given.items() if value is not None}
    split = {name: changes.pop(name) for name in ("size", "overlap", "how") if name in changes}
    rate = {name: changes.pop(name) for name in ("requests", "tokens") if name in changes}
    if "ocr_languages" in changes:
        changes["ocr_languages"] = tuple(re.split(r"[\s,+]+", changes["ocr_languages"].strip()))
    changes["rate"] = RateLimit(**asdict(settings.rate) | rate)
    try:
        if "embedder" in changes:
            check_spec(changes["embedder"])
        return replace(settings, **changes, splitting=settings.splitting.with_changes(**split))
    except ValueError as error:
        raise CliError(str(error)) from error


def _format_settings(settings: CollectionSettings) -> str:
    split = settings.splitting
    unit = "tokens" if split.how == "tokens" else "characters"
    reader = settings.reader if settings.reader == "local" else f"{settings.reader}, {settings.at_once} at once"
    index = f"; vectors in {settings.index}" if settings.index != STORE else ""
    chunks = f"{split.how} chunks of {split.size:,} {unit}, {split.overlap:,} shared"
    pages = f", {settings.pages_per_commit:,} pages per commit" if settings.pages_per_commit > 1 else ""
    is_default = settings.ocr_languages == DEFAULTS.ocr_languages
    ocr = "" if is_default else f", OCR in {', '.join(settings.ocr_languages)}"
    return f"{chunks}; {settings.embedder}; {reader}{ocr}{pages}{index}"


def _format_languages(languages: Mapping[str, int]) -> str:
    """Return the number of documents in each language."""
    return ", ".join(f"{number:,} {language or 'not known'}" for language, number in languages.items())


def _format_phases(phases: Mapping[str, int]) -> str:
    """Return in which phases documents failed."""
    return ", ".join(f"{number:,} {phase}" for phase, number in phases.items())


def _print_pending_switch(cli: CliContext, collection: Collection) -> None:
    """Print what is searched if the new settings are not in use yet."""
    old, new = collection.searched, collection.settings
    if old is None:
        return
    if old.embedder != new.embedder:
        text = f"  searches use {old.embedder} until `holdfast ingest` has made all new vectors"
    else:
        text = f"  searches use {old.index} until `holdfast ingest` has copied all vectors to {new.index}"
    print_line(cli.with_program(text))


def _as_json(collection: Collection) -> dict[str, Any]:
    settings = asdict(collection.settings)
    return {"name": collection.name, "settings": settings, "searched": searched_vectors(collection)}
