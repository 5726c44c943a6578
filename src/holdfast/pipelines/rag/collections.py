"""Collections: documents that are searched together, and how they are made searchable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.core.errors import HoldfastError
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.splitters import Splitting

DEFAULT = "documents"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class NoSuchCollection(HoldfastError):
    """The collection does not exist. The message names those that do."""


class Settings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the documents of a collection are made searchable.

    splitting  how pages are cut into chunks
    embedder   which model gives vectors: granite, openai:MODEL, azure:DEPLOYMENT, ollama:MODEL, hash:64
    reader     what reads the pages: the parsers of this package, or Azure Document Intelligence
    """

    splitting: Splitting = Splitting()
    embedder: str = "granite"
    reader: Literal["local", "azure"] = "local"


class Collection(Struct, frozen=True):
    """A name and its settings. It is a pipeline of that name; what came from one source is a batch of it."""

    name: str = DEFAULT
    settings: Settings = Settings()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise HoldfastError(
                f"{self.name!r} cannot be a collection's name: small letters, digits, - and _, at most 64 of them"
            )


_settings = msgspec.json.Decoder(Settings)


def create(tx: Tx, collection: Collection) -> None:
    """Makes a collection, unless it exists."""
    _write(
        tx,
        "insert into rag_collection (settings, name, created_at) values (?, ?, {now}) on conflict do nothing",
        collection,
    )


def configure(tx: Tx, collection: Collection) -> None:
    """Gives a collection other settings. What they make of its documents is made anew by the next ingest."""
    _write(tx, "update rag_collection set settings = ? where name = ?", collection)


def _write(tx: Tx, statement: str, collection: Collection) -> None:
    lite = tx.dialect == "sqlite"
    text = statement.format(now="unixepoch()" if lite else "now()")
    settings = msgspec.json.encode(collection.settings).decode()
    tx.execute(text if lite else text.replace("?", "%s"), (settings, collection.name))


def collections(tx: Tx) -> Sequence[Collection]:
    """Gives all collections, by name."""
    rows = tx.execute("select name, settings from rag_collection order by name").fetchall()
    return [Collection(name, _read(settings)) for name, settings in rows]


def _read(settings: object) -> Settings:
    return _settings.decode(settings) if isinstance(settings, str) else msgspec.convert(settings, Settings)


def collection_or_none(tx: Tx, name: str) -> Collection | None:
    """Gives a collection, if there is one of this name."""
    return next((one for one in collections(tx) if one.name == name), None)


def collection_named(tx: Tx, name: str) -> Collection:
    """Gives a collection, or says which there are."""
    known = collections(tx)
    for one in known:
        if one.name == name:
            return one
    there = ", ".join(one.name for one in known) or "none yet; holdfast ingest FOLDER makes one"
    raise NoSuchCollection(f"there is no collection {name!r}; there are: {there}")
