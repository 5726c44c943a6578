"""Cleanup in memory: delete what is no longer needed, in slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from holdfast.core.batches import CLOSING, NOTHING_YET, Cleaned
from holdfast.stores.batch_rules import candidates_for, cut, time_before
from holdfast.stores.memory.base import Base
from holdfast.stores.memory.tables import BatchRow, DocumentRow


class Cleanup(Base):
    """Delete what is no longer needed."""

    def cleanup_closed(
        self, pipeline: str, batch: str, *, who: str, limit: int, so_far: Cleaned = NOTHING_YET
    ) -> Cleaned:
        now = self.now()
        with self._writing() as tables:
            named = self._deletable_batch(pipeline, batch)
            if named is None:
                return replace(so_far, goes_on_at=None)
            if named.id in tables.manifests:
                del tables.manifests[named.id]
            rows, key = self._slice(named, _has_ended, so_far, limit)
            cleaned = self._add(so_far, rows, key)
            for row in rows:
                self._delete_contents(row)
                del tables.keys[named.id, row.key]
                del tables.documents[row.id]
                named = replace(named, **{f"gone_{row.state}": named.gone[row.state] + 1})
            tables.batches[named.id] = named
            return self._write_progress(named, cleaned, who=who, now=now)

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
        now = self.now()
        with self._writing() as tables:
            named = self._batch(tables.pipelines.get(pipeline), batch)
            if named is None or named.state == "closed":
                return replace(so_far, goes_on_at=None)
            wanted = self._finished(time_before(now, older), with_errors=with_errors)
            rows, key = self._slice(named, wanted, so_far, limit)
            cleaned = self._add(so_far, rows, key)
            for row in rows:
                self._delete_contents(row)
                self._change(row, cleaned_at=now)
            return self._write_progress(named, cleaned, who=who, now=now)

    def count_closed(self, pipeline: str, batch: str) -> Cleaned:
        with self._reading():
            named = self._deletable_batch(pipeline, batch)
            if named is None:
                return Cleaned(goes_on_at=None)
            return self._add(Cleaned(), [row for row in self._in_order(named) if _has_ended(row)], None)

    def count_finished(self, pipeline: str, batch: str, *, older: timedelta, with_errors: bool) -> Cleaned:
        now = self.now()
        with self._reading() as tables:
            named = self._batch(tables.pipelines.get(pipeline), batch)
            if named is None or named.state == "closed":
                return Cleaned(goes_on_at=None)
            wanted = self._finished(time_before(now, older), with_errors=with_errors)
            return self._add(Cleaned(), [row for row in self._in_order(named) if wanted(row)], None)

    def _deletable_batch(self, pipeline: str, batch: str) -> BatchRow | None:
        """Return a batch if it is closed and its closing steps, if it has any, have ended."""
        tables = self._tables
        named = self._batch(tables.pipelines.get(pipeline), batch)
        if named is None or named.state != "closed":
            return None
        last = self._batch(tables.pipelines.get(pipeline + CLOSING), batch)
        document_id = tables.keys.get((last.id, batch)) if last else None
        return named if document_id is None or _is_over(tables.documents[document_id]) else None

    def _finished(self, before: datetime, *, with_errors: bool) -> Callable[[DocumentRow], bool]:
        tables = self._tables

        def without_errors(row: DocumentRow) -> bool:
            failed = any(line.verb == "fail" for line in tables.journals[row.id].values())
            aside = any(asides and place[0] == row.id for place, asides in tables.asides.items())
            return row.state == "done" and not failed and not aside

        def is_wanted(row: DocumentRow) -> bool:
            lines = self._tables.journals[row.id].values()
            if row.cleaned_at is not None or row.moved_at >= before or any(line.at >= before for line in lines):
                return False
            return without_errors(row) or (with_errors and _is_over(row))

        return is_wanted

    def _slice(
        self, batch: BatchRow, wanted: Callable[[DocumentRow], bool], so_far: Cleaned, limit: int
    ) -> tuple[list[DocumentRow], str | None]:
        start = so_far.goes_on_at or ""
        ahead = [row for row in self._in_order(batch) if row.key >= start and wanted(row)]
        ids, last = cut([(row.id, row.key, 1 + self._kept(row)) for row in ahead[: candidates_for(limit)]], limit)
        return [self._tables.documents[document_id] for document_id in ids], last

    def _in_order(self, batch: BatchRow) -> list[DocumentRow]:
        rows = (row for row in self._tables.documents.values() if row.batch_id == batch.id)
        return sorted(rows, key=lambda row: row.key)

    def _kept(self, row: DocumentRow) -> int:
        return sum(len(items) for place, items in self._tables.items.items() if place[0] == row.id)

    def _add(self, so_far: Cleaned, rows: Sequence[DocumentRow], key: str | None) -> Cleaned:
        tables, ids = self._tables, {row.id for row in rows}
        return replace(
            so_far,
            documents=so_far.documents + len(rows),
            items=so_far.items + sum(map(self._kept, rows)),
            asides=so_far.asides + sum(len(asides) for place, asides in tables.asides.items() if place[0] in ids),
            lines=so_far.lines + sum(len(tables.journals[row.id]) for row in rows),
            goes_on_at=key,
        )

    def _delete_contents(self, row: DocumentRow) -> None:
        """Delete the items, the failed items and the journal of a document."""
        tables = self._tables
        kept = [
            table for group in (tables.items, tables.asides) for place, table in group.items() if place[0] == row.id
        ]
        for table in (*kept, tables.journals[row.id]):
            for number in list(table):
                del table[number]

    def _write_progress(self, batch: BatchRow, cleaned: Cleaned, *, who: str, now: datetime) -> Cleaned:
        """Write the counts so far to the one entry that this cleanup has in the journal of the batch."""
        if not cleaned.documents:
            return cleaned
        if not cleaned.journal_id:
            number = self._write_batch_journal(batch.id, "cleanup", who=who, now=now, detail=cleaned.counts())
            return replace(cleaned, journal_id=number)
        lines = self._tables.batch_journals[batch.id]
        lines[cleaned.journal_id - 1] = replace(lines[cleaned.journal_id - 1], detail=cleaned.counts())
        return cleaned

    def cleanup_blobs(self, *, limit: int, after: bytes = b"") -> tuple[int, bytes | None]:
        """Do nothing: big values are part of their items here."""
        _ = limit, after
        return 0, None

    def count_blobs(self) -> int:
        return 0

    def cleanup_workers(self, *, older: timedelta) -> int:
        now = self.now()
        with self._writing() as tables:
            forgotten = self._deletable_workers(time_before(now, older))
            for worker_id in forgotten:
                del tables.workers[worker_id]
            for worker_id, row in list(tables.workers.items()):
                if not row.gone and row.heartbeat_at + row.worker.lease < time_before(now, older):
                    tables.workers[worker_id] = replace(row, gone_at=now)
            return len(forgotten)

    def count_workers(self, *, older: timedelta) -> int:
        now = self.now()
        with self._reading():
            return len(self._deletable_workers(time_before(now, older)))

    def _deletable_workers(self, before: datetime) -> list[int]:
        tables = self._tables
        holders = {row.worker_id for row in tables.documents.values()}
        gone = {number: row.gone_at for number, row in tables.workers.items() if row.gone_at and number not in holders}
        return [number for number, gone_at in gone.items() if gone_at < before]


def _has_ended(row: DocumentRow) -> bool:
    return row.state in ("done", "dead", "cancelled")


def _is_over(row: DocumentRow) -> bool:
    """Return True if a document has ended for good."""
    return row.state in ("done", "cancelled") or (row.state == "dead" and row.accepted_by is not None)
