"""Document search: from files to answers, resumable at every page.

with holdfast.open("sqlite:///holdfast.db") as store:
    library = rag.Library(store)
    library.ingest("contracts")
    for found in library.search("termination for convenience"):
        print(found.key, found.page, found.snippet)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.pipelines.rag.collections import Collection, Settings
    from holdfast.pipelines.rag.index import Where
    from holdfast.pipelines.rag.ingest import Looking
    from holdfast.pipelines.rag.library import Library
    from holdfast.pipelines.rag.model import Chunk, Page
    from holdfast.pipelines.rag.search import Found
    from holdfast.pipelines.rag.splitters import Splitting
    from holdfast.pipelines.rag.tidying import tidy

__all__ = ["Chunk", "Collection", "Found", "Library", "Looking", "Page", "Settings", "Splitting", "Where", "tidy"]

_WHERE = {
    "Chunk": "model",
    "Collection": "collections",
    "Found": "search",
    "Library": "library",
    "Looking": "ingest",
    "Page": "model",
    "Settings": "collections",
    "Splitting": "splitters",
    "Where": "index",
    "tidy": "tidying",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Imports what is asked for, when it is asked for."""
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
