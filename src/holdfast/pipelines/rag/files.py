"""The files of a source, as they were when they were last looked at: kept beside the index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.core.moves import Tx
from holdfast.pipelines.rag.changes import Known
from holdfast.pipelines.rag.dialects import marked, run

_KEEP = """
insert into rag_file (collection, source, key, size, mtime_ns, hash, looked_at, etag) values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (collection, source, key) do update
   set size = excluded.size, mtime_ns = excluded.mtime_ns, hash = excluded.hash, looked_at = excluded.looked_at,
       etag = excluded.etag
"""
_GONE = """
insert into rag_file (collection, source, key, size, mtime_ns, looked_at, times) values (?, ?, ?, 0, 0, 0, 1)
on conflict (collection, source, key) do update
   set hash = null, times = rag_file.times + 1
"""
_DOUBT = """
update rag_file
   set hash = '', size = -1, mtime_ns = 0, etag = '', times = times + 1
 where collection = ? and source = ? and key = ?
   and hash is not null
"""
_LEFT = """
select d.batch, count(*)
  from rag_file f
  join hf_documents d on d.pipeline = f.collection and d.batch = f.source and d.key = f.key
 where f.collection = ? and f.hash is null and d.state = 'cancelled'
 group by d.batch
"""
_ALL = "select key, size, mtime_ns, hash, looked_at, etag, times from rag_file where collection = ? and source = ?"
_TIMES = "select times from rag_file where collection = ? and source = ? and key = ?"


class Files:
    """What is known of the files of one source in one collection."""

    def __init__(self, collection: str, source: str) -> None:
        self._place = (collection, source)
        self.known: dict[str, Known] = {}
        self._times: dict[str, int] = {}

    def read(self, tx: Tx) -> Mapping[str, Known]:
        """Reads what is known."""
        self.known.clear()
        for key, size, mtime_ns, content, looked_at, etag, times in run(tx, _ALL, *self._place).fetchall():
            if times:
                self._times[key] = times
            if content is not None:
                self.known[key] = Known(key, size, mtime_ns, content, looked_at, etag)
        return self.known

    def mark(self, known: Known) -> str:
        """Gives the fingerprint of a file: its content, and, if it was gone before, how often."""
        times = self._times.get(known.key, 0)
        return f"{known.hash}+{times}" if times else known.hash

    def times(self, tx: Tx, keys: Iterable[str]) -> list[int]:
        """Says how often each of some files was gone."""
        rows = [run(tx, _TIMES, *self._place, key).fetchone() for key in keys]
        return [row[0] if row else 0 for row in rows]

    def keep(self, tx: Tx, files: Iterable[Known]) -> None:
        """Remembers files as they are now."""
        rows = [(*self._place, one.key, one.size, one.mtime_ns, one.hash, one.looked_at, one.etag) for one in files]
        tx.executemany(marked(tx, _KEEP), rows)

    def doubt(self, tx: Tx, keys: Sequence[str]) -> None:
        """Remembers nothing of files but that they were there. To be said before their documents are withdrawn.

        Whoever looks next, where that was not brought to its end, finds other content, or that they are gone.
        """
        tx.executemany(marked(tx, _DOUBT), [(*self._place, key) for key in keys])

    def forget(self, tx: Tx, keys: Sequence[str]) -> None:
        """Remembers that files are gone."""
        tx.executemany(marked(tx, _GONE), [(*self._place, key) for key in keys])


def left_behind(tx: Tx, collection: str) -> dict[str, int]:
    """Counts, by source, the documents that were withdrawn because their files are gone."""
    return dict(run(tx, _LEFT, collection).fetchall())


def content_of(mark: str) -> str:
    """Gives the hash of the content that a fingerprint stands for."""
    return mark.partition("+")[0]
