"""Which collection a command is about."""

from __future__ import annotations

from holdfast.cli.pipelines import Loaded
from holdfast.pipelines.rag.collections import Collection, collections, no_such
from holdfast.pipelines.rag.dialects import has_table
from holdfast.pipelines.rag.library import Library
from holdfast.stores.protocol import Store


def collections_of(store: Store) -> list[Collection]:
    """Gives all collections of a store. Looking makes none, and waits for nobody who writes."""
    with store.reading() as tx:
        return list(collections(tx)) if has_table(tx, "rag_collection") else []


def collection_in(store: Store, name: str) -> Collection:
    """Gives a collection that is there, or says which are."""
    known = {one.name: one for one in collections_of(store)}
    if name not in known:
        raise no_such(name, known)
    return known[name]


def loaded_from(library: Library) -> Loaded:
    """Gives a library's pipeline as commands work on one."""
    return Loaded(library.pipeline, library.collection.name, None, None, None)
