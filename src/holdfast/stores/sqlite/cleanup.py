"""Cleanup on SQLite: what nobody needs any more is deleted, a slice at a time.

What is to be deleted is found before the lock is taken, and looked at again under it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from sqlite3 import Connection
from typing import Any

from msgspec.structs import replace

from holdfast.core.batches import CLOSING, NOTHING_YET, Cleaned
from holdfast.core.codec import encode_json
from holdfast.stores.counting import candidates_for, cut
from holdfast.stores.sqlite.base import MICROSECOND, SQL, Base

DAY = 86_400_000_000
PARTS = 20
"""So many parts of a manifest are deleted at once: each has the names of up to a thousand documents."""


class Cleanup(Base):
    """Deletes what nobody needs any more."""

    def cleanup_closed(
        self, pipeline: str, batch: str, *, who: str, limit: int, so_far: Cleaned = NOTHING_YET
    ) -> Cleaned:
        with self._db.reading() as db:
            batch_id = _closed(db, pipeline, batch)
            if batch_id is None:
                return replace(so_far, goes_on_at=None)
            asked = {"batch_id": batch_id, "start": so_far.goes_on_at or "", "limit": candidates_for(limit)}
            ids, key = cut(db.execute(SQL["next_closed"], asked).fetchall(), limit)
        with self._db.writing() as db:
            if not so_far.documents and _manifest_goes(db, batch_id):
                return so_far
            gone = db.execute(SQL["delete_documents"], {"ids": encode_json(ids)}).fetchall()
            states = Counter({"done": 0, "dead": 0, "cancelled": 0} | Counter(state for _, state in gone))
            db.execute(SQL["count_gone"], states | {"batch_id": batch_id})
            return self._delete(db, batch_id, [row[0] for row in gone], replace(so_far, goes_on_at=key), who=who)

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
        now = self._now()
        wanted = {"before": now - older // MICROSECOND, "with_errors": with_errors, "now": now}
        with self._db.reading() as db:
            batch_id = _not_closed(db, pipeline, batch)
            if batch_id is None:
                return replace(so_far, goes_on_at=None)
            asked = wanted | {"batch_id": batch_id, "start": so_far.goes_on_at or "", "limit": candidates_for(limit)}
            ids, key = cut(db.execute(SQL["next_finished"], asked).fetchall(), limit)
        if not ids:
            return replace(so_far, goes_on_at=None)
        with self._db.writing() as db:
            cleaned = db.execute(SQL["mark_cleaned"], wanted | {"ids": encode_json(ids)}).fetchall()
            return self._delete(db, batch_id, [row[0] for row in cleaned], replace(so_far, goes_on_at=key), who=who)

    def _delete(self, db: Connection, batch_id: int, ids: Sequence[int], so_far: Cleaned, *, who: str) -> Cleaned:
        """Deletes what documents have beside their rows, and tells the counts so far in the batch's journal."""
        if not ids:
            return so_far
        asked = {"ids": encode_json(ids)}
        items = db.execute(SQL["delete_items"], asked).fetchall()
        cleaned = replace(
            so_far,
            documents=so_far.documents + len(ids),
            items=so_far.items + sum(row[0] for row in items),
            asides=so_far.asides + db.execute(SQL["delete_asides"], asked).rowcount,
            lines=so_far.lines + db.execute(SQL["delete_lines"], asked).rowcount,
        )
        counts = cleaned.counts()
        if not cleaned.journal_id:
            line = self._write_batch_journal(db, batch_id, "cleanup", who=who, now=self._now(), detail=counts)
            return replace(cleaned, journal_id=line)
        line_of = {"journal_id": cleaned.journal_id, "batch_id": batch_id, "detail": encode_json(counts)}
        db.execute(SQL["amend_batch_journal"], line_of)
        return cleaned

    def count_closed(self, pipeline: str, batch: str) -> Cleaned:
        with self._db.reading() as db:
            return _counted(db, "count_closed", {"batch_id": _closed(db, pipeline, batch)})

    def count_finished(self, pipeline: str, batch: str, *, older: timedelta, with_errors: bool) -> Cleaned:
        wanted = {"before": self._now() - older // MICROSECOND, "with_errors": with_errors}
        with self._db.reading() as db:
            return _counted(db, "count_finished", wanted | {"batch_id": _not_closed(db, pipeline, batch)})

    def cleanup_blobs(self, *, limit: int, after: bytes = b"") -> tuple[int, bytes | None]:
        before = self._now() - DAY
        with self._db.reading() as db:
            rows = db.execute(SQL["next_blobs"], {"before": before, "after": after, "limit": limit}).fetchall()
        if not rows:
            return 0, None
        with self._db.writing() as db:
            doomed = [{"hash": row[0], "before": before} for row in rows]
            deleted = db.executemany(SQL["delete_blobs"], doomed).rowcount
        return deleted, rows[-1][0] if len(rows) == limit else None

    def count_blobs(self) -> int:
        with self._db.reading() as db:
            return int(db.execute(SQL["count_blobs"], {"before": self._now() - DAY}).fetchone()[0])

    def cleanup_workers(self, *, older: timedelta) -> int:
        now = self._now()
        asked = {"now": now, "before": now - older // MICROSECOND}
        with self._db.writing() as db:
            forgotten = db.execute(SQL["delete_workers"], asked).rowcount
            db.execute(SQL["give_up_workers"], asked)
        return forgotten

    def count_workers(self, *, older: timedelta) -> int:
        with self._db.reading() as db:
            before = self._now() - older // MICROSECOND
            return int(db.execute(SQL["count_workers"], {"before": before}).fetchone()[0])


def _manifest_goes(db: Connection, batch_id: int) -> bool:
    """Deletes some of a batch's manifest, which goes before its documents. Answers False when nothing was left."""
    return db.execute(SQL["delete_manifest"], {"batch_id": batch_id, "limit": PARTS}).rowcount > 0


def _closed(db: Connection, pipeline: str, batch: str) -> int | None:
    """Gives the number of a batch that is closed, and whose closing steps are done."""
    named = {"pipeline": pipeline, "batch": batch, "closing": pipeline + CLOSING}
    row = db.execute(SQL["find_batch"], named).fetchone()
    if row is None or row[2] != "closed":
        return None
    return row[0] if db.execute(SQL["closing_is_over"], named).fetchone()[0] else None


def _not_closed(db: Connection, pipeline: str, batch: str) -> int | None:
    row = db.execute(SQL["find_batch"], {"pipeline": pipeline, "batch": batch}).fetchone()
    return None if row is None or row[2] == "closed" else row[0]


def _counted(db: Connection, query: str, asked: dict[str, Any]) -> Cleaned:
    documents, items, asides, lines = db.execute(SQL[query], asked).fetchone()
    return Cleaned(documents, items, asides, lines, goes_on_at=None)
