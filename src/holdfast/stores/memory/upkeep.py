"""Upkeep in memory: puts right what time and crashes left behind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from holdfast.core.model import OPEN_STATES, Plan, Standing
from holdfast.core.retry import SUSPECT
from holdfast.stores.memory.base import Base
from holdfast.stores.memory.tables import DocumentRow
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
        reason = f"overdue at {step}" if overdue else f"worker {holder} is gone"
        reclaimed = self._change(
            row,
            state=state,
            worker_id=None,
            due_at=row.due_after(delay, now) if state == "waiting" else None,
            deadline_at=None,
            fence=row.fence + 1,
            reason=reason,
            attempts=max(attempts, 0),
            crashes=crashes,
        )
        detail = {"from": holder, "state": state, "reason": reason, "attempts": attempts, "crashes": crashes}
        self._write_journal(reclaimed, "reclaim", who=who, now=now, detail=detail)
        return reclaimed

    def wake(self, plan: Plan) -> int:
        now = self.now()
        with self._writing():
            paused = [row for row in self._documents(plan) if row.state == "paused" and row.due_at is not None]
            rested = [row for row in paused if row.due_at is not None and row.due_at <= now]
            for row in rested:
                self._change(row, state="waiting", reason="")
            return len(rested)

    def suspects_due(self, plan: Plan, *, batch: str | None = None) -> bool:
        now = self.now()
        with self._reading():
            return any(row.crashes >= SUSPECT for row in self._due(plan, batch, now))

    def resume(self, plan: Plan, document_id: int, *, who: str, reason: str) -> bool:
        now = self.now()
        with self._writing():
            row = self._tables.documents.get(document_id)
            if row is None or row.state != "paused":
                return False
            self._write_journal(row, "resume", who=who, now=now, detail={"reason": reason})
            if self._stands_at_a_gate(plan, row):
                self._pass_gate(plan, row, now)
            else:
                self._change(row, state="waiting", due_at=now, reason="")
            return True

    def _stands_at_a_gate(self, plan: Plan, row: DocumentRow) -> bool:
        shape = self._tables.plans[plan.plan_id].shape
        return any(step.kind == "gate" and step.name == self._step_name(row) for step in shape.steps)

    def _pass_gate(self, plan: Plan, row: DocumentRow, now: datetime) -> None:
        """Moves a document to the step after its gate; it is done when the gate was the last."""
        step_ids = [*plan.step_ids.values()]
        later = step_ids[step_ids.index(row.step_id or 0) + 1 :]
        moved = {"cursor": None, "moves": row.moves + 1, "reason": "", "moved_at": now}
        if later:
            self._change(row, state="waiting", step_id=later[0], due_at=now, **moved)
        else:
            done = self._change(row, state="done", step_id=None, due_at=None, **moved)
            self._drop_earlier_generations(done)

    def reject(self, document_id: int, *, who: str, reason: str) -> bool:
        now = self.now()
        with self._writing() as tables:
            row = tables.documents.get(document_id)
            if row is None or row.state != "paused":
                return False
            dead = self._change(row, state="dead", due_at=None, reason=reason)
            self._write_journal(dead, "reject", who=who, now=now, detail={"reason": reason})
            return True

    def cancel(self, document_id: int, *, who: str, reason: str) -> bool:
        now = self.now()
        with self._writing() as tables:
            row = tables.documents.get(document_id)
            if row is None or row.state not in OPEN_STATES:
                return False
            ended = {"worker_id": None, "due_at": None, "deadline_at": None, "fence": row.fence + 1}
            cancelled = self._change(row, state="cancelled", reason=reason, **ended)
            self._write_journal(cancelled, "cancel", who=who, now=now, detail={"reason": reason})
            return True

    def redrive(self, document_id: int, *, who: str, reason: str) -> bool:
        now = self.now()
        with self._writing() as tables:
            row = tables.documents.get(document_id)
            if row is None or row.state != "dead":
                return False
            waiting = self._change(row, state="waiting", due_at=now, attempts=0, crashes=0, reason="")
            self._write_journal(waiting, "redrive", who=who, now=now, detail={"reason": reason})
            return True


def _is_overdue(row: DocumentRow, now: datetime) -> bool:
    return row.deadline_at is not None and row.deadline_at < now
