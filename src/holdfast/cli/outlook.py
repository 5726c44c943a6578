"""`holdfast plan FOLDER`: what an ingest would do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from holdfast.cli.asked import SOURCE_AWAY, Asked, Trouble
from holdfast.cli.intake import AWAY, told_away
from holdfast.cli.saying import say, styled, tell
from holdfast.cli.stores import store_to_foresee
from holdfast.cli.words import count, harmless, one_line, span
from holdfast.engine.api import opened
from holdfast.pipelines.rag.ingest import KINDS, Looking
from holdfast.pipelines.rag.library import Library
from holdfast.stores.protocol import Store

if TYPE_CHECKING:
    from holdfast.pipelines.rag.outlook import Outlook

SHOWN = 5


def foretell(
    asked: Asked,
    source: str,
    *,
    collection: str,
    price: float | None,
    ignore: Sequence[str],
    flat: bool,
    allow_private: bool,
) -> None:
    """Tells what an ingest of a source would do."""
    from holdfast.pipelines.rag.outlook import foresee

    looking = Looking(ignore=ignore, recursive=not flat, allow_private=allow_private)
    with _store(asked) as store, closing(Library(store, collection, allow_private=allow_private)) as library:
        try:
            outlook = foresee(library, source, looking)
        except AWAY as error:
            raise Trouble(told_away(source, error), code=SOURCE_AWAY) from error
        embedder = library.collection.settings.embedder
    cost = None if price is None else outlook.tokens / 1_000_000 * price
    if asked.json:
        tell(asdict(outlook) | {"embedder": embedder, "cost": cost})
        return
    for line in _told(outlook, embedder, cost):
        say(line)


@contextmanager
def _store(asked: Asked) -> Iterator[Store]:
    """Opens the store, or one that is gone afterwards where there is none: looking does not make one."""
    with store_to_foresee(asked) as store:
        if store is not None:
            yield store
            return
    with TemporaryDirectory(prefix="holdfast-") as folder, opened(f"sqlite:///{folder}/nothing-yet.db") as store:
        yield store


def _told(outlook: Outlook, embedder: str, cost: float | None) -> Iterator[str]:
    kinds = [f"{outlook.changes[kind]:,} {kind}" for kind in KINDS if outlook.changes.get(kind)]
    yield f"{styled(harmless(outlook.source), bold=True)}: {', '.join(kinds) or 'nothing there'}"
    if outlook.documents:
        read = count(outlook.documents - len(outlook.rejected), "file")
        yield f"  to read: {read} with about {count(outlook.pages, 'page')}"
    else:
        yield "  Nothing has to be read."
    for one in outlook.again:
        cut = f"about {count(one.chunks, 'chunk')}" if one.step != "embed" else f"{count(one.chunks, 'chunk')} to embed"
        yield f"  to make again from {one.step} on: {count(one.documents, 'document')}, {cut} ({one.why})"
    if outlook.going_on:
        at = ", ".join(f"{number:,} at {step}" for step, number in outlook.going_on.items())
        yield f"  to go on with, besides: {at}"
    if outlook.documents or outlook.again:
        yield f"  to embed: about {count(outlook.chunks, 'chunk')}, {outlook.tokens:,} tokens, with {embedder}"
        yield f"  time: {_time(outlook)}"
        yield f"  cost: {_cost(embedder, cost)}"
    yield from _left_out("would be rejected", outlook.rejected)
    yield from _left_out("left out", outlook.missed)


def _time(outlook: Outlook) -> str:
    if outlook.seconds is None:
        return "nobody can tell yet; ingest a few documents first"
    basis = (
        "as documents of this collection took so far" if outlook.from_history else "a guess; scanned pages take longer"
    )
    return f"about {span(outlook.seconds)} ({basis})"


def _cost(embedder: str, cost: float | None) -> str:
    if ":" not in embedder or embedder.startswith(("hash:", "ollama:")):
        return "nothing; the model runs here"
    return "name the price of a million tokens with --price" if cost is None else f"about {cost:,.2f}"


def _left_out(why: str, files: Mapping[str, str]) -> Iterator[str]:
    for key, reason in list(files.items())[:SHOWN]:
        yield f"  {why}: {harmless(key)}: {one_line(reason)}"
    if len(files) > SHOWN:
        yield f"  {why}: {len(files) - SHOWN:,} more"
