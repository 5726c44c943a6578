"""Cleanup on SQL: what nobody needs any more is deleted, a slice at a time.

Reads find what to delete before anything is locked. The statement that deletes checks it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from holdfast.core.batches import CLOSING, NOTHING_YET, Cleaned
from holdfast.core.codec import encode_json
from holdfast.stores.batch_rules import candidates_for, cut, time_before
from holdfast.stores.sql.base import Base, write_batch_journal
from holdfast.stores.sql.session import Session

DAY = timedelta(days=1)

PARTS = 20
"""How many parts of a manifest are deleted at once: each has the keys of up to a thousand documents."""

Slice = tuple[int | None, list[int], str | None]
"""A batch, the ids of its documents to delete, and the key at which to go on."""


class Cleanup(Base):
    """Delete what is no longer needed."""

    def cleanup_closed(
        self, pipeline: str, batch: str, *, who: str, limit: int, so_far: Cleaned = NOTHING_YET
    ) -> Cleaned:
        def look(db: Session) -> Slice:
            batch_id = _closed_batch(db, pipeline, batch)
            page = {"start": so_far.goes_on_at or "", "limit": candidates_for(limit)}
            rows = [] if batch_id is None else db.all("next_closed_documents", batch_id=batch_id, **page)
            return (batch_id, *cut(rows, limit))

        def delete(db: Session) -> Cleaned:
            if not so_far.documents and db.run("delete_manifest_parts", batch_id=batch_id, limit=PARTS):
                return so_far  # the manifest is deleted before the documents that it names
            gone = db.all("delete_documents", ids=ids)
            states = Counter({"done": 0, "dead": 0, "cancelled": 0} | Counter(state for _, state in gone))
            db.run("add_gone_counts", batch_id=batch_id, **states)
            return _delete_kept(db, batch_id, [row[0] for row in gone], replace(so_far, goes_on_at=key), who=who)

        batch_id, ids, key = self._read(look)
        return replace(so_far, goes_on_at=None) if batch_id is None else self._write(delete)

    def cleanup_finished(
        self,
        pipeline: str,
        batch: str,
        *,
        who: str,
        older: timedelta,
        with_errors: bool,
        limit: int,
        so_far: Cleaned = NOTHING_YET,
    ) -> Cleaned:
        wanted = {"before": time_before(self.now(), older), "with_errors": with_errors}

        def look(db: Session) -> Slice:
            batch_id = _unclosed_batch(db, pipeline, batch)
            page = {"start": so_far.goes_on_at or "", "limit": candidates_for(limit)}
            rows = [] if batch_id is None else db.all("next_finished_documents", batch_id=batch_id, **wanted, **page)
            return (batch_id, *cut(rows, limit))

        def delete(db: Session) -> Cleaned:
            cleaned = [row[0] for row in db.all("mark_cleaned", **wanted, ids=ids)]
            return _delete_kept(db, batch_id, cleaned, replace(so_far, goes_on_at=key), who=who)

        batch_id, ids, key = self._read(look)
        return self._write(delete) if ids else replace(so_far, goes_on_at=None)

    def count_closed(self, pipeline: str, batch: str) -> Cleaned:
        return self._read(lambda db: _counted(db, "count_closed", batch_id=_closed_batch(db, pipeline, batch)))

    def count_finished(self, pipeline: str, batch: str, *, older: timedelta, with_errors: bool) -> Cleaned:
        wanted = {"before": time_before(self.now(), older), "with_errors": with_errors}
        return self._read(
            lambda db: _counted(db, "count_finished", **wanted, batch_id=_unclosed_batch(db, pipeline, batch))
        )

    def cleanup_blobs(self, *, limit: int, after: bytes = b"") -> tuple[int, bytes | None]:
        found = [row[0] for row in self._all("unused_blobs", after=after, age=DAY, limit=limit)]
        if not found:
            return 0, None
        deleted = self._write(lambda db: db.run("delete_blobs", after=after, last=found[-1], age=DAY))
        return deleted, found[-1] if len(found) == limit else None

    def count_blobs(self) -> int:
        return int(self._value("count_blobs", age=DAY))

    def cleanup_workers(self, *, older: timedelta) -> int:
        before = time_before(self.now(), older)

        def delete(db: Session) -> int:
            deleted = db.run("delete_workers", before=before)
            db.run("mark_old_workers_gone", before=before)
            return deleted

        return self._write(delete)

    def count_workers(self, *, older: timedelta) -> int:
        return int(self._value("count_workers", before=time_before(self.now(), older)))


def _delete_kept(db: Session, batch_id: int | None, ids: Sequence[int], so_far: Cleaned, *, who: str) -> Cleaned:
    """Delete what documents have beside their rows, and write the counts so far into the batch's journal."""
    if not ids or batch_id is None:
        return so_far
    cleaned = replace(
        so_far,
        documents=so_far.documents + len(ids),
        items=so_far.items + sum(row[0] for row in db.all("delete_items", ids=ids)),
        asides=so_far.asides + db.run("delete_failed_items", ids=ids),
        lines=so_far.lines + db.run("delete_journal", ids=ids),
    )
    if not cleaned.journal_id:
        line = write_batch_journal(db, batch_id, "cleanup", who=who, detail=cleaned.counts())
        return replace(cleaned, journal_id=line)
    counts = encode_json(cleaned.counts())
    db.run("update_batch_journal", journal_id=cleaned.journal_id, batch_id=batch_id, detail=counts)
    return cleaned


def _closed_batch(db: Session, pipeline: str, batch: str) -> int | None:
    """Return the id of a batch that is closed, and whose closing steps are done."""
    row = db.first("find_batch", pipeline=pipeline, batch=batch)
    if row is None or row[2] != "closed":
        return None
    return row[0] if db.value("closing_steps_done", closing=pipeline + CLOSING, batch=batch) else None


def _unclosed_batch(db: Session, pipeline: str, batch: str) -> int | None:
    row = db.first("find_batch", pipeline=pipeline, batch=batch)
    return None if row is None or row[2] == "closed" else row[0]


def _counted(db: Session, query: str, **parameters: Any) -> Cleaned:
    ((documents, items, asides, lines),) = db.all(query, **parameters)
    return Cleaned(documents, items, asides, lines, goes_on_at=None)
