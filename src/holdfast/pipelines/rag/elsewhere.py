"""Documents from elsewhere: a capsule brought them, and the file that they name is one that nobody here took in.

A document says where its file is, and a stranger may have written that. So files are read only of sources that somebody
named here, and only what lies in them. A capsule is loaded into an empty store, before there is a pipeline: no document
from elsewhere comes later than a library that looks. What a capsule itself holds, pages that were read elsewhere, is
its own to tell, and may be found.
"""

from __future__ import annotations

import os

from holdfast.core.document import Document
from holdfast.core.errors import Reject
from holdfast.pipelines.rag.dialects import run
from holdfast.pipelines.rag.index import Index
from holdfast.pipelines.rag.sources.source import CHAINED, is_url
from holdfast.pipelines.rag.withdrawing import withdraw_all
from holdfast.stores.protocol import Store

WHO = "ingest"
ELSEWHERE = "it came from elsewhere; what its source has here is taken in instead"

_STRANGE = """
select b.name
  from hf_batch b
  join hf_pipeline p on p.id = b.pipeline_id
 where p.name = ?
   and not exists (select 1 from rag_source s where s.collection = p.name and s.source = b.name)
   and not exists (select 1 from rag_file f where f.collection = p.name and f.source = b.name)
"""
_IS_STRANGE = f"{_STRANGE} and b.name = ?"
_IS_NAMED = "select 1 from rag_source where collection = ? and source = ?"
_ADMIT = "insert into rag_source (collection, source) values (?, ?) on conflict (collection, source) do nothing"


class Elsewhere:
    """The sources of a collection that documents say they are of, and that nobody named here."""

    def __init__(self, store: Store, collection: str) -> None:
        self._store = store
        self._collection = collection
        self._strange: set[str] = set()

    def look(self) -> None:
        """Sees which sources nobody named. To be called before work begins: children know what was seen then."""
        with self._store.reading() as tx:
            self._strange = {source for (source,) in run(tx, _STRANGE, self._collection).fetchall()}

    def admit(self, source: str, index: Index) -> None:
        """Remembers that somebody named a source here. What documents said before of being its is not believed."""
        with self._store.reading() as tx:
            named = run(tx, _IS_NAMED, self._collection, source).fetchone()
            strange = run(tx, _IS_STRANGE, self._collection, source).fetchone()
        if strange:
            withdraw_all(self._store, index, self._collection, source=source, who=WHO, reason=ELSEWHERE)
        if not named:
            with self._store.transaction() as tx:
                run(tx, _ADMIT, self._collection, source)
        self._strange.discard(source)

    def refuse(self, doc: Document) -> None:
        """Rejects a document whose file is not of a source that somebody named here."""
        location = doc.payload.get("location") if isinstance(doc.payload, dict) else None
        if doc.batch in self._strange or (isinstance(location, str) and not lies_in(location, doc.batch)):
            raise Reject(
                f"it came from elsewhere: it says that its file is {location!r}, and nobody here took that in. Ingest "
                "the folder of that file, if it should be found here"
            )


def lies_in(location: str, source: str) -> bool:
    """Answers whether a file is a source, or lies below it, by their names alone."""
    if is_url(location) or is_url(source):
        return location == source or _is_object_below(location, source)
    is_plain = bool(source) and os.path.normpath(location) == location
    return is_plain and (location == source or location.startswith(source.rstrip(os.sep) + os.sep))


def _is_object_below(location: str, source: str) -> bool:
    """One place has several URLs, s3a: and s3: among them, so what they stand for is compared."""
    web = ("http://", "https://")
    if not (is_url(location) and is_url(source)) or location.lower().startswith(web) or CHAINED.search(location):
        return False
    from fsspec import get_filesystem_class

    try:
        systems = [get_filesystem_class(url.partition("://")[0].lower()) for url in (location, source)]
    except (ImportError, ValueError):  # nobody could fetch it either
        return False
    here, root = (system._strip_protocol(url) for system, url in zip(systems, (location, source), strict=True))
    return systems[0] is systems[1] and ".." not in here.split("/") and f"{here}/".startswith(f"{root.rstrip('/')}/")
