"""`holdfast search`: asks a collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import click

from holdfast.cli.asked import Asked, Trouble, common
from holdfast.cli.in_collection import MADE_BY, in_collection
from holdfast.cli.libraries import collection_in
from holdfast.cli.pairs import pairs_of
from holdfast.cli.saying import say, styled, tell
from holdfast.cli.stores import store_that_exists
from holdfast.cli.words import harmless
from holdfast.pipelines.rag.collections import kinds_in
from holdfast.pipelines.rag.index import Where
from holdfast.pipelines.rag.kinds import Kind
from holdfast.pipelines.rag.library import Library
from holdfast.pipelines.rag.search import By, Found
from holdfast.pipelines.rag.states import standing_of
from holdfast.stores.protocol import Store


@click.command()
@click.argument("question", nargs=-1, required=True)
@in_collection
@click.option("--limit", "-n", type=click.IntRange(1, 1000), default=10, show_default=True, help="So many answers.")
@click.option("--each", type=click.IntRange(1), help="So many answers of one document, at most.")
@click.option("--document", "key", help="Only this document.")
@click.option("--path", metavar="PATTERN", help="Only documents whose names are like this, with * and ?.")
@click.option("--type", "kind", help="Only documents of this type: pdf, docx, eml, ...")
@click.option("--source", help="Only what came from this folder, file or URL.")
@click.option("--where", "metadata", multiple=True, metavar="NAME=VALUE", help="Only documents with this metadata.")
@click.option("--words", is_flag=True, help="Only by words.")
@click.option("--meaning", is_flag=True, help="Only by meaning.")
@common
@click.pass_obj
def search(
    asked: Asked,
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
    **which: Any,
) -> None:
    """Finds what documents say about QUESTION, by its words and by its meaning.

    An answer says where it stands: the document, the page, and the words around it.
    """
    if words and meaning:
        raise Trouble("--words and --meaning exclude each other; without either, both ways of looking are used")
    by: By | None = "words" if words else "meaning" if meaning else None
    with store_that_exists(asked, made_by=MADE_BY) as store:
        library = Library(store, collection_in(store, collection).name)
        root = library.root_of(source) if source else None
        where = Where(**which, source=root, metadata=pairs_of(metadata, "--where"))
        there = _types(store, collection) if where.kind else []
        _refuse_no_type(where.kind, collection, there)
        found = library.search(" ".join(question), where, limit=limit, each=each, by=by)
        empty = not found and not standing_of(store, collection).documents
    if asked.json:
        tell({"question": " ".join(question), "found": found})
        return
    if not found:
        other = where.kind and where.kind not in there
        why = f": {_none_of(where.kind, collection, there)}" if other else ""
        say(f"Nothing was found{f': {collection} has no documents yet' if empty else why}.")
    for place, one in enumerate(found, 1):
        say(f"{place:2}. {styled(harmless(one.key), bold=True)}{_place(one)}")
        say(f"    {highlighted(one)}")


def _types(store: Store, collection: str) -> list[str]:
    """Gives the types of documents that a collection has."""
    with store.reading() as tx:
        return kinds_in(tx, collection)


def _refuse_no_type(kind: str | None, collection: str, there: Sequence[str]) -> None:
    if kind and kind not in (*there, *get_args(Kind)):
        raise Trouble(_none_of(kind, collection, there))


def _none_of(kind: str | None, collection: str, there: Sequence[str]) -> str:
    return f"{collection} has no documents of type {kind}; it has: {', '.join(there) or 'none yet'}"


def _place(found: Found) -> str:
    page = f", page {found.page}" if found.kind in ("pdf", "pptx", "xlsx", "tiff") or found.page > 1 else ""
    title = f"  {harmless(found.title)}" if found.title and found.title not in found.key else ""
    return page + styled(title, dim=True)


def highlighted(found: Found) -> str:
    """Gives the snippet with the words that were asked for in colour."""
    parts = []
    at = 0
    snippet = harmless(found.snippet)
    for start, end in found.marks:
        parts += [snippet[at:start], styled(snippet[start:end], fg="yellow", bold=True)]
        at = end
    return "".join([*parts, snippet[at:]]).strip()
