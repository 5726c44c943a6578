"""All collections of a store, kept ready to answer many questions at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, ClassVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from holdfast.core.errors import StoreError, UnknownDocument
from holdfast.pipelines.rag.collections import Collection, NoSuchCollection, OwnEmbedder, collections, no_such
from holdfast.pipelines.rag.counters import Counters, counters_of
from holdfast.pipelines.rag.index import Where
from holdfast.pipelines.rag.index.choice import Indexes
from holdfast.pipelines.rag.index.qdrant.points import QdrantTrouble
from holdfast.pipelines.rag.library import Library
from holdfast.pipelines.rag.search import By, Found
from holdfast.pipelines.rag.states import Progress, Standing, progress_of, standing_of
from holdfast.stores.protocol import Store

FRESH = 1.0
"""For so many seconds it is known which collections there are."""


class Answer(Struct, frozen=True):
    """A question, and what was found."""

    question: str
    found: Sequence[Found]


class Shown(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A collection as people are shown it: its settings, its documents by state, and by where they came from.

    `searched` says whose vectors are searched and where: those of the settings only when all are there. `counters` are
    told of one collection, not in a list of all.
    """

    name: str
    settings: Mapping[str, Any]
    searched: Mapping[str, str]
    documents: int
    states: Mapping[str, int]
    sources: Mapping[str, int]
    counters: Counters | None = None


def shown(collection: Collection, here: Standing, counters: Counters | None = None) -> Shown:
    """Gives a collection as people are shown it."""
    return Shown(
        name=collection.name,
        settings=msgspec.to_builtins(asdict(collection.settings)),
        searched=searched(collection),
        documents=here.documents,
        states=here.states,
        sources=here.sources,
        counters=counters,
    )


def searched(collection: Collection) -> dict[str, str]:
    """Gives whose vectors of a collection are searched, and where."""
    by = collection.searched or collection.settings
    return {"embedder": by.embedder, "index": by.index}


class Shelves:
    """One library for each collection, opened when it is first asked for. Made for many threads.

    What other processes do is seen: new documents at once, new collections and other settings after a moment. They
    share the indexes, so the vectors of a model are in memory once.
    """

    absent: ClassVar[tuple[type[Exception], ...]] = (NoSuchCollection, UnknownDocument, OwnEmbedder)
    """What is raised when something is asked for that is not there."""
    shapes: ClassVar[tuple[type[Struct], ...]] = (Answer, Shown, Progress)
    """What is answered."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = monotonic) -> None:
        self._store = store
        self._indexes = Indexes(store)
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, Collection] = {}
        self._looked_at = float("-inf")
        self._libraries: dict[str, Library] = {}
        with store.transaction() as tx:
            self._indexes.ground.prepare(tx)

    def names(self) -> Sequence[str]:
        """Gives the names of all collections. Cheap to ask."""
        with _in_our_words():
            return list(self._collections())

    def collections(self) -> Sequence[Shown]:
        """Gives all collections."""
        with _in_our_words():
            return [shown(one, standing_of(self._store, one.name)) for one in self._collections().values()]

    def collection(self, name: str) -> Shown:
        """Gives one collection."""
        with _in_our_words():
            return shown(self._one(name), standing_of(self._store, name), counters_of(self._store, name))

    def document(self, collection: str, source: str, key: str) -> Progress:
        """Tells how far a document is."""
        with _in_our_words():
            self._one(collection)
            return progress_of(self._store, self._store.standing(collection, source, key))

    def search(
        self,
        collection: str,
        question: str,
        *,
        limit: int = 10,
        each: int | None = None,
        by: By | None = None,
        **where: Any,
    ) -> Answer:
        """Answers a question from one collection; `where` are the fields of `Where`."""
        with _in_our_words():
            library = self._library(self._one(collection))
            return Answer(question, library.search(question, Where(**where), limit=limit, each=each, by=by))

    def close(self) -> None:
        """Lets go of connections and memory."""
        self._indexes.close()

    def _one(self, name: str) -> Collection:
        known = self._collections()
        if name not in known:
            raise no_such(name, known)
        return known[name]

    def _collections(self) -> dict[str, Collection]:
        with self._lock:
            if self._clock() - self._looked_at >= FRESH:
                with self._store.reading() as tx:
                    self._known = {one.name: one for one in collections(tx)}
                self._looked_at = self._clock()
            return self._known

    def _library(self, collection: Collection) -> Library:
        """Gives the library of a collection, opened anew when its settings are others than they were."""
        with self._lock:
            library = self._libraries.get(collection.name)
            if library is None or library.collection.settings != collection.settings:
                library = Library(self._store, collection.name)
                library.indexes = self._indexes
                self._libraries[collection.name] = library
            return library


@contextmanager
def _in_our_words() -> Iterator[None]:
    """Makes trouble of the store out of what an index raises, in its database or elsewhere."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"the index cannot be read: {error}") from error
    except QdrantTrouble as trouble:
        raise StoreError(str(trouble)) from trouble
