"""Trusted sources: files are read only from sources that somebody named here.

A document says where its file is. If a capsule brought the document, a stranger may have written that path. So a file
is read only if somebody named its source here, and only if it lies below that source.

A capsule is loaded into an empty store, before there is a pipeline. So no such document can come after a library has
looked. Pages that a capsule itself contains may be found: they were read elsewhere.
"""

from __future__ import annotations

import os

from holdfast.core.document import Document
from holdfast.core.errors import Reject
from holdfast.pipelines.rag.index import Index
from holdfast.pipelines.rag.ingest.known_files import SQL
from holdfast.pipelines.rag.ingest.removal import INGEST_ACTOR, withdraw_all
from holdfast.sources.source import CHAINED, is_url
from holdfast.stores.protocol import Store

FROM_ELSEWHERE = "it came from another store; the files of its source are ingested here instead"


class TrustedSources:
    """The sources of a collection that somebody named here. Documents of other sources are rejected."""

    def __init__(self, store: Store, collection: str) -> None:
        self._store = store
        self._collection = collection
        self._untrusted: set[str] = set()

    def refresh(self) -> None:
        """Read which sources nobody named. Call this before work begins: child processes use a copy of the result."""
        self._untrusted = self._find_untrusted()

    def trust(self, source: str, index: Index) -> None:
        """Save that somebody named a source here. Documents that claimed to be from it before are withdrawn."""
        with self._store.reading() as tx:
            is_named = SQL.run(tx, "is_named", collection=self._collection, source=source).fetchone()
        if source in self._find_untrusted():
            withdraw_all(self._store, index, self._collection, source=source, who=INGEST_ACTOR, reason=FROM_ELSEWHERE)
        if not is_named:
            with self._store.transaction() as tx:
                SQL.run(tx, "add_source", collection=self._collection, source=source)
        self._untrusted.discard(source)

    def reject_untrusted(self, doc: Document) -> None:
        """Raise Reject if the file of a document is not from a source that somebody named here."""
        location = doc.payload.get("location") if isinstance(doc.payload, dict) else None
        if doc.batch in self._untrusted or (isinstance(location, str) and not is_inside(location, doc.batch)):
            raise Reject(
                f"it came from another store: its file is said to be {location!r}, and nobody ingested that here. To "
                "make it searchable, ingest the folder of that file"
            )

    def _find_untrusted(self) -> set[str]:
        sources = [batch.name for batch in self._store.batches(self._collection)]
        with self._store.reading() as tx:
            rows = SQL.run(tx, "untrusted", collection=self._collection, sources=sources).fetchall()
        return {source for (source,) in rows}


def is_inside(location: str, source: str) -> bool:
    """Return True if a file is the source itself or lies below it. Only the names are compared."""
    if is_url(location) or is_url(source):
        return location == source or _is_object_below(location, source)
    is_plain = bool(source) and os.path.normpath(location) == location
    return is_plain and (location == source or location.startswith(source.rstrip(os.sep) + os.sep))


def _is_object_below(location: str, source: str) -> bool:
    """Compare two URLs without their schemes: one place may have several, such as s3a: and s3:."""
    web = ("http://", "https://")
    if not (is_url(location) and is_url(source)) or location.lower().startswith(web) or CHAINED.search(location):
        return False
    from fsspec import get_filesystem_class

    try:
        systems = [get_filesystem_class(url.partition("://")[0].lower()) for url in (location, source)]
    except (ImportError, ValueError):  # nobody could fetch it either
        return False
    path, root = (system._strip_protocol(url) for system, url in zip(systems, (location, source), strict=True))
    return systems[0] is systems[1] and ".." not in path.split("/") and f"{path}/".startswith(f"{root.rstrip('/')}/")
