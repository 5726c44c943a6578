"""Collections: documents that are searched together, and how they are made searchable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.core.errors import HoldfastError
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.dialects import run
from holdfast.pipelines.rag.embedders import OWN, READS
from holdfast.pipelines.rag.embedders.rate import Rate
from holdfast.pipelines.rag.index import Model, Name, spaces
from holdfast.pipelines.rag.index.choice import STORE, settled
from holdfast.pipelines.rag.model import DEFAULT
from holdfast.pipelines.rag.splitters import Splitting

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class NoSuchCollection(HoldfastError):
    """The collection does not exist. The message names those that do."""


class Unread(HoldfastError):
    """Chunks would be longer than what their embedder reads of them. The message has both numbers."""


class OwnEmbedder(HoldfastError):
    """A collection's vectors are of an embedder that only somebody's own code has. The message names it."""


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the documents of a collection are made searchable.

    splitting  how pages are cut into chunks
    embedder   which model gives vectors: granite, openai:MODEL, azure:DEPLOYMENT, ollama:MODEL, hash:64; own:NAME is
               one that a library was given, and that only code can give again
    reader     what reads the pages: the parsers of this package, or Azure Document Intelligence
    at_once    how many documents a service that reads pages has at once; all workers of the store keep to it together
    pages_per_commit  how many pages are kept with one checkpoint: what a kill makes be read again, at most
    rate       what a service behind the embedder allows in a minute; all workers of the store keep to it together
    index      where vectors are searched: in the store, qdrant:FOLDER (its engine, in the process that asks) or
               qdrant:http://HOST:6333 (a server). Words, and what is seen, are the store's in any case
    """

    splitting: Splitting = Splitting()
    embedder: str = "granite"
    reader: Literal["local", "azure"] = "local"
    at_once: int = 3
    pages_per_commit: int = 1
    rate: Rate = Rate()
    index: str = STORE

    def __post_init__(self) -> None:
        force_setattr(self, "index", settled(self.index))


class Collection(Struct, frozen=True):
    """A name and its settings. It is a pipeline of that name; what came from one source is a batch of it.

    `searched` are the settings by whose embedder and index it is searched, while vectors of another embedder are being
    made or brought to another index.
    """

    name: str = DEFAULT
    settings: Settings = Settings()
    searched: Settings | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise HoldfastError(
                f"{self.name!r} cannot be a collection's name: small letters, digits, - and _, at most 64 of them"
            )


_settings = msgspec.json.Decoder(Settings)


def create(tx: Tx, collection: Collection) -> None:
    """Makes a collection, unless it exists."""
    _refuse_unread(collection.settings)
    statement = "insert into rag_collection (name, settings) values (?, ?) on conflict (name) do nothing"
    run(tx, statement, collection.name, _written(collection.settings))


def configure(tx: Tx, collection: Collection) -> None:
    """Gives a collection other settings. What they make of its documents is made anew by the next ingest.

    With another embedder or index, searches go on as they were until all vectors are made, and are there.
    """
    before = collection_or_none(tx, collection.name)
    searched = (before.searched or before.settings) if before else None
    new = collection.settings
    if before is None or (before.settings.splitting, before.settings.embedder) != (new.splitting, new.embedder):
        _refuse_unread(new)
    if searched is not None and (searched.embedder, searched.index) == (new.embedder, new.index):
        searched = None
        spaces.abandon(tx, collection.name, but_place=new.index)
    statement = "update rag_collection set settings = ?, searched = ? where name = ?"
    run(tx, statement, _written(new), _written(searched) if searched else None, collection.name)


def _refuse_unread(settings: Settings) -> None:
    """Refuses chunks whose ends would not be in their vectors. How many tokens characters are, only each text tells."""
    split, reads = settings.splitting, READS.get(settings.embedder)
    if reads is not None and split.how == "tokens" and split.size > reads:
        raise Unread(
            f"chunks of {split.size:,} tokens are longer than the {reads:,} that {settings.embedder} reads: what comes "
            f"after them could not be found by its meaning. Say a size of at most {reads:,}"
        )


def swap(tx: Tx, collection: Collection, model: Model) -> None:
    """From now on the vectors of the collection's own embedder are searched, in its own index. Others are given up.

    If it has other settings by now, nothing happens: their vectors may not be there.
    """
    if tx.dialect == "postgresql":
        run(tx, "select 1 from rag_collection where name = ? for update", collection.name)
    there = collection_or_none(tx, collection.name)
    if there is None or there.settings != collection.settings:
        return
    run(tx, "update rag_collection set searched = null where name = ?", collection.name)
    spaces.abandon(tx, collection.name, but_place=collection.settings.index, but_model=model.name)


def remove(tx: Tx, name: str) -> None:
    """Removes a collection whose documents have left the index."""
    spaces.abandon(tx, name)
    run(tx, "delete from rag_document where collection_id = (select id from rag_collection where name = ?)", name)
    run(tx, "delete from rag_collection where name = ?", name)


def collections(tx: Tx) -> Sequence[Collection]:
    """Gives all collections, by name."""
    rows = tx.execute("select name, settings, searched from rag_collection order by name").fetchall()
    return [
        Collection(name, _read(settings), None if searched is None else _searched(searched))
        for name, settings, searched in rows
    ]


def entries(tx: Tx, name: str, *, source: str | None = None, limit: int) -> Sequence[Name]:
    """Gives documents that the index has of a collection, or only of one source."""
    statement = """
    select d.source, d.key
      from rag_document d
      join rag_collection c on c.id = d.collection_id
     where c.name = ?
       and d.source = coalesce(?, d.source)
       and d.key is not null
     limit ?
    """
    return [Name(name, *place) for place in run(tx, statement, name, source, limit).fetchall()]


def kinds_in(tx: Tx, name: str) -> list[str]:
    """Gives the types of the documents that the index has of a collection, by name."""
    statement = """
    select distinct d.kind
      from rag_document d
      join rag_collection c on c.id = d.collection_id
     where c.name = ?
       and d.key is not null
       and d.kind <> ''
     order by d.kind
    """
    return [kind for (kind,) in run(tx, statement, name).fetchall()]


def _written(settings: Settings) -> str:
    return msgspec.json.encode(settings).decode()


def _read(settings: object) -> Settings:
    return _settings.decode(settings) if isinstance(settings, str) else msgspec.convert(settings, Settings)


def _searched(written: str) -> Settings:
    """Reads by which settings a collection is searched; at first that was only the name of an embedder."""
    return _settings.decode(written) if written.startswith("{") else Settings(embedder=written)


def collection_or_none(tx: Tx, name: str) -> Collection | None:
    """Gives a collection, if there is one of this name."""
    return next((one for one in collections(tx) if one.name == name), None)


def no_such(name: str, known: Iterable[str]) -> NoSuchCollection:
    """Says that a collection is not there, and which are."""
    there = ", ".join(known) or "none yet; holdfast ingest FOLDER makes one"
    return NoSuchCollection(f"there is no collection {name!r}; there are: {there}")


def not_here(collection: str, spec: str) -> OwnEmbedder:
    """Says that an embedder of somebody's own is needed, and what can be done without it."""
    return OwnEmbedder(
        f"the collection {collection!r} was made with the embedder {spec.removeprefix(OWN)!r} of somebody's own code: "
        "only Python code that has it, and says Library(..., embedder=...), can search it by meaning or ingest into "
        "it. By words alone (--words) it can be searched without"
    )
