"""Batches on SQL: they balance, have deadlines, are sealed and closed, and leave a report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.core.batches import (
    DEFAULT_DEADLINE_ACTION,
    MOST_LISTED,
    BatchReport,
    Closing,
    DeadLetter,
    DeadlineAction,
    DocumentsHash,
    Examined,
    ExpiredBatch,
    Reconciliation,
    past,
    report_of,
)
from holdfast.core.close_refusal import by_tolerance, refuse_to_close
from holdfast.core.codec import encode_json
from holdfast.core.distribution import installed_version
from holdfast.core.formatting import MAX_NAMED
from holdfast.core.model import OPEN_STATES, NewDocument, Plan
from holdfast.stores.batch_rules import (
    DocumentEnd,
    deadline_detail,
    document_end,
    expired_detail,
    refuse_wrong_count,
    seal_detail,
)
from holdfast.stores.protocol import MAX_PER_TRANSACTION
from holdfast.stores.sql.base import (
    Base,
    FoundBatch,
    find_batch,
    insert_documents,
    open_batch,
    write_batch_journal,
)
from holdfast.stores.sql.decision_rules import decision_detail
from holdfast.stores.sql.dialect import stored_name, stored_reason
from holdfast.stores.sql.overview import reconciliations
from holdfast.stores.sql.row_codec import read_shape
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


PAGE = 10_000
"""How many documents are hashed at a time."""


class Batches(Deadlines):
    """Seal, count and close batches."""

    def seal(self, pipeline: str, batch: str, *, who: str, reason: str = "", expect: int | None = None) -> bool:
        def seal(db: Session) -> bool:
            row = find_batch(db, pipeline, batch)
            if expect is not None:
                ((state, submitted),) = db.all("lock_batch_to_count", batch_id=row.batch_id)
                refuse_wrong_count(pipeline, batch, state, declared=expect, submitted=submitted)
            if not db.run("seal", batch_id=row.batch_id):
                return False
            write_batch_journal(db, row.batch_id, "seal", who=who, detail=seal_detail(reason, expect))
            return True

        return self._write(seal)

    def batch_counts(self, pipeline: str, batch: str | None = None) -> list[Reconciliation]:
        def look(db: Session) -> list[Reconciliation]:
            if batch is not None:
                row = db.first("find_batch", pipeline=pipeline, batch=batch)
                return [] if row is None else self._counts(db, pipeline, row[1], row[0])
            known = db.first("pipeline_id", name=pipeline)
            return [] if known is None else self._counts(db, pipeline, known[0], None)

        return self._read(look)

    def _counts(self, db: Session, pipeline: str, pipeline_id: int, batch_id: int | None) -> list[Reconciliation]:
        rows = db.all("batch_counts", pipeline_id=pipeline_id, batch_id=batch_id)
        return reconciliations(pipeline, rows, self.dialect.moment)

    def _counts_of(self, db: Session, pipeline: str, batch: FoundBatch) -> Reconciliation:
        (counts,) = self._counts(db, pipeline, batch.pipeline_id, batch.batch_id)
        return counts

    def missing(self, pipeline: str, batch: str) -> list[str]:
        return self._read(lambda db: _missing(db, find_batch(db, pipeline, batch)))

    def report(self, pipeline: str, batch: str) -> BatchReport:
        now = self.now()

        def look(db: Session) -> BatchReport:
            row = find_batch(db, pipeline, batch)
            if row.report is not None:
                return msgspec.json.decode(row.report, type=BatchReport)
            counts = self._counts_of(db, pipeline, row)
            examined = _examine(db, pipeline, row, is_whole=counts.balances)
            return report_of(counts, examined, self._dead_letters(db, row), made_at=now)

        return self._read_snapshot(look)

    def close_batch(
        self, plan: Plan, batch: str, *, who: str, reason: str, tolerate: float = 0.0, closing: Plan | None = None
    ) -> Closing:
        decision = {"closed_by": stored_name(who), "reason": stored_reason(reason), "tolerance": tolerate}

        def look(db: Session) -> tuple[FoundBatch, int, Examined | None]:
            row = find_batch(db, plan.pipeline, batch)
            if row.report is not None:
                return row, 0, None
            counts = self._counts_of(db, plan.pipeline, row)
            self._refuse(db, counts, row, tolerate)
            return row, counts.mark, _examine(db, plan.pipeline, row, is_whole=True)

        def close(db: Session) -> Closing | None:
            report = db.value("lock_batch_to_close", batch_id=row.batch_id)
            if report is not None:
                return Closing(msgspec.json.decode(report, type=BatchReport), is_new=False)
            counts = self._counts_of(db, plan.pipeline, row)
            self._refuse(db, counts, row, tolerate)
            if examined is None or counts.mark != mark:
                return None  # a document began and ended meanwhile, so what was examined is out of date
            return Closing(self._file(db, row, counts, examined, decision=decision, closing=closing), is_new=True)

        while True:
            row, mark, examined = self._read(look)  # takes long, so nothing is locked
            if row.report is not None:
                return Closing(msgspec.json.decode(row.report, type=BatchReport), is_new=False)
            closed = self._write(close)
            if closed is not None:
                return closed

    def _file(
        self,
        db: Session,
        batch: FoundBatch,
        counts: Reconciliation,
        examined: Examined,
        *,
        decision: dict[str, Any],
        closing: Plan | None,
    ) -> BatchReport:
        """Close the batch and store its report."""
        now = self._transaction_time(db)
        _accept_tolerated(db, batch, decision)
        report = report_of(counts.closed(now), examined, self._dead_letters(db, batch), made_at=now, **decision)
        db.run("close_batch", batch_id=batch.batch_id, closed_at=now, report=encode_json(report))
        detail = {"reason": decision["reason"], "was": "sealed", "state": "closed", "sha256": report.sha256}
        write_batch_journal(db, batch.batch_id, "close", who=decision["closed_by"], detail=detail)
        if closing is not None:
            _begin_closing(db, closing, report)
        return report

    def _refuse(self, db: Session, counts: Reconciliation, batch: FoundBatch, tolerate: float) -> None:
        dead = self._dead_letters(db, batch, limit=MAX_NAMED, unaccepted=True)
        missing = [] if counts.balances else _missing(db, batch)
        refuse_to_close(counts, tolerate=tolerate, dead=[letter.key for letter in dead], missing=missing)

    def _dead_letters(
        self, db: Session, batch: FoundBatch, *, limit: int = MOST_LISTED, unaccepted: bool = False
    ) -> list[DeadLetter]:
        rows = db.all("dead_letters", **batch.ids, limit=limit, unaccepted=unaccepted)
        return [
            DeadLetter(
                *(*fields, self.dialect.moment(died_at), None if recoverable is None else bool(recoverable), losses)
            )
            for *fields, died_at, recoverable, losses in rows
        ]


def _begin_closing(db: Session, closing: Plan, report: BatchReport) -> None:
    """Begin the one document that the closing steps are for, in a batch of its own."""
    batch_id, _ = open_batch(db, closing, report.batch)
    place = {
        "pipeline_id": closing.pipeline_id,
        "batch_id": batch_id,
        "plan_id": closing.plan_id,
        "step_id": closing.first,
        "submission": 0,
        "part": 0,
    }
    insert_documents(db, place, [NewDocument(report.batch, report.summary(), report.sha256)])
    db.run("seal", batch_id=batch_id)


def _missing(db: Session, batch: FoundBatch) -> list[str]:
    return [row[0] for row in db.all("missing_keys", batch_id=batch.batch_id)]


def _accept_tolerated(db: Session, batch: FoundBatch, decision: dict[str, Any]) -> None:
    by = by_tolerance(decision["tolerance"])
    detail = encode_json({"reason": by, "was": "dead", "state": "dead"})
    db.run("journal_tolerated", **batch.ids, who=decision["closed_by"], detail=detail)
    db.run("accept_tolerated", **batch.ids, accepted_by=by)


def _examine(db: Session, pipeline: str, batch: FoundBatch, *, is_whole: bool) -> Examined:
    workers = db.all("worker_names_since", since=batch.created_at, limit=MOST_LISTED)
    return Examined(
        shape=read_shape(
            db.value("current_shape", pipeline=pipeline), row=f"for the last plan of {pipeline} in hf_plan"
        ),
        holdfast=installed_version(),
        documents_sha256=_hash(db, batch),
        asides=db.value("count_failed_items", batch_id=batch.batch_id),
        cancelled=[row[0] for row in db.all("cancelled_keys", batch_id=batch.batch_id, limit=MOST_LISTED)],
        missing=[] if is_whole else _missing(db, batch)[:MOST_LISTED],
        workers=[row[0] for row in workers],
    )


def _hash(db: Session, batch: FoundBatch) -> str:
    hashed = DocumentsHash()
    start: str | None = ""
    while start is not None:
        page = db.all("documents_to_hash", batch_id=batch.batch_id, start=start, limit=PAGE)
        hashed.add(page)
        start = past(page[-1][0]) if len(page) == PAGE else None
    return hashed.hexdigest()
