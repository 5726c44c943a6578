"""Upkeep in memory: puts right what time and crashes left behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from holdfast.core.model import Plan, Standing
from holdfast.core.retry import SUSPECT
from holdfast.stores.memory.base import Base
from holdfast.stores.memory.tables import DocumentRow
from holdfast.stores.parts import why_reclaimed
from holdfast.stores.protocol import Verdict


class Upkeep(Base):
    """Puts right what time and crashes left behind."""

    def reclaim(self, plan: Plan, *, who: str, verdict: Verdict, gone: Sequence[int] = ()) -> list[Standing]:
        now = self.now()
        with self._writing() as tables:
            silent = {row.worker.id for row in tables.workers.values() if row.gone or row.is_stale(now)} | {*gone}
            held = [row for row in self._documents(plan) if row.state == "running"]
            orphans = [row for row in held if row.worker_id in silent or _is_overdue(row, now)]
            if orphans or gone:
                self._bury(silent)
            reclaimed = [
                self._reclaim(row, who=who, verdict=verdict, overdue=row.worker_id not in silent, now=now)
                for row in orphans
            ]
            return [self._standing(row) for row in reclaimed]

    def _bury(self, silent: set[int]) -> None:
        """Workers that are silent, or known to be gone, will not be listened to again."""
        workers = self._tables.workers
        for worker_id in silent & workers.keys():
            workers[worker_id] = replace(workers[worker_id], gone=True)

    def _reclaim(self, row: DocumentRow, *, who: str, verdict: Verdict, overdue: bool, now: datetime) -> DocumentRow:
        """Lets an orphan wait again, or makes it a dead letter. What its worker still writes will match nothing."""
        step, holder = self._step_name(row) or "", self._tables.workers[row.worker_id or 0].worker.name
        attempts, crashes = row.attempts, row.crashes
        if not overdue:  # the attempt that was counted at the claim turns out to be a crash
            attempts, crashes = attempts - 1, crashes + 1
        state, delay = verdict(step, attempts, crashes)
        error, reason = why_reclaimed(step, holder, overdue=overdue)
        reclaimed = self._change(
            row,
            state=state,
            worker_id=None,
            due_at=row.due_after(delay, now) if state == "waiting" else None,
            deadline_at=None,
            fence=row.fence + 1,
            reason=reason,
            error=error,
            attempts=max(attempts, 0),
            crashes=crashes,
        )
        detail = {"from": holder, "state": state, "reason": reason, "attempts": attempts, "crashes": crashes}
        self._write_journal(reclaimed, "reclaim", who=who, now=now, detail=detail)
        return reclaimed

    def wake(self, plan: Plan) -> int:
        now = self.now()
        with self._writing():
            paused = [row for row in self._documents(plan) if row.state == "paused"]
            asleep = [row for row in paused if row.step_id not in plan.gate_ids]
            rested = [row for row in asleep if row.due_at is not None and row.due_at <= now]
            for row in rested:
                self._change(row, state="waiting", reason="", error="")
            return len(rested)

    def suspects_due(self, plan: Plan, *, batch: str | None = None) -> bool:
        now = self.now()
        with self._reading():
            return any(row.crashes >= SUSPECT for row in self._due(plan, batch, now))


def _is_overdue(row: DocumentRow, now: datetime) -> bool:
    return row.deadline_at is not None and row.deadline_at < now
