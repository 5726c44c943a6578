"""An open collection: its settings, with the embedder and the index that they name, and how it is searched."""

from __future__ import annotations

from functools import cached_property

from msgspec.structs import replace

from holdfast.pipelines.rag.collections import jobs, metadata, remarks, spending
from holdfast.pipelines.rag.collections.settings import (
    Collection,
    CollectionSettings,
    configure_collection,
    create_collection,
    find_collection,
    list_collections,
    no_such_collection,
    switch_search,
)
from holdfast.pipelines.rag.embed import Embedder
from holdfast.pipelines.rag.embed.registry import Embedders, model_of
from holdfast.pipelines.rag.http_errors import ServiceError
from holdfast.pipelines.rag.index import EmbeddingModel, Index
from holdfast.pipelines.rag.index.registry import Indexes
from holdfast.pipelines.rag.search.search import Search
from holdfast.stores.protocol import Store


class OpenCollection:
    """A collection of a store, created or configured if necessary.

    While the embedder or the index changes, a collection has two settings. Documents are processed by `settings`. The
    collection is searched by `searched` until all new vectors are in place.

    Attributes:
        store: The store.
        indexes: The indexes of the store.
        embedders: The embedders that this process can create.
        collection: The name and settings.
    """

    def __init__(
        self, store: Store, name: str, settings: CollectionSettings | None, embedder: Embedder | None, indexes: Indexes
    ) -> None:
        self.store = store
        self.indexes = indexes
        self.embedders = Embedders(store, embedder)
        self.collection = self._open(name, settings)
        self._searches: dict[tuple[str, str, str | None], Search] = {}

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self.collection.name

    @property
    def settings(self) -> CollectionSettings:
        """The settings by which documents are processed."""
        return self.collection.settings

    @property
    def searched(self) -> CollectionSettings:
        """The settings by which the collection is searched."""
        return self.collection.searched or self.collection.settings

    @property
    def index(self) -> Index:
        """The index that documents are added to."""
        return self.indexes.get(self.settings.index)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder that makes vectors."""
        return self.embedders.get(self.collection, self.settings.embedder)

    @property
    def model(self) -> EmbeddingModel:
        """The name and dimension of the embedder."""
        return model_of(self.embedder)

    def has_embedder(self) -> bool:
        """Return True if this process can create the embedder."""
        return self.embedders.can_create(self.collection, self.settings.embedder)

    def require_exists(self) -> None:
        """Raise NoSuchCollection if somebody deleted the collection."""
        self._stored_settings()

    def is_outdated(self) -> bool:
        """Return True if somebody gave the collection other settings. Raise NoSuchCollection if it was deleted."""
        return self._stored_settings() != self.settings

    def switch_if_complete(self) -> bool:
        """Search by the collection's own embedder and index from now on, if all vectors are there.

        Returns:
            True if the collection was switched. False if it was before, or if vectors are missing.
        """
        if self.collection.searched is None:
            return False
        try:
            model = self.model
        except ServiceError:  # the service does not answer, so the length of its vectors is unknown
            return False
        if not self.index.has_all_vectors(self.name, model=model):
            return False
        with self.store.transaction() as tx:
            switch_search(tx, self.collection, model)
        self.collection = replace(self.collection, searched=None)
        return True

    def current_search(self) -> Search:
        """Return the search over complete vectors: the old ones, as long as new ones are being made or moved."""
        if self.collection.searched is not None and self.has_embedder():
            self.switch_if_complete()
        searched = self.searched
        newer = self.settings.embedder if self._some_have_only_newer_vectors() else None
        key = (searched.index, searched.embedder, newer)
        if key not in self._searches:
            embedder = self.embedders.get(self.collection, searched.embedder)
            newer_embedder = self.embedder if newer else None
            self._searches[key] = Search(self.indexes.get(searched.index), embedder, newer=newer_embedder)
        return self._searches[key]

    def close(self) -> None:
        """Close connections and free memory. The next use opens them again."""
        self._searches.clear()
        self.indexes.close()

    def _open(self, name: str, settings: CollectionSettings | None) -> Collection:
        with self.store.transaction() as tx:
            self.indexes.database.create_tables(tx)
            self.indexes.database.require_current_words(tx)
            metadata.create_table(tx)
            jobs.create_table(tx)
            remarks.create_table(tx)
            spending.create_tables(tx)
            collection = find_collection(tx, name)
            wanted = settings or (collection.settings if collection else CollectionSettings())
            wanted = replace(wanted, embedder=self.embedders.spec(wanted))
            if collection is None:
                collection = Collection(name, wanted)
                create_collection(tx, collection)
            elif wanted != collection.settings:
                configure_collection(tx, Collection(name, wanted))
                collection = find_collection(tx, name) or collection
        return collection

    def _stored_settings(self) -> CollectionSettings:
        with self.store.reading() as tx:
            stored = {collection.name: collection.settings for collection in list_collections(tx)}
        if self.name not in stored:
            raise no_such_collection(self.name, stored)
        return stored[self.name]

    def _some_have_only_newer_vectors(self) -> bool:
        """Return True if visible documents lack vectors of the model by which the collection is searched.

        This happens while the embedder changes: documents were split again, too, or were submitted since.
        """
        new, old = self.settings, self.searched
        if new.embedder == old.embedder or new.index != old.index or not self.has_embedder():
            return False
        model = model_of(self.embedders.get(self.collection, old.embedder))
        return not self.indexes.get(old.index).has_all_vectors(self.name, model=model)
