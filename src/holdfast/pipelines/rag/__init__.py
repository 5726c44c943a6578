"""Document search: from files to search results, resumable at every page.

with holdfast.open("sqlite:///holdfast.db") as store:
    library = rag.Library(store)
    library.ingest("contracts")
    for found in library.search("termination for convenience"):
        print(found.key, found.page, found.snippet)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.pipelines.rag.chunk.splitters import Splitting
    from holdfast.pipelines.rag.collections.deletion import collect_garbage
    from holdfast.pipelines.rag.collections.jobs import IngestResult, find_job, run_job
    from holdfast.pipelines.rag.collections.library import Library
    from holdfast.pipelines.rag.collections.rebuild import rebuild_index
    from holdfast.pipelines.rag.collections.settings import Collection, CollectionSettings
    from holdfast.pipelines.rag.collections.spending import Spending, SpendingLimits
    from holdfast.pipelines.rag.embed.protocol import LocalEmbedder, RemoteEmbedder
    from holdfast.pipelines.rag.embed.rate_limiter import RateLimit
    from holdfast.pipelines.rag.extract.readers import Reader
    from holdfast.pipelines.rag.index import Where
    from holdfast.pipelines.rag.ingest.intake import ScanOptions
    from holdfast.pipelines.rag.search.search import SearchResult
    from holdfast.pipelines.rag.values import Chunk, Page

__all__ = [
    "Chunk",
    "Collection",
    "CollectionSettings",
    "IngestResult",
    "Library",
    "LocalEmbedder",
    "Page",
    "RateLimit",
    "Reader",
    "RemoteEmbedder",
    "ScanOptions",
    "SearchResult",
    "Spending",
    "SpendingLimits",
    "Splitting",
    "Where",
    "collect_garbage",
    "find_job",
    "rebuild_index",
    "run_job",
]

_MODULES = {
    "Chunk": "values",
    "Collection": "collections.settings",
    "CollectionSettings": "collections.settings",
    "IngestResult": "collections.jobs",
    "Library": "collections.library",
    "LocalEmbedder": "embed.protocol",
    "Page": "values",
    "RateLimit": "embed.rate_limiter",
    "Reader": "extract.readers",
    "RemoteEmbedder": "embed.protocol",
    "ScanOptions": "ingest.intake",
    "SearchResult": "search.search",
    "Spending": "collections.spending",
    "SpendingLimits": "collections.spending",
    "Splitting": "chunk.splitters",
    "Where": "index",
    "collect_garbage": "collections.deletion",
    "find_job": "collections.jobs",
    "rebuild_index": "collections.rebuild",
    "run_job": "collections.jobs",
}
_OLD_NAMES = {
    "Found": "SearchResult",
    "Looking": "ScanOptions",
    "Settings": "CollectionSettings",
    "tidy": "collect_garbage",
}
"""Names of version 0.1. They still work, with a DeprecationWarning, and go in the next release."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name on first use, so that `import rag` is fast."""
        if name not in _MODULES:
            from holdfast.core.old_names import new_name

            name = new_name(__name__, name, _OLD_NAMES)
        from importlib import import_module

        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
