"""Future times on SQL: what was written by a clock that was ahead is counted, and put right."""

from __future__ import annotations

from typing import Any

from holdfast.core.future_times import CLOCK_TOLERANCE, FutureTimes
from holdfast.core.model import Plan
from holdfast.core.reasons import CLOCK_SET_BACK
from holdfast.stores.protocol import MAX_PER_TRANSACTION, Timeouts
from holdfast.stores.reclaim_rules import restarted_detail
from holdfast.stores.sql.base import Base, write_journal
from holdfast.stores.sql.dialect import Rows
from holdfast.stores.sql.session import Row, Session


class ClockCorrection(Base):
    """Counts times of writing that are in the future, and puts right what follows from them."""

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
