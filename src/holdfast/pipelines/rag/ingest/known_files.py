"""The known files of a source: the table `rag_file`, which says how each file was at the last scan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.core.model import DocumentStatus
from holdfast.core.moves import Tx
from holdfast.pipelines.rag.ingest.file_changes import KnownFile
from holdfast.pipelines.rag.sql_statements import load_statements

SQL = load_statements(Path(__file__).parent / "queries")


class KnownFiles:
    """The known files of one source in one collection.

    Attributes:
        known: The files that were there at the last scan, by key. `load` fills it.
    """

    def __init__(self, collection: str, source: str) -> None:
        self._place = {"collection": collection, "source": source}
        self.known: dict[str, KnownFile] = {}
        self._gone_counts: dict[str, int] = {}

    def load(self, tx: Tx) -> Mapping[str, KnownFile]:
        """Read the known files from the database and return them by key."""
        self.known.clear()
        rows = SQL.run(tx, "load_files", **self._place).fetchall()
        for key, size, mtime_ns, content, looked_at, etag, gone_count in rows:
            if gone_count:
                self._gone_counts[key] = gone_count
            if content is not None:
                self.known[key] = KnownFile(key, size, mtime_ns, content, looked_at, etag)
        return self.known

    def fingerprint(self, file: KnownFile) -> str:
        """Return the fingerprint of a file: the hash of its content and, if it was gone before, how often."""
        gone_count = self._gone_counts.get(file.key, 0)
        return f"{file.hash}+{gone_count}" if gone_count else file.hash

    def gone_counts(self, tx: Tx, keys: Iterable[str]) -> list[int]:
        """Return for each key how often its file was gone."""
        rows = [SQL.run(tx, "times_gone", **self._place, key=key).fetchone() for key in keys]
        return [row[0] if row else 0 for row in rows]

    def count_gone(self, tx: Tx, keys: Sequence[str]) -> int:
        """Count those of the keys whose files are gone."""
        return int(SQL.run(tx, "count_gone", **self._place, keys=list(keys)).fetchone()[0])

    def save(self, tx: Tx, files: Iterable[KnownFile]) -> None:
        """Save files as they are now."""
        SQL.run_many(
            tx,
            "save_file",
            [
                self._row(
                    file.key,
                    size=file.size,
                    mtime_ns=file.mtime_ns,
                    hash=file.hash,
                    looked_at=file.looked_at,
                    etag=file.etag,
                )
                for file in files
            ],
        )

    def mark_uncertain(self, tx: Tx, keys: Sequence[str]) -> None:
        """Forget the contents of files. Call this before their documents are withdrawn.

        If the withdrawal is interrupted, the next scan sees these files as changed or deleted, and completes it.
        """
        SQL.run_many(tx, "mark_uncertain", [self._row(key) for key in keys])

    def mark_gone(self, tx: Tx, keys: Sequence[str]) -> None:
        """Save that files are gone."""
        SQL.run_many(tx, "mark_gone", [self._row(key) for key in keys])

    def _row(self, key: str, **columns: Any) -> dict[str, Any]:
        return self._place | {"key": key} | columns


def keys_by_source(documents: Iterable[DocumentStatus]) -> dict[str, list[str]]:
    """Group the keys of documents by their source."""
    keys: dict[str, list[str]] = {}
    for document in documents:
        keys.setdefault(document.batch, []).append(document.key)
    return keys


def content_hash(fingerprint: str) -> str:
    """Return the hash of the content that a fingerprint stands for."""
    return fingerprint.partition("+")[0]
