"""Batches in memory: seal, count, report and close them, and end what is open after their deadline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.core.batches import (
    DEFAULT_DEADLINE_ACTION,
    MOST_LISTED,
    BatchReport,
    Closing,
    Counted,
    DeadLetter,
    DeadlineAction,
    DocumentsHash,
    Examined,
    ExpiredBatch,
    Reconciliation,
    report_of,
)
from holdfast.core.close_refusal import by_tolerance, refuse_to_close
from holdfast.core.codec import encode_json
from holdfast.core.distribution import installed_version
from holdfast.core.errors import UnknownBatch
from holdfast.core.formatting import MAX_NAMED
from holdfast.core.model import OPEN_STATES, DocumentStatus, NewDocument, Plan
from holdfast.core.text_limits import MAX_NAME, MAX_REASON, shorten
from holdfast.stores.batch_rules import (
    DocumentEnd,
    deadline_detail,
    document_end,
    expired_detail,
    refuse_wrong_count,
    seal_detail,
)
from holdfast.stores.memory.base import Base
from holdfast.stores.memory.tables import BatchRow, DocumentRow
from holdfast.stores.protocol import MAX_PER_TRANSACTION


class Deadlines(Base):
    """Set deadlines of batches, and end what is open after them."""

    def set_deadline(
        self,
        pipeline: str,
        batch: str,
        *,
        at: datetime | None,
        action: DeadlineAction = DEFAULT_DEADLINE_ACTION,
        who: str,
        reason: str = "",
    ) -> bool:
        now = self.now()
        with self._writing() as tables:
            row = self._known_batch(pipeline, batch)
            if row.state == "closed":
                return False
            deadline = None if at is None else at.astimezone(UTC)
            tables.batches[row.id] = replace(row, deadline_at=deadline, deadline_action=action, expired_at=None)
            self._write_batch_journal(row.id, "deadline", who=who, now=now, detail=deadline_detail(at, action, reason))
            return True

    def expire_batch(self, plan: Plan, *, who: str, limit: int = MAX_PER_TRANSACTION) -> ExpiredBatch | None:
        now = self.now()
        with self._writing() as tables:
            overdue = [(row.deadline_at, row.id) for row in tables.batches.values() if _is_overdue(row, plan, now)]
            if not overdue:
                return None
            deadline_at, batch_id = min(overdue)
            batch = tables.batches[batch_id]
            assert deadline_at is not None
            end = document_end(deadline_at, batch.deadline_action)
            if batch.state == "open":
                tables.batches[batch_id] = replace(batch, state="sealed", sealed_at=now)
                self._write_batch_journal(batch_id, "seal", who=who, now=now, detail=seal_detail(end.reason, None))
            rows = [row for row in tables.documents.values() if row.batch_id == batch_id and row.state in OPEN_STATES]
            ended = [self._end(row, end, who, now) for row in sorted(rows, key=lambda row: row.id)[:limit]]
            is_over = not ended and batch.state != "open"
            if is_over:
                tables.batches[batch_id] = replace(batch, expired_at=now)
                self._write_batch_journal(batch_id, "expire", who=who, now=now, detail=expired_detail(end))
            return ExpiredBatch(batch.name, deadline_at, batch.deadline_action, tuple(ended), is_over)

    def _end(self, row: DocumentRow, end: DocumentEnd, who: str, now: datetime) -> DocumentStatus:
        """End an open document. A worker that holds it loses it."""
        ended = self._change(
            row,
            state=end.state,
            worker_id=None,
            worked_by=row.worker_id or row.worked_by,
            due_at=None,
            deadline_at=None,
            fence=row.fence + 1,
            reason=end.reason,
            code=end.code,
            error=end.error,
            recoverable=None,
        )
        detail = {"reason": end.reason, "was": row.state, "state": end.state}
        self._write_journal(row, end.verb, who=who, now=now, detail=detail, code=end.code)
        return self._status(ended)

    def _known_batch(self, pipeline: str, batch: str) -> BatchRow:
        pipeline_id = self._tables.pipelines.get(pipeline)
        row = self._batch(pipeline_id, batch)
        if row is None:
            known = [one.name for one in self._tables.batches.values() if one.pipeline_id == pipeline_id]
            raise UnknownBatch(pipeline, batch, known)
        return row


def _is_overdue(row: BatchRow, plan: Plan, now: datetime) -> bool:
    if row.pipeline_id != plan.pipeline_id or row.state == "closed" or row.expired_at is not None:
        return False
    return row.deadline_at is not None and row.deadline_at <= now


class Batches(Deadlines):
    """Seal, count and close batches."""

    def seal(self, pipeline: str, batch: str, *, who: str, reason: str = "", expect: int | None = None) -> bool:
        now = self.now()
        with self._writing() as tables:
            row = self._known_batch(pipeline, batch)
            refuse_wrong_count(pipeline, batch, row.state, declared=expect, submitted=row.expected)
            if row.state != "open":
                return False
            tables.batches[row.id] = replace(row, state="sealed", sealed_at=now)
            self._write_batch_journal(row.id, "seal", who=who, now=now, detail=seal_detail(reason, expect))
            return True

    def batch_counts(self, pipeline: str, batch: str | None = None) -> list[Reconciliation]:
        now = self.now()
        with self._reading() as tables:
            pipeline_id = tables.pipelines.get(pipeline)
            batches = sorted(tables.batches.values(), key=lambda row: row.id)
            wanted = [row for row in batches if row.pipeline_id == pipeline_id and batch in (None, row.name)]
            return [self._counts_of(pipeline, row, now) for row in wanted]

    def _counts_of(self, pipeline: str, batch: BatchRow, now: datetime) -> Reconciliation:
        rows = self._rows(batch)
        by_step: dict[str, list[DocumentRow]] = {}
        for row in rows:
            if step := self._step_name(row):
                by_step.setdefault(step, []).append(row)
        return Reconciliation(
            pipeline=pipeline,
            batch=batch.name,
            state=batch.state,
            expected=batch.expected,
            created_at=batch.created_at,
            sealed_at=batch.sealed_at,
            closed_at=batch.closed_at,
            moved_at=max((row.moved_at for row in rows), default=None),
            gone=sum(batch.gone.values()),
            mark=sum(row.fence + row.generation for row in rows),
            steps={step: Counted(**self._counts(documents, now)) for step, documents in sorted(by_step.items())},
            deadline_at=batch.deadline_at,
            deadline_action=batch.deadline_action,
            expired_at=batch.expired_at,
            **self._counts(rows, now, batch.gone),
        )

    def _counts(self, rows: Collection[DocumentRow], now: datetime, gone: dict[str, int] | None = None) -> Counter[str]:
        counts = Counter[str](row.state for row in rows)
        counts.update(gone or {})
        counts["orphaned"] = sum(self._is_orphaned(row, now) for row in rows)
        counts["accepted"] = sum(row.accepted_by is not None for row in rows) + (gone or {}).get("dead", 0)
        return counts

    def _is_orphaned(self, row: DocumentRow, now: datetime) -> bool:
        if row.worker_id is None:
            return False
        worker = self._tables.workers.get(row.worker_id)
        overdue = row.deadline_at is not None and row.deadline_at < now
        return worker is None or worker.gone or worker.is_stale(now) or overdue

    def missing(self, pipeline: str, batch: str) -> list[str]:
        with self._reading():
            return self._missing(self._known_batch(pipeline, batch))

    def _missing(self, batch: BatchRow) -> list[str]:
        keys = self._tables.keys
        return sorted(key for key in self._tables.manifests.get(batch.id, ()) if (batch.id, key) not in keys)

    def report(self, pipeline: str, batch: str) -> BatchReport:
        now = self.now()
        with self._reading():
            row = self._known_batch(pipeline, batch)
            if row.report is not None:
                return msgspec.json.decode(row.report, type=BatchReport)
            found = self._counts_of(pipeline, row, now)
            return report_of(found, self._examine(pipeline, row), self._dead_letters(row), made_at=now)

    def _examine(self, pipeline: str, batch: BatchRow) -> Examined:
        tables, rows = self._tables, self._rows(batch)
        hashed = DocumentsHash()
        hashed.add((row.key, row.fingerprint, row.generation, row.state) for row in rows)
        ids = {row.id for row in rows}
        return Examined(
            shape=self._plans(tables.pipelines[pipeline])[-1].shape,
            holdfast=installed_version(),
            documents_sha256=hashed.hexdigest(),
            asides=sum(len(asides) for place, asides in tables.asides.items() if place[0] in ids),
            cancelled=[row.key for row in rows if row.state == "cancelled"][:MOST_LISTED],
            missing=self._missing(batch)[:MOST_LISTED],
            workers=sorted(
                {row.worker.name for row in tables.workers.values() if row.heartbeat_at >= batch.created_at}
            ),
        )

    def _died_at(self, row: DocumentRow) -> datetime:
        lines = self._tables.journals[row.id].values()
        return max((line.at for line in lines if line.verb in ("fail", "reject", "reclaim")), default=row.moved_at)

    def _dead_letters(self, batch: BatchRow) -> list[DeadLetter]:
        dead = sorted((row for row in self._rows(batch) if row.state == "dead"), key=lambda row: row.id)
        return [
            DeadLetter(
                row.key,
                self._step_name(row),
                row.error,
                row.reason,
                row.attempts,
                row.crashes,
                row.fingerprint,
                row.accepted_by or "",
                self._died_at(row),
                row.recoverable,
                row.losses,
            )
            for row in dead[:MOST_LISTED]
        ]

    def close_batch(
        self, plan: Plan, batch: str, *, who: str, reason: str, tolerate: float = 0.0, closing: Plan | None = None
    ) -> Closing:
        now = self.now()
        with self._writing() as tables:
            row = self._known_batch(plan.pipeline, batch)
            if row.report is not None:
                return Closing(msgspec.json.decode(row.report, type=BatchReport), is_new=False)
            self._accept_tolerated(plan, row, tolerate=tolerate, who=who, now=now)
            found = self._counts_of(plan.pipeline, row, now).closed(now)
            examined = self._examine(plan.pipeline, row)
            closing_facts: dict[str, Any] = {
                "closed_by": shorten(who, MAX_NAME),
                "reason": shorten(reason, MAX_REASON),
                "tolerance": tolerate,
            }
            report = report_of(found, examined, self._dead_letters(row), made_at=now, **closing_facts)
            tables.batches[row.id] = replace(row, state="closed", closed_at=now, report=encode_json(report))
            detail = {"reason": reason, "was": "sealed", "state": "closed", "sha256": report.sha256}
            self._write_batch_journal(row.id, "close", who=who, now=now, detail=detail)
            if closing is not None:
                self._add_closing_document(closing, batch, report, now)
            return Closing(report, is_new=True)

    def _accept_tolerated(self, plan: Plan, batch: BatchRow, *, tolerate: float, who: str, now: datetime) -> None:
        """Raise CloseRefused if the batch cannot be closed. Otherwise accept the dead letters that are tolerated."""
        found = self._counts_of(plan.pipeline, batch, now)
        dead = [row for row in self._rows(batch) if row.state == "dead" and row.accepted_by is None]
        missing = [] if found.balances else self._missing(batch)
        named = [row.key for row in sorted(dead, key=_by_id)][:MAX_NAMED]
        refuse_to_close(found, tolerate=tolerate, dead=named, missing=missing)
        by = by_tolerance(tolerate)
        for row in sorted(dead, key=_by_id):
            accepted = self._change(row, accepted_by=by)
            detail = {"reason": by, "was": "dead", "state": "dead"}
            self._write_journal(accepted, "accept", who=who, now=now, detail=detail)

    def _add_closing_document(self, closing: Plan, batch: str, report: BatchReport, now: datetime) -> None:
        """Add the document of the closing steps."""
        batch_id = len(self._tables.batches) + 1
        into = BatchRow(batch_id, closing.pipeline_id, batch, now, state="sealed", sealed_at=now)
        new = [NewDocument(batch, report.summary(), report.sha256)]
        self._add_documents(closing, into, new, submission=0, part=0, now=now)

    def _rows(self, batch: BatchRow) -> Sequence[DocumentRow]:
        """Return the documents of a batch, in the order of their keys."""
        rows = (row for row in self._tables.documents.values() if row.batch_id == batch.id)
        return sorted(rows, key=lambda row: row.key)


def _by_id(row: DocumentRow) -> int:
    return row.id
