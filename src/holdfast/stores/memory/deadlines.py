"""Deadlines of batches in memory: open documents are ended, in slices. The first worker to do it wins."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from holdfast.core.batches import DEFAULT_DEADLINE_ACTION, DeadlineAction, ExpiredBatch
from holdfast.core.errors import UnknownBatch
from holdfast.core.model import OPEN_STATES, DocumentStatus, Plan
from holdfast.stores.batch_rules import DocumentEnd, deadline_detail, document_end, expired_detail, seal_detail
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
