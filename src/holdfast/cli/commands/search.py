"""`holdfast search`: search a collection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args

import click

from holdfast.cli.context import CliContext, CliError
from holdfast.cli.options import collection_option, common_options, parse_pairs
from holdfast.cli.output import only_prints, print_json, print_line, styled
from holdfast.cli.selection import find_collection
from holdfast.cli.store_access import open_existing_store
from holdfast.core.formatting import printable
from holdfast.pipelines.rag.collections.library import Library
from holdfast.pipelines.rag.collections.settings import list_file_types
from holdfast.pipelines.rag.collections.status import read_status
from holdfast.pipelines.rag.extract.file_type import FileType
from holdfast.pipelines.rag.index import Where
from holdfast.pipelines.rag.search.search import By, SearchResult
from holdfast.pipelines.rag.values import DEFAULT_RESULTS
from holdfast.stores.protocol import Store


@click.command()
@click.argument("question", nargs=-1, required=True)
@collection_option
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1, 1000),
    default=DEFAULT_RESULTS,
    show_default=True,
    help="Maximum number of results.",
)
@click.option("--each", type=click.IntRange(1), help="Maximum number of results from one document.")
@click.option("--document", "key", help="Only this document.")
@click.option("--path", metavar="PATTERN", help="Only documents whose name matches this pattern, with * and ?.")
@click.option("--type", "kind", help="Only documents of this type: pdf, docx, eml, ...")
@click.option("--source", help="Only documents from this folder, file or URL.")
@click.option(
    "--where", "metadata", multiple=True, metavar="NAME=VALUE", help="Only documents with this metadata. Repeatable."
)
@click.option("--words", is_flag=True, help="Search only by words.")
@click.option("--meaning", is_flag=True, help="Search only by meaning.")
@common_options
@click.pass_obj
@only_prints
def search(
    cli: CliContext,
    /,
    *,
    question: tuple[str, ...],
    collection: str,
    limit: int,
    each: int | None,
    source: str | None,
    metadata: tuple[str, ...],
    words: bool,
    meaning: bool,
    **filters: Any,
) -> None:
    """Find what documents say about a question.

    The documents are searched by the words of QUESTION and by its meaning. Each result shows the document, the page,
    and the text around the words.

    QUESTION may have "words in this order", a -word that results must not have, and title:, path: and type: to select
    documents. Put all of it in single quotes.
    """
    if words and meaning:
        raise CliError("--words and --meaning exclude each other; without them, both kinds of search are used")
    by: By | None = "words" if words else "meaning" if meaning else None
    with open_existing_store(cli, created_by="ingest") as store:
        library = Library(store, find_collection(store, collection).name)
        root = library.find_source_root(source) if source else None
        where = Where(**filters, source=root, metadata=parse_pairs(metadata, "--where"))
        types = _file_types(store, collection) if where.kind else []
        _require_type(where.kind, collection, types)
        found = library.search(" ".join(question), where, limit=limit, each=each, by=by)
        is_empty = not found and not read_status(store, collection).documents
    if cli.json:
        print_json({"question": " ".join(question), "found": found})
    elif found:
        for line in _format_results(found):
            print_line(line)
    elif is_empty:
        print_line(f"Nothing was found: {collection} has no documents yet.")
    elif where.kind and where.kind not in types:
        print_line(f"Nothing was found: {_no_such_type(where.kind, collection, types)}.")
    else:
        print_line("Nothing was found.")


def _file_types(store: Store, collection: str) -> list[str]:
    with store.reading() as tx:
        return list_file_types(tx, collection)


def _require_type(kind: str | None, collection: str, types: Sequence[str]) -> None:
    """Raise CliError for a type that holdfast cannot read. Another type that the collection lacks finds nothing."""
    if kind and kind not in (*types, *get_args(FileType)):
        raise CliError(_no_such_type(kind, collection, types))


def _no_such_type(kind: str, collection: str, types: Sequence[str]) -> str:
    return f"{collection} has no documents of type {kind}; it has: {', '.join(types) or 'none yet'}"


def _format_results(found: Sequence[SearchResult]) -> Iterator[str]:
    for number, hit in enumerate(found, 1):
        page = f", page {hit.page}" if hit.shows_page else ""
        title = f"  {printable(hit.title)}" if hit.title and hit.title not in hit.key else ""
        yield f"{number:2}. {styled(printable(hit.key), bold=True)}{page}{styled(title, dim=True)}"
        yield f"    {_highlight(hit)}"


def _highlight(hit: SearchResult) -> str:
    """Return the snippet with the words of the question in colour."""
    parts = []
    at = 0
    snippet = printable(hit.snippet)
    for start, end in hit.marks:
        parts += [snippet[at:start], styled(snippet[start:end], fg="yellow", bold=True)]
        at = end
    return "".join([*parts, snippet[at:]]).strip()
