"""Make the words of an index again after an upgrade. The texts come from the store; no file is read."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.pipelines.rag.chunk.language import detect_language
from holdfast.pipelines.rag.index.registry import database_index
from holdfast.stores.protocol import Store


def rebuild_index(store: Store, report: Callable[[int], object] = lambda _: None) -> int:
    """Make the words of all collections of a store again, by the rules of this release.

    Searches and ingests of this store are refused until it is finished. After a kill, call it again: it continues.

    Args:
        store: The store.
        report: Called with the number of documents that are done, after each transaction.

    Returns:
        How many documents were done. 0: the words were made by these rules already.

    Example:
        with holdfast.open("sqlite:///holdfast.db") as store:
            print(rag.rebuild_index(store))
    """
    index = database_index(store)
    try:
        with store.transaction() as tx:
            index.create_tables(tx)
        done = 0
        while True:
            with store.transaction() as tx:
                documents = index.rebuild_words(tx, detect_language)
            if not documents:
                return done
            done += documents
            report(done)
    finally:
        index.close()
