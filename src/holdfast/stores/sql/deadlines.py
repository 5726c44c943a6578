"""Deadlines of batches on SQL: open documents are ended, in slices. The first worker to do it wins."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.core.batches import DEFAULT_DEADLINE_ACTION, DeadlineAction, ExpiredBatch
from holdfast.core.model import OPEN_STATES, Plan
from holdfast.stores.batch_rules import DocumentEnd, deadline_detail, document_end, expired_detail, seal_detail
from holdfast.stores.protocol import MAX_PER_TRANSACTION
from holdfast.stores.sql.base import Base, find_batch, write_batch_journal
from holdfast.stores.sql.decision_rules import decision_detail
from holdfast.stores.sql.dialect import stored_name
from holdfast.stores.sql.session import Session


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
        deadline = None if at is None else at.astimezone(UTC)

        def set_deadline(db: Session) -> bool:
            batch_id = find_batch(db, pipeline, batch).batch_id
            if not db.run("set_deadline", batch_id=batch_id, deadline_at=deadline, action=action):
                return False
            write_batch_journal(db, batch_id, "deadline", who=who, detail=deadline_detail(at, action, reason))
            return True

        return self._write(set_deadline)

    def expire_batch(self, plan: Plan, *, who: str, limit: int = MAX_PER_TRANSACTION) -> ExpiredBatch | None:
        def expire(db: Session) -> ExpiredBatch | None:
            overdue = db.first("overdue_batch", pipeline_id=plan.pipeline_id)
            return None if overdue is None else self._expire(db, overdue[0], who=who, limit=limit)

        if self._first("overdue_batch", pipeline_id=plan.pipeline_id) is None:
            return None  # the usual case, without a transaction that waits for others
        return self._write(expire)

    def _expire(self, db: Session, batch_id: int, *, who: str, limit: int) -> ExpiredBatch | None:
        found = [row[0] for row in db.all("open_documents", batch_id=batch_id, limit=limit)]
        db.run_if_present("lock_pipelines", ids=found)  # before the batch, as decisions do
        batch = db.first("lock_overdue_batch", batch_id=batch_id)
        if batch is None:
            return None  # another worker was faster
        name, state, deadline, action = batch
        deadline_at = self.dialect.moment(deadline)
        end = document_end(deadline_at, action)
        if state == "open":
            db.run("seal", batch_id=batch_id)
            write_batch_journal(db, batch_id, "seal", who=who, detail=seal_detail(end.reason, None))
        ids = [row[0] for row in db.all("lock_documents", ids=found, states=[*OPEN_STATES])]
        _end(db, ids, end, who)
        is_over = not found and state != "open"  # an open batch may have got documents after they were listed
        if is_over:
            db.run("expire_batch", batch_id=batch_id)
            write_batch_journal(db, batch_id, "expire", who=who, detail=expired_detail(end))
        return ExpiredBatch(name, deadline_at, action, tuple(db.documents("documents_by_id", ids=ids)), is_over)


def _end(db: Session, ids: list[int], end: DocumentEnd, who: str) -> None:
    if ids:
        detail = decision_detail(end.reason, end.state)
        db.run("journal_decisions", ids=ids, verb=end.verb, who=stored_name(who), detail=detail, code=end.code)
        db.run("end_documents", ids=ids, state=end.state, reason=end.reason, code=end.code, error=end.error)
