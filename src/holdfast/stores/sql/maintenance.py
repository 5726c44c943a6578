"""Maintenance on SQL: repairs what crashes left behind, and what a clock wrote that was ahead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.codec import encode_json
from holdfast.core.future_times import CLOCK_TOLERANCE, FutureTimes
from holdfast.core.model import STATES, DocumentStatus, JournalEntry, Plan
from holdfast.core.orphans import Orphan, Strategy
from holdfast.core.reasons import CLOCK_SET_BACK
from holdfast.core.worker_deaths import WorkerDeath
from holdfast.stores.protocol import MAX_PER_TRANSACTION, NO_DEATHS, OrphanDecision, StepTimes, Timeouts
from holdfast.stores.reclaim_rules import (
    NO_DELAY,
    HeldDocument,
    ReclaimedDocument,
    reclaimed_by_decision,
    reclaimed_by_strategy,
    restarted_detail,
    verified_detail,
    woken_detail,
)
from holdfast.stores.sql.base import Base, write_journal
from holdfast.stores.sql.decision_rules import DecisionRow
from holdfast.stores.sql.dialect import Rows, stored_reason, without_nul
from holdfast.stores.sql.row_codec import decode_death, journal_entry
from holdfast.stores.sql.session import Row, Session


class ClockCorrection(Base):
    """Count times of writing that are in the future, and put right what follows from them."""

    def future_times(self, pipeline: str) -> FutureTimes:
        def count(db: Session) -> list[Row]:
            known = db.first("pipeline_id", name=pipeline)
            if known is None:
                return []
            place = {"pipeline_id": known[0], "tolerance": CLOCK_TOLERANCE}
            return db.all("count_future_times", **place, priorities=_priorities(db, place))

        counted = [
            FutureTimes(**{kind: rows}, ahead=self.dialect.duration(ahead))
            for kind, rows, ahead in self._read(count)
            if rows
        ]
        return sum(counted, FutureTimes())

    def reset_future_times(
        self, plan: Plan, *, who: str, timeouts: Timeouts, limit: int = MAX_PER_TRANSACTION
    ) -> FutureTimes:
        place = {"pipeline_id": plan.pipeline_id, "tolerance": CLOCK_TOLERANCE}
        spans = Rows(step_id=[plan.step_ids[step] for step in timeouts], timeout=[*timeouts.values()])

        def reset(db: Session) -> FutureTimes:
            waits, running = _future_waits(db, place, limit), db.all("future_running", **place)
            self._restart_waits(db, waits, who)
            if running:
                db.run("reset_running", ids=[row[0] for row in running], timeouts=spans)
            return FutureTimes(
                waiting=len(waits),
                running=len(running),
                workers=db.run("reset_heartbeats", tolerance=CLOCK_TOLERANCE),
                steps=db.run("forget_step_times", **place),
                ahead=self.dialect.duration(max(row[1] for row in waits)) if waits else FutureTimes().ahead,
            )

        return self._write(reset)

    def _restart_waits(self, db: Session, waits: list[Row], who: str) -> None:
        if waits:
            db.run("restart_waits", ids=[row[0] for row in waits])
            details = [(document_id, restarted_detail(self.dialect.duration(ahead))) for document_id, ahead in waits]
            write_journal(
                db, [(document_id, "restart_wait", who, detail, CLOCK_SET_BACK) for document_id, detail in details]
            )


def _priorities(db: Session, place: dict[str, Any]) -> list[int]:
    return [row[0] for row in db.all("waiting_priorities", pipeline_id=place["pipeline_id"])]


def _future_waits(db: Session, place: dict[str, Any], limit: int) -> list[Row]:
    """Return documents that are due too late, one priority after the other: each is in the order of the index."""
    found: list[Row] = []
    for priority in _priorities(db, place):
        if len(found) < limit:
            left = limit - len(found)
            found += db.with_conditions("future_waits", ["waiting"], **place, priority=priority, limit=left)
    if len(found) < limit:
        found += db.with_conditions("future_waits", ["paused"], **place, limit=limit - len(found))
    return found


WORKER_ID = HeldDocument._fields.index("worker_id")


class Maintenance(ClockCorrection):
    """Repair what crashes and the passing of time leave behind."""

    def reclaim(
        self,
        plan: Plan,
        *,
        who: str,
        decide: OrphanDecision,
        gone: Sequence[int] = (),
        deaths: Mapping[int, WorkerDeath] = NO_DEATHS,
    ) -> list[DocumentStatus]:
        wanted = {"pipeline_id": plan.pipeline_id, "gone": [*gone]}

        def reclaim(db: Session) -> list[DocumentStatus]:
            def journal(document_id: int) -> list[JournalEntry]:
                return [journal_entry(row, self.dialect) for row in db.all("journal", document_id=document_id)]

            orphans = [self._orphan(row, deaths) for row in db.all("orphans_to_reclaim", **wanted)]
            taken = _take_away(db, [reclaimed_by_decision(orphan, decide, journal) for orphan in orphans], who)
            db.run("mark_workers_gone", gone=[*gone])
            if deaths:
                db.run("record_deaths", deaths=_death_rows(deaths))
            return taken

        if not gone and not self._first("orphans_to_reclaim", **wanted):
            return []  # the usual case, without a transaction that waits for others
        return self._write(reclaim)

    def resolve_orphans(
        self,
        orphans: Sequence[Orphan],
        *,
        strategy: Strategy,
        who: str,
        reason: str,
        deaths: Mapping[int, WorkerDeath] = NO_DEATHS,
    ) -> list[DocumentStatus]:
        found = {orphan.document.id: orphan for orphan in orphans}

        def resolve(db: Session) -> list[DocumentStatus]:
            rows = db.all("unchanged_orphans", orphans=_orphan_rows([*found.values()]))
            unchanged = [self._orphan(row, deaths) for row in rows]
            taken = [
                reclaimed_by_strategy(held, found[held.id], strategy=strategy, reason=reason) for held in unchanged
            ]
            return _take_away(db, taken, who)

        return self._write(resolve)

    def _orphan(self, row: Row, deaths: Mapping[int, WorkerDeath]) -> HeldDocument:
        *held, heartbeat_at, death = row
        known = deaths.get(held[WORKER_ID]) or decode_death(death)
        return HeldDocument(*[*held, self.dialect.moment(heartbeat_at), known])

    def wake(self, plan: Plan, *, who: str, limit: int = MAX_PER_TRANSACTION) -> int:
        wanted = {"pipeline_id": plan.pipeline_id, "bodies": [*plan.body_ids]}

        def wake(db: Session) -> int:
            woken = [row[0] for row in db.all("wake", **wanted, limit=limit)]
            write_journal(db, [(document_id, "wake", who, woken_detail(), "") for document_id in woken])
            return len(woken)

        return self._write(wake) if self._value("pauses_due", **wanted) else 0

    def set_gate_deadline(self, plan: Plan, gate: str, *, within: timedelta, limit: int = MAX_PER_TRANSACTION) -> int:
        wanted = {"pipeline_id": plan.pipeline_id, "step_id": plan.step_ids[gate]}
        if not self._value("gate_deadlines_missing", **wanted):
            return 0
        return len(self._write(lambda db: db.all("set_gate_deadline", **wanted, within=within, limit=limit)))

    def record_verified(self, at: Mapping[int, int], *, steps: Sequence[str], who: str) -> list[int]:
        def record(db: Session) -> list[int]:
            db.run_if_present("lock_batches", ids=[*at])
            documents = [DecisionRow(*row) for row in db.all("lock_documents", ids=[*at], states=[*STATES])]
            unmoved = [document.id for document in documents if document.moves == at[document.id]]
            write_journal(db, [(document_id, "verify", who, verified_detail(steps), "") for document_id in unmoved])
            return unmoved

        return self._write(record)

    def suspects_due(self, plan: Plan, *, batch: str | None = None, paused: Collection[str] = ()) -> bool:
        place = {"pipeline_id": plan.pipeline_id, "step_ids": plan.claimable_ids(paused)}
        return bool(self._value("suspects_due", **place, batch=batch))

    def begin_scan(self, plan: Plan, *, every: timedelta) -> bool:
        return bool(self._write(lambda db: db.run("begin_scan", pipeline_id=plan.pipeline_id, every=every)))

    def add_step_times(self, plan: Plan, spent: StepTimes, *, worked: Mapping[str, datetime] | None = None) -> None:
        rows = Rows(
            step_id=[plan.step_ids[step] for step in spent],
            documents=[documents for documents, _ in spent.values()],
            seconds=[seconds for _, seconds in spent.values()],
            worked_at=[(worked or {}).get(step) for step in spent],
        )
        self._write(lambda db: db.run("add_step_times", spent=rows))

    def record_rows_left(self, plan: Plan, step: str) -> bool:
        step_id = (plan.step_ids | plan.removed)[step]
        return self._write(lambda db: db.run("record_rows_left", step_id=step_id)) == 1


def _take_away(db: Session, taken: Sequence[ReclaimedDocument], who: str) -> list[DocumentStatus]:
    """Take orphans from their workers. What those still write will match nothing."""
    db.run("reclaim", orphans=_taken_rows(taken))
    write_journal(db, [(orphan.id, "reclaim", who, orphan.detail, orphan.code) for orphan in taken])
    return db.documents("documents_by_id", ids=[orphan.id for orphan in taken])


def _orphan_rows(orphans: Sequence[Orphan]) -> Rows:
    """Return at which claim and move each orphan was found, and the last heartbeat of its worker if that is silent."""
    return Rows(
        id=[orphan.document.id for orphan in orphans],
        fence=[orphan.fence for orphan in orphans],
        generation=[orphan.document.checkpoint.generation for orphan in orphans],
        moves=[orphan.document.checkpoint.moves for orphan in orphans],
        beat_at=[None if orphan.alive else orphan.since for orphan in orphans],
    )


def _taken_rows(taken: Sequence[ReclaimedDocument]) -> Rows:
    return Rows(
        id=[orphan.id for orphan in taken],
        fence=[orphan.fence for orphan in taken],
        state=[orphan.state for orphan in taken],
        delay=[orphan.delay for orphan in taken],
        at_once=[int(orphan.delay == NO_DELAY) for orphan in taken],
        reason=[stored_reason(orphan.reason) for orphan in taken],
        code=[orphan.code for orphan in taken],
        error=[orphan.error for orphan in taken],
        attempts=[orphan.attempts for orphan in taken],
        crashes=[orphan.crashes for orphan in taken],
        losses=[orphan.losses for orphan in taken],
        recoverable=[orphan.recoverable for orphan in taken],
    )


def _death_rows(deaths: Mapping[int, WorkerDeath]) -> Rows:
    return Rows(id=[*deaths], death=[without_nul(encode_json(death)) for death in deaths.values()])
