"""Serve all collections of a store to many threads, for `holdfast serve`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from holdfast.core.errors import StoreError, UnknownDocument
from holdfast.pipelines.rag.collections.library import Library
from holdfast.pipelines.rag.collections.settings import (
    Collection,
    CustomEmbedderRequired,
    NoSuchCollection,
    list_collections,
    no_such_collection,
)
from holdfast.pipelines.rag.collections.status import (
    CollectionCounters,
    CollectionStatus,
    IngestProgress,
    read_counters,
    read_languages,
    read_progress,
    read_status,
)
from holdfast.pipelines.rag.embed.specs import language_of_embedder
from holdfast.pipelines.rag.index import Where
from holdfast.pipelines.rag.index.qdrant.protocol import QdrantError
from holdfast.pipelines.rag.index.registry import Indexes
from holdfast.pipelines.rag.search.original_file import FileNotShown, OriginalFile, read_original
from holdfast.pipelines.rag.search.search import By, SearchResult
from holdfast.pipelines.rag.values import DEFAULT_COLLECTION, DEFAULT_RESULTS
from holdfast.stores.protocol import Store

CACHE_SECONDS = 1.0
"""Seconds for which the list of collections is cached."""


class SearchResultList(Struct, frozen=True):
    """The results of a search.

    Args:
        question: The question.
        found: The results, best first.
    """

    question: str
    found: Sequence[SearchResult]


class Health(Struct, frozen=True):
    """The store can be read."""

    status: Literal["ok"] = "ok"


class CollectionSummary(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A collection for people.

    Args:
        name: The name of the collection.
        settings: Its settings.
        searched: The embedder and the index that searches use. They differ from the settings until all vectors exist.
        documents: The number of documents.
        states: The number of documents in each state.
        sources: The number of documents from each source.
        paused_steps: The steps that are paused for all documents, because a service is away, and why.
        failed_phases: The failed documents by the phase in which they failed.
        counters: Pages, chunks and retries. Only for a single collection, not in a list.
        languages: The number of documents in each language; '' where it is not known. Only for a single collection.
        embedder_language: The only language that the embedder was made for, as a code; '' if there are several.
        budget: The limits of its budget, the prices, and what was spent. Only for a single collection with a budget.
    """

    name: str
    settings: Mapping[str, Any]
    searched: Mapping[str, str]
    documents: int
    states: Mapping[str, int]
    sources: Mapping[str, int]
    paused_steps: Mapping[str, str] = {}
    failed_phases: Mapping[str, int] = {}
    counters: CollectionCounters | None = None
    languages: Mapping[str, int] = {}
    embedder_language: str = ""
    budget: Mapping[str, float] = {}


def summarise_collection(
    collection: Collection,
    status: CollectionStatus,
    counters: CollectionCounters | None = None,
    languages: Mapping[str, int] | None = None,
    budget: Mapping[str, float] | None = None,
) -> CollectionSummary:
    """Return a collection in the form for people."""
    return CollectionSummary(
        name=collection.name,
        settings=msgspec.to_builtins(asdict(collection.settings)),
        searched=searched_vectors(collection),
        documents=status.documents,
        states=status.states,
        sources=status.sources,
        paused_steps=status.paused_steps,
        failed_phases=status.failed_phases,
        counters=counters,
        languages=languages or {},
        budget=budget or {},
        embedder_language=language_of_embedder(collection.settings.embedder),
    )


def searched_vectors(collection: Collection) -> dict[str, str]:
    """Return the embedder and the index that searches of a collection use."""
    settings = collection.searched or collection.settings
    return {"embedder": settings.embedder, "index": settings.index}


class SearchService:
    """Search the collections of a store from many threads. A library is opened for each collection when needed.

    Changes by other processes are seen: new documents at once, new collections and other settings after a second. The
    libraries share the indexes, so the vectors of a model are in memory once.

    All methods raise StoreError if the store or Qdrant cannot be used, and one of `not_found_errors` if the collection
    or the document does not exist.
    """

    not_found_errors: ClassVar[tuple[type[Exception], ...]] = (
        NoSuchCollection,
        UnknownDocument,
        FileNotShown,
        CustomEmbedderRequired,
    )
    """Errors that mean: the collection or the document does not exist."""
    default_collection: ClassVar[str] = DEFAULT_COLLECTION

    def __init__(self, store: Store, *, clock: Callable[[], float] = monotonic) -> None:
        self._store = store
        self._indexes = Indexes(store)
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, Collection] = {}
        self._read_at = float("-inf")
        self._libraries: dict[str, Library] = {}
        with store.transaction() as tx:
            self._indexes.database.create_tables(tx)
            self._indexes.database.require_current_words(tx)

    def names(self) -> Sequence[str]:
        """Return the names of all collections. This is fast."""
        with _as_store_errors():
            return list(self._collections())

    def collections(self) -> Sequence[CollectionSummary]:
        """Return all collections."""
        with _as_store_errors():
            return [
                summarise_collection(found, read_status(self._store, found.name))
                for found in self._collections().values()
            ]

    def collection(self, name: str) -> CollectionSummary:
        """Return one collection."""
        with _as_store_errors():
            return summarise_collection(
                self._find(name),
                read_status(self._store, name),
                read_counters(self._store, name),
                read_languages(self._store, name),
            )

    def document(self, collection: str, source: str, key: str) -> IngestProgress:
        """Return the progress of a document."""
        with _as_store_errors():
            self._find(collection)
            return read_progress(self._store, self._store.document(collection, source, key))

    def original(self, collection: str, source: str, key: str) -> OriginalFile:
        """Return the original file of a document, if it is a file of this machine and has not changed."""
        with _as_store_errors():
            self._find(collection)
            return read_original(self._store, collection, source, key)

    def health(self) -> Health:
        """Check that the store can be read."""
        self.names()
        return Health()

    def search(
        self,
        question: str,
        *,
        collection: str = DEFAULT_COLLECTION,
        limit: int = DEFAULT_RESULTS,
        each: int | None = None,
        by: By | None = None,
        **where: Any,
    ) -> SearchResultList:
        """Search a collection.

        Args:
            question: Words, or a sentence.
            collection: The name of the collection.
            limit: Maximum number of results.
            each: Maximum number of results for each document. None: no maximum.
            by: Search by `words` only or by `meaning` only. None: both.
            **where: The fields of `Where`.
        """
        with _as_store_errors():
            library = self._library(self._find(collection))
            return SearchResultList(question, library.search(question, Where(**where), limit=limit, each=each, by=by))

    def close(self) -> None:
        """Close connections and free memory."""
        self._indexes.close()

    def _find(self, name: str) -> Collection:
        known = self._collections()
        if name not in known:
            raise no_such_collection(name, known)
        return known[name]

    def _collections(self) -> dict[str, Collection]:
        with self._lock:
            if self._clock() - self._read_at >= CACHE_SECONDS:
                with self._store.reading() as tx:
                    self._known = {found.name: found for found in list_collections(tx)}
                self._read_at = self._clock()
            return self._known

    def _library(self, collection: Collection) -> Library:
        """Return the library of a collection. It is opened again if the settings changed."""
        with self._lock:
            library = self._libraries.get(collection.name)
            if library is None or library.collection.settings != collection.settings:
                library = Library(self._store, collection.name, indexes=self._indexes)
                self._libraries[collection.name] = library
            return library


@contextmanager
def _as_store_errors() -> Iterator[None]:
    """Turn errors of the database and of Qdrant into StoreError."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the index cannot be read: {error}") from error
    except QdrantError as error:
        raise StoreError(str(error)) from error
