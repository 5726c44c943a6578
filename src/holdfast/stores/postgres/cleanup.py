"""Cleanup on PostgreSQL: what nobody needs any more is deleted, a slice at a time.

What is to be deleted is found before anything is locked, and looked at again by the statement that locks it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from holdfast.core.batches import CLOSING, NOTHING_YET, Cleaned
from holdfast.core.codec import encode_json
from holdfast.stores.counting import candidates_for, cut
from holdfast.stores.postgres.arrays import bytes_, numbers
from holdfast.stores.postgres.base import SQL, Base
from holdfast.stores.postgres.connection import Db

PARTS = 20
"""So many parts of a manifest are deleted at once: each has the names of up to a thousand documents."""


class Cleanup(Base):
    """Deletes what nobody needs any more."""

    def cleanup_closed(
        self, pipeline: str, batch: str, *, who: str, limit: int, so_far: Cleaned = NOTHING_YET
    ) -> Cleaned:
        def look(db: Db) -> tuple[int | None, list[int], str | None]:
            batch_id = _closed(db, pipeline, batch)
            asked = {"batch_id": batch_id, "start": so_far.goes_on_at or "", "limit": candidates_for(limit)}
            rows = [] if batch_id is None else db.execute(SQL["next_closed"], asked).fetchall()
            return (batch_id, *cut(rows, limit))

        def delete(db: Db) -> Cleaned:
            if not so_far.documents and _manifest_goes(db, batch_id):
                return so_far
            gone = db.execute(SQL["delete_documents"], {"ids": numbers(ids)}).fetchall()
            states = Counter({"done": 0, "dead": 0, "cancelled": 0} | Counter(state for _, state in gone))
            db.execute(SQL["count_gone"], states | {"batch_id": batch_id})
            return self._delete(db, batch_id, [row[0] for row in gone], replace(so_far, goes_on_at=key), who=who)

        batch_id, ids, key = self._db.reading(look)
        return replace(so_far, goes_on_at=None) if batch_id is None else self._db.writing(delete)

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
        wanted = {"before": self.now() - older, "with_errors": with_errors, "now": self._now()}

        def look(db: Db) -> tuple[int | None, list[int], str | None]:
            batch_id = _not_closed(db, pipeline, batch)
            asked = wanted | {"batch_id": batch_id, "start": so_far.goes_on_at or "", "limit": candidates_for(limit)}
            rows = [] if batch_id is None else db.execute(SQL["next_finished"], asked).fetchall()
            return (batch_id, *cut(rows, limit))

        def delete(db: Db) -> Cleaned:
            cleaned = db.execute(SQL["mark_cleaned"], wanted | {"ids": numbers(ids)}).fetchall()
            return self._delete(db, batch_id, [row[0] for row in cleaned], replace(so_far, goes_on_at=key), who=who)

        batch_id, ids, key = self._db.reading(look)
        return self._db.writing(delete) if ids else replace(so_far, goes_on_at=None)

    def _delete(self, db: Db, batch_id: int | None, ids: Sequence[int], so_far: Cleaned, *, who: str) -> Cleaned:
        """Deletes what documents have beside their rows, and tells the counts so far in the batch's journal."""
        if not ids or batch_id is None:
            return so_far
        ((items, asides, lines),) = db.execute(SQL["delete_kept"], {"ids": numbers(ids)}).fetchall()
        cleaned = replace(
            so_far,
            documents=so_far.documents + len(ids),
            items=so_far.items + items,
            asides=so_far.asides + asides,
            lines=so_far.lines + lines,
        )
        counts = cleaned.counts()
        if not cleaned.journal_id:
            line = self._write_batch_journal(db, batch_id, "cleanup", who=who, detail=counts)
            return replace(cleaned, journal_id=line)
        line_of = {"journal_id": cleaned.journal_id, "batch_id": batch_id, "detail": encode_json(counts)}
        db.execute(SQL["amend_batch_journal"], line_of)
        return cleaned

    def count_closed(self, pipeline: str, batch: str) -> Cleaned:
        return self._db.reading(lambda db: _counted(db, "count_closed", {"batch_id": _closed(db, pipeline, batch)}))

    def count_finished(self, pipeline: str, batch: str, *, older: timedelta, with_errors: bool) -> Cleaned:
        wanted = {"before": self.now() - older, "with_errors": with_errors}
        return self._db.reading(
            lambda db: _counted(db, "count_finished", wanted | {"batch_id": _not_closed(db, pipeline, batch)})
        )

    def cleanup_blobs(self, *, limit: int, after: bytes = b"") -> tuple[int, bytes | None]:
        now = self._now()
        asked = {"after": after, "limit": limit, "now": now}
        found = [row[0] for row in self._db.reading(lambda db: db.execute(SQL["next_blobs"], asked).fetchall())]
        if not found:
            return 0, None
        doomed = {"hashes": bytes_(found), "now": now}
        deleted = self._db.writing(lambda db: db.execute(SQL["delete_blobs"], doomed).rowcount)
        return deleted, found[-1] if len(found) == limit else None

    def count_blobs(self) -> int:
        now = self._now()
        ((blobs,),) = self._db.reading(lambda db: db.execute(SQL["count_blobs"], {"now": now}).fetchall())
        return int(blobs)

    def cleanup_workers(self, *, older: timedelta) -> int:
        asked = {"now": self._now(), "before": self.now() - older}

        def forget(db: Db) -> int:
            forgotten = db.execute(SQL["delete_workers"], asked).rowcount
            db.execute(SQL["give_up_workers"], asked)
            return forgotten

        return self._db.writing(forget)

    def count_workers(self, *, older: timedelta) -> int:
        before = self.now() - older
        ((workers,),) = self._db.reading(lambda db: db.execute(SQL["count_workers"], {"before": before}).fetchall())
        return int(workers)


def _manifest_goes(db: Db, batch_id: int | None) -> bool:
    """Deletes some of a batch's manifest, which goes before its documents. Answers False when nothing was left."""
    return db.execute(SQL["delete_manifest"], {"batch_id": batch_id, "limit": PARTS}).rowcount > 0


def _closed(db: Db, pipeline: str, batch: str) -> int | None:
    """Gives the number of a batch that is closed, and whose closing steps are done."""
    named = {"pipeline": pipeline, "batch": batch, "closing": pipeline + CLOSING}
    row = db.execute(SQL["find_batch"], named).fetchone()
    if row is None or row[2] != "closed":
        return None
    ((is_over,),) = db.execute(SQL["closing_is_over"], named).fetchall()
    return row[0] if is_over else None


def _not_closed(db: Db, pipeline: str, batch: str) -> int | None:
    row = db.execute(SQL["find_batch"], {"pipeline": pipeline, "batch": batch}).fetchone()
    return None if row is None or row[2] == "closed" else row[0]


def _counted(db: Db, query: str, asked: dict[str, Any]) -> Cleaned:
    ((documents, items, asides, lines),) = db.execute(SQL[query], asked).fetchall()
    return Cleaned(documents, items, asides, lines, goes_on_at=None)
